//! How the time of a turn's compaction is shared by its steps, and by the models of a step. Pure:
//! time is an argument.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Drafts;

/// Kept for the summaries that need no model, or half of the time where there is less than twice
/// as much.
const FALLBACK_TIME: Duration = Duration::from_secs(1);
/// A step that asks no model may take this long, or the whole deadline where that is shorter, even
/// where the turn's time is over. It is done in a fraction of that, but on a machine that is busy.
const MODEL_FREE_TIME: Duration = Duration::from_secs(5);

/// How long the compaction of a turn may take. Clones are one: what is set holds for those that
/// begin later.
#[derive(Clone, Debug)]
pub struct Deadline(Arc<AtomicU64>);

impl Deadline {
    /// From now on.
    pub fn set(&self, deadline: Duration) {
        self.0.store(millis(deadline), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl From<Duration> for Deadline {
    fn from(deadline: Duration) -> Deadline {
        Deadline(Arc::new(AtomicU64::new(millis(deadline))))
    }
}

fn millis(deadline: Duration) -> u64 {
    u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)
}

/// When the compaction of a turn began, and what was written ahead in it. All its steps have clones
/// of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompactionStart {
    first: Arc<OnceLock<Instant>>,
    pub(super) drafts: Drafts,
}

impl CompactionStart {
    /// With the first of its steps that is carried out.
    pub(super) fn at(&self, now: Instant) -> Instant {
        *self.first.get_or_init(|| now)
    }
}

/// When a step must be done with what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    /// With asking models.
    models: Instant,
    /// With all of it.
    pub(super) step: Instant,
}

impl Allowance {
    /// That of a step that starts now, in a turn whose compaction began then and may take so long.
    pub(super) fn new(began: Instant, now: Instant, deadline: Duration) -> Allowance {
        Allowance {
            models: began + deadline.saturating_sub(FALLBACK_TIME).max(deadline / 2),
            step: (began + deadline).max(now + MODEL_FREE_TIME.min(deadline)),
        }
    }

    /// Whether models may still be asked.
    pub(super) fn has_time(&self, now: Instant) -> bool {
        now < self.models
    }

    /// When the next of so many models must be done: each has an equal share of what is left. None
    /// where nothing is.
    pub(super) fn share(&self, now: Instant, models: usize) -> Option<Instant> {
        let models = u32::try_from(models.max(1)).unwrap_or(u32::MAX);
        let left = self.models.saturating_duration_since(now);
        self.has_time(now).then(|| now + left / models)
    }
}

#[cfg(test)]
mod tests {
    //! Models share all but the last second, of the turn and not of each step.

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn models_share_all_but_the_last_second() {
        let now = Instant::now();
        let seconds = Duration::from_secs_f64;
        let rows = [
            (30.0, 1, Some(29.0)),
            (30.0, 2, Some(14.5)),
            (3.0, 1, Some(2.0)),
            (1.5, 1, Some(0.75)),
            (1.5, 3, Some(0.25)),
            (0.0, 1, None),
        ];
        for (deadline, models, expected) in rows {
            let allowance = Allowance::new(now, now, seconds(deadline));
            let expected = expected.map(|share| now + seconds(share));
            assert_eq!(allowance.share(now, models), expected);
            assert_eq!(allowance.step, now + seconds(deadline));
        }
    }

    #[test]
    fn a_later_step_has_the_remaining_time_and_always_time_without_a_model() {
        let began = Instant::now();
        // After so many seconds of 30: what models may take, and the step.
        let rows = [
            (0, Some(29), 30),
            (20, Some(9), 10),
            (28, Some(1), 5),
            (29, None, 5),
            (31, None, 5),
            (3_600, None, 5),
        ];
        for (after, models, step) in rows {
            let now = began + SECOND * after;
            let allowance = Allowance::new(began, now, SECOND * 30);
            let share = allowance.share(now, 1);
            assert_eq!(share, models.map(|left| now + SECOND * left), "{after}");
            assert_eq!(allowance.step, now + SECOND * step, "{after}");
        }
        let short = Allowance::new(began, began + SECOND * 2, SECOND);
        assert_eq!(
            short.step,
            began + SECOND * 3,
            "never more than the deadline"
        );
    }

    #[test]
    fn the_first_step_sets_the_start() {
        let (began, now) = (CompactionStart::default(), Instant::now());
        assert_eq!(began.at(now), now);
        assert_eq!(began.clone().at(now + SECOND), now);
    }
}
