//! Failed repairs of a degraded checkpoint, and the pause before the next attempt.

use crate::ids::Timestamp;

/// The pause after the first failed repair of a checkpoint; each further failure doubles it …
const PAUSE_MS: i64 = 60_000;
/// … up to this.
const PAUSE_MAX_MS: i64 = 24 * 3_600_000;

/// The failed repairs of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedRepairs {
    /// Their number.
    pub times: u32,
    /// The time of the last one.
    pub last: Timestamp,
}

impl FailedRepairs {
    /// The pause between the last failure and the next attempt, in milliseconds.
    pub fn pause_ms(self) -> i64 {
        let doubled = self.times.saturating_sub(1).min(20);
        (PAUSE_MS << doubled).min(PAUSE_MAX_MS)
    }

    /// Whether the next attempt must wait. A clock that was set back does not make it wait longer
    /// than the pause.
    pub fn waits(self, now: Timestamp) -> bool {
        let passed = now.ms_since(self.last);
        (0..self.pause_ms()).contains(&passed)
    }
}

#[cfg(test)]
mod tests {
    //! The pauses between attempts.

    use super::*;

    #[test]
    fn each_failure_doubles_the_pause_up_to_a_day() {
        let pause = |times| {
            let last = Timestamp(0);
            FailedRepairs { times, last }.pause_ms() / PAUSE_MS
        };
        let minutes: Vec<i64> = (1..=5).map(pause).collect();
        assert_eq!(minutes, [1, 2, 4, 8, 16]);
        assert_eq!((pause(11), pause(12)), (1_024, 1_440));
        assert_eq!(pause(u32::MAX), 1_440);
    }

    #[test]
    fn it_waits_for_the_pause_and_not_for_a_clock_that_was_set_back() {
        let failed = FailedRepairs {
            times: 2,
            last: Timestamp(1_000_000),
        };
        let rows = [
            (0, true),
            (2 * PAUSE_MS - 1, true),
            (2 * PAUSE_MS, false),
            (-1, false),
        ];
        for (after, waits) in rows {
            assert_eq!(failed.waits(failed.last.plus_ms(after)), waits, "{after}");
        }
    }
}
