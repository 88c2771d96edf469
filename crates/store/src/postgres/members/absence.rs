//! The time without beats of this program: it had no database, or the database was set back to an earlier
//! state. Without I/O.

use std::time::Duration;

use tokio::time::Instant;

/// A time without beats of this program, after which it counted as gone; or one during which the
/// database was down, before this program joined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    /// When its last beat before it began.
    since: Instant,
    /// When it was back.
    until: Instant,
}

impl Absence {
    /// The absence from the last beat until now. Absences whose grace periods meet are one.
    pub(super) fn new(
        before: Option<Absence>,
        seen: Instant,
        now: Instant,
        lease: Duration,
    ) -> Absence {
        let joined = before.filter(|before| seen < before.until + lease);
        Absence {
            since: joined.map_or(seen, |before| before.since.min(seen)),
            until: now,
        }
    }

    /// How old the beat of another program may be that counts as alive. The others may have been cut
    /// off too: for one lease after the return, those that were alive before count as alive.
    pub(super) fn lease_of_others(
        absence: Option<Absence>,
        now: Instant,
        lease: Duration,
    ) -> Duration {
        match absence.filter(|absence| now < absence.until + lease) {
            Some(absence) => lease + now.duration_since(absence.since),
            None => lease,
        }
    }
}

/// When an absence began: at the last beat by this program's own clock, or as long ago as that is by the
/// database's clock. If that clock was set forward, the beats of all programs look as old, and all of them
/// have time to come back.
pub(super) fn began(seen: Instant, now: Instant, age: Duration) -> Instant {
    now.checked_sub(age).map_or(seen, |began| began.min(seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_forward_gives_all_programs_time_to_come_back() {
        let lease = Duration::from_secs(10);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let rows = [
            // The last beat, the return, the age of that beat, and from which age on another is gone.
            (200, 201, 1, 11),
            (200, 201, 60, 70),
            (140, 200, 60, 70),
            // The database was set back meanwhile, or another program has this one's row.
            (140, 200, 0, 70),
        ];
        for (seen, now, age, gone) in rows {
            let age = Duration::from_secs(age);
            let absence = Absence::new(None, began(at(seen), at(now), age), at(now), lease);
            let lease = Absence::lease_of_others(Some(absence), at(now), lease);
            assert_eq!(lease.as_secs(), gone, "{seen} {now} {age:?}");
        }
        // Right after another absence.
        let before = Absence::new(None, at(190), at(201), lease);
        let began = began(at(204), at(205), Duration::from_secs(60));
        let absence = Absence::new(Some(before), began, at(205), lease);
        let of_others = Absence::lease_of_others(Some(absence), at(205), lease);
        assert_eq!(of_others.as_secs(), 70);
    }

    #[test]
    fn programs_that_were_alive_before_an_absence_have_one_lease_to_come_back() {
        let lease = Duration::from_secs(10);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let of = |absence, now| Absence::lease_of_others(absence, at(now), lease).as_secs();
        assert_eq!(of(None, 99), 10);
        // Cut off from 100 to 150.
        let first = Absence::new(None, at(100), at(150), lease);
        assert_eq!(of(Some(first), 150), 60);
        assert_eq!(of(Some(first), 159), 69);
        assert_eq!(of(Some(first), 160), 10);
        // Again before the others had that time, and after it.
        let again = Absence::new(Some(first), at(155), at(170), lease);
        assert_eq!(of(Some(again), 170), 80);
        let later = Absence::new(Some(first), at(165), at(180), lease);
        assert_eq!(of(Some(later), 180), 25);
    }
}
