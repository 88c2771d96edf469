//! Decides when a failed actor is restarted. Pure: time is an argument.

use std::collections::VecDeque;

use unisono_context::Timestamp;

/// At most `max` restarts in `within_ms`; pauses double from `first_pause_ms`, with full jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intensity {
    /// Restarts allowed…
    pub max: u32,
    /// … in this time.
    pub within_ms: i64,
    /// The longest first pause.
    pub first_pause_ms: u64,
    /// The maximum pause.
    pub longest_pause_ms: u64,
}

impl Default for Intensity {
    fn default() -> Intensity {
        Intensity {
            max: 5,
            within_ms: 60_000,
            first_pause_ms: 50,
            longest_pause_ms: 5_000,
        }
    }
}

/// The decision about a failed actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    After {
        pause_ms: u64,
    },
    /// It failed too often.
    GiveUp,
}

/// The recent failures of one actor.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<Timestamp>);

impl History {
    /// Records a failure. `random` is any number, for the jitter. Failures in the future were recorded
    /// before the clock was set back, and are forgotten.
    pub(crate) fn failed(&mut self, limit: Intensity, now: Timestamp, random: u64) -> Verdict {
        let recent = 0..limit.within_ms;
        self.0.retain(|at| recent.contains(&now.ms_since(*at)));
        self.0.push_back(now);
        let failures = self.0.len() as u32;
        if failures > limit.max {
            return Verdict::GiveUp;
        }
        let doubled = limit
            .first_pause_ms
            .saturating_mul(1 << (failures - 1).min(32));
        let ceiling = doubled.min(limit.longest_pause_ms).max(1);
        Verdict::After {
            pause_ms: random % ceiling,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_under_their_ceiling_and_the_sixth_failure_gives_up() {
        let mut history = History::default();
        let ceilings = [50, 100, 200, 400, 800];
        for (n, ceiling) in ceilings.into_iter().enumerate() {
            let verdict = history.failed(Intensity::default(), Timestamp(n as i64), u64::MAX - 1);
            let Verdict::After { pause_ms } = verdict else {
                panic!("gave up early");
            };
            assert!(pause_ms < ceiling);
        }
        let sixth = history.failed(Intensity::default(), Timestamp(6), 0);
        assert_eq!(sixth, Verdict::GiveUp);
    }

    #[test]
    fn old_and_future_failures_are_forgotten() {
        let mut history = History::default();
        for minute in (0..100).chain((0..100).rev()) {
            let verdict = history.failed(Intensity::default(), Timestamp(minute * 60_000), 7);
            assert_eq!(verdict, Verdict::After { pause_ms: 7 });
        }
    }
}
