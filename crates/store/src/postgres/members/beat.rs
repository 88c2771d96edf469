//! Computes the state of the group from the rows of all members at a beat. Without I/O.

use std::time::Duration;

use uuid::Uuid;

use crate::engine::{Announcement, Beat, Member, ProviderPause};

/// A member that missed this many beats may be gone.
const SILENT_BEATS: u32 = 2;
/// The resolution of the members' times.
const TICK: Duration = Duration::from_millis(1);

pub(super) struct MemberRow {
    pub(super) instance: Uuid,
    pub(super) member: Member,
    /// Whether it waits for budget that others may not need.
    pub(super) is_short: bool,
    /// How long it has been waiting for its turn, if it says so.
    pub(super) waited: Option<Duration>,
    /// Whether its sessions free budget by themselves.
    pub(super) is_spending: bool,
    /// Whether the database refuses its writes.
    pub(super) is_refused: bool,
}

/// A program's own data at a beat.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnBeat<'a> {
    pub(super) instance: Uuid,
    pub(super) announced: &'a Announcement,
    pub(super) drains: bool,
    /// Whether the previous beat was too long ago by this program's own clock.
    pub(super) is_late: bool,
    /// The sum of the versions of all shared documents and of the tokens, if it is known.
    pub(super) documents: Option<u64>,
    /// The last entry of the journal of automatic starts, if it is known.
    pub(super) starts: Option<u64>,
    /// Whether sessions wait for a member that can work on them.
    pub(super) some_wait: bool,
    /// The holds of providers and models.
    pub(super) holds: &'a [ProviderPause],
}

/// Computes the state after a beat from the rows before it. Without I/O.
pub(super) fn next(before: &Beat, members: &[MemberRow], of: OwnBeat<'_>) -> Beat {
    let OwnBeat {
        instance,
        announced,
        drains,
        is_late,
        documents,
        starts,
        some_wait,
        holds,
    } = of;
    let own = members.iter().find(|known| known.member.is_self);
    let own = own.filter(|own| own.instance == instance);
    // Before the first beat there is no row, or the row of an earlier start.
    let is_first = before.count == 0;
    let held = !is_late && own.is_some_and(|own| own.member.is_alive);
    let others = || members.iter().filter(|known| !known.member.is_self);
    let alive = || others().filter(|known| known.member.is_alive);
    let differs = |known: &&MemberRow| {
        let theirs = &known.member.announced;
        let both = theirs.agents.is_some() && announced.agents.is_some();
        both && theirs.agents != announced.agents
    };
    Beat {
        count: before.count + 1,
        lapses: before.lapses + u64::from(!held && !is_first),
        has_gone: some_wait || others().any(|known| !known.member.is_alive),
        alive: alive().count() + 1,
        addresses: alive()
            .filter_map(|known| known.member.announced.address.clone())
            .collect(),
        documents: documents.unwrap_or(before.documents),
        starts: starts.unwrap_or(before.starts),
        is_draining: own.map_or(drains, |own| own.member.is_draining),
        others_take_sessions: members.iter().any(|known| known.member.takes_sessions()),
        differing: alive()
            .filter(differs)
            .map(|known| known.member.name.clone())
            .collect(),
        is_budget_wanted: alive().any(|known| known.is_short),
        budget_wait: alive().filter_map(|known| known.waited).max(),
        is_budget_coming: alive().any(|known| known.is_spending),
        holds: holds.to_vec(),
        ..Beat::default()
    }
}

/// Returns the time until the next beat: shorter than the usual pause if the lease of a silent member
/// ends before, so that its sessions are taken over at once.
pub(super) fn next_pause(
    members: &[MemberRow],
    usual: Duration,
    takeover_after: Duration,
) -> Duration {
    let others = members.iter().map(|known| &known.member);
    let silent = others.filter(|member| {
        !member.is_self && member.is_alive && member.beat_age > usual * SILENT_BEATS
    });
    let ends = silent.map(|member| takeover_after.saturating_sub(member.beat_age) + TICK);
    ends.fold(usual, Duration::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_beat(announced: &Announcement) -> OwnBeat<'_> {
        OwnBeat {
            instance: Uuid::from_u128(1),
            announced,
            drains: false,
            is_late: false,
            documents: None,
            starts: None,
            some_wait: false,
            holds: &[],
        }
    }

    fn known(n: u128, age_ms: u64, change: impl Fn(&mut MemberRow)) -> MemberRow {
        let mut known = MemberRow {
            instance: Uuid::from_u128(n),
            member: Member {
                id: Uuid::from_u128(n),
                name: format!("m{n}"),
                version: "1".to_owned(),
                announced: Announcement::default(),
                joined_unix_ms: 0,
                beat_age: Duration::from_millis(age_ms),
                is_alive: age_ms < 10_000,
                is_draining: false,
                is_self: n == 1,
            },
            is_short: false,
            waited: None,
            is_spending: false,
            is_refused: false,
        };
        change(&mut known);
        known
    }

    #[test]
    fn a_beat_says_who_lives_and_whether_this_program_was_taken_to_be_gone() {
        let plain = |n, age| known(n, age, |_| ());
        let foreign = known(1, 5, |one| one.instance = Uuid::from_u128(7));
        let started = Beat {
            count: 1,
            ..Beat::default()
        };
        let rows = [
            // before, rows, lapses, gone, alive
            (Beat::default(), vec![], 0, false, 1),
            (Beat::default(), vec![plain(1, 99_000)], 0, false, 1),
            (started.clone(), vec![plain(1, 900)], 0, false, 1),
            (started.clone(), vec![plain(1, 10_000)], 1, false, 1),
            (started.clone(), vec![], 1, false, 1),
            (started.clone(), vec![foreign], 1, false, 1),
            (
                started.clone(),
                vec![plain(1, 900), plain(2, 9_999), plain(3, 10_000)],
                0,
                true,
                2,
            ),
        ];
        for (before, members, lapses, has_gone, alive) in rows {
            let beat = next(&before, &members, own_beat(&Announcement::default()));
            let seen = (beat.lapses, beat.has_gone, beat.alive);
            assert_eq!(seen, (lapses, has_gone, alive), "{before:?}");
            assert_eq!(beat.count, before.count + 1);
        }
        let at = |n: u128, age, address: &str| {
            known(n, age, |one| {
                one.member.announced.address = Some(address.to_owned());
            })
        };
        let members = [
            at(1, 900, "own"),
            at(2, 900, "alive"),
            at(3, 10_000, "gone"),
        ];
        let beat = next(&started, &members, own_beat(&Announcement::default()));
        assert_eq!(beat.addresses, ["alive"]);
        let announced = Announcement::default();
        let late = OwnBeat {
            is_late: true,
            ..own_beat(&announced)
        };
        assert_eq!(next(&started, &[plain(1, 9)], late).lapses, 1);
    }

    #[test]
    fn the_end_of_a_silent_members_lease_is_not_waited_for_longer_than_needed() {
        let (usual, lease) = (Duration::from_secs(1), Duration::from_secs(10));
        let plain = |n, age| known(n, age, |_| ());
        let rows = [
            (vec![plain(1, 9_900), plain(2, 900)], 1_000),
            (vec![plain(1, 0), plain(2, 2_001)], 1_000),
            (vec![plain(1, 0), plain(2, 9_400), plain(3, 9_100)], 601),
            (vec![plain(1, 0), plain(2, 9_999)], 2),
            // Already gone.
            (vec![plain(1, 0), plain(2, 10_000)], 1_000),
        ];
        for (members, expected) in rows {
            let pause = next_pause(&members, usual, lease);
            assert_eq!(pause.as_millis(), expected);
        }
    }

    #[test]
    fn budget_is_wanted_or_coming_while_another_live_member_says_so() {
        let short = |n, age| known(n, age, |one| (one.is_short, one.is_spending) = (true, true));
        let rows = [
            (vec![known(1, 0, |_| ()), known(2, 0, |_| ())], false),
            // Its own want is not another's.
            (vec![short(1, 0), known(2, 0, |_| ())], false),
            (vec![known(1, 0, |_| ()), short(2, 9_999)], true),
            (vec![known(1, 0, |_| ()), short(2, 10_000)], false),
        ];
        for (members, is_wanted) in rows {
            let beat = next(
                &Beat::default(),
                &members,
                own_beat(&Announcement::default()),
            );
            let seen = (beat.is_budget_wanted, beat.is_budget_coming);
            assert_eq!(seen, (is_wanted, is_wanted));
        }
    }

    #[test]
    fn the_first_of_the_other_live_members_that_wait_is_known() {
        let waits = |n, age, ms| {
            known(n, age, |one| {
                (one.is_short, one.waited) = (true, Some(Duration::from_millis(ms)));
            })
        };
        let unordered = known(4, 0, |one| one.is_short = true);
        let members = [
            waits(1, 0, 900),
            waits(2, 0, 300),
            waits(3, 10_000, 700),
            unordered,
        ];
        let beat = next(
            &Beat::default(),
            &members,
            own_beat(&Announcement::default()),
        );
        assert!(beat.is_budget_wanted);
        assert_eq!(beat.budget_wait, Some(Duration::from_millis(300)));
    }

    #[test]
    fn new_sessions_are_taken_by_another_live_member_that_is_reached_and_not_drained() {
        let at = |n, age, drained| {
            known(n, age, |one| {
                one.member.announced.address = Some("there".to_owned());
                one.member.is_draining = drained;
            })
        };
        let rows = [
            (at(1, 0, false), false),
            (at(2, 0, false), true),
            (at(2, 0, true), false),
            (at(2, 10_000, false), false),
            (known(2, 0, |_| ()), false),
        ];
        for (member, others_take_sessions) in rows {
            let beat = next(
                &Beat::default(),
                &[member],
                own_beat(&Announcement::default()),
            );
            assert_eq!(beat.others_take_sessions, others_take_sessions);
        }
    }

    #[test]
    fn a_member_is_drained_by_its_own_row_and_told_whose_agents_differ() {
        let announced = |digest: u8| Announcement {
            agents: Some(vec![digest]),
            ..Announcement::default()
        };
        let members = [
            known(1, 0, |one| one.member.is_draining = true),
            known(2, 0, |other| other.member.announced = announced(1)),
            known(3, 0, |other| other.member.announced = announced(2)),
            known(4, 99_000, |other| other.member.announced = announced(2)),
            known(5, 0, |_| ()),
        ];
        let beat = next(&Beat::default(), &members, own_beat(&announced(1)));
        assert!(beat.is_draining);
        assert_eq!(beat.differing, ["m3"]);
        for drains in [true, false] {
            let announced = announced(1);
            let other = OwnBeat {
                instance: Uuid::from_u128(9),
                drains,
                ..own_beat(&announced)
            };
            let beat = next(&Beat::default(), &members, other);
            assert_eq!(beat.is_draining, drains, "its row is not there yet");
        }
    }
}
