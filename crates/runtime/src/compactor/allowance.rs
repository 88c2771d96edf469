//! Divides the time of a turn's compaction among its steps, and among the models of a step. Pure:
//! time is an argument.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Drafts;

/// The time that is kept for summaries without a model, or half of the deadline if that is less
/// than twice as long.
const FALLBACK_TIME: Duration = Duration::from_secs(1);
/// The maximum time of a step without a model, or the whole deadline if that is shorter, even after
/// the deadline of the turn. The step takes a fraction of it, except on a busy machine.
const MODEL_FREE_TIME: Duration = Duration::from_secs(5);

/// The start of a turn's compaction, and its drafts. All its steps share one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompactionStart {
    first: Arc<OnceLock<Instant>>,
    pub(super) drafts: Drafts,
}

impl CompactionStart {
    /// The start of the first step that is carried out.
    pub(super) fn deadline_at(&self, now: Instant) -> Instant {
        *self.first.get_or_init(|| now)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    models: Instant,
    /// The deadline of the whole step.
    pub(super) step: Instant,
}

impl Allowance {
    /// The deadlines of a step that starts now, in a compaction that began at `began` with this
    /// deadline.
    pub(super) fn new(began: Instant, now: Instant, deadline: Duration) -> Allowance {
        Allowance {
            models: began + deadline.saturating_sub(FALLBACK_TIME).max(deadline / 2),
            step: (began + deadline).max(now + MODEL_FREE_TIME.min(deadline)),
        }
    }

    /// The deadline of a step that starts now and calls no model.
    pub(super) fn without_models(now: Instant, deadline: Duration) -> Allowance {
        Allowance {
            models: now,
            step: now + MODEL_FREE_TIME.min(deadline),
        }
    }

    /// Whether models may still be called.
    pub(super) fn has_time(&self, now: Instant) -> bool {
        now < self.models
    }

    /// The deadline of the next of this number of models: each has an equal share of the remaining
    /// time. None if no time remains.
    pub(super) fn share(&self, now: Instant, models: usize) -> Option<Instant> {
        let models = u32::try_from(models.max(1)).unwrap_or(u32::MAX);
        let left = self.models.saturating_duration_since(now);
        self.has_time(now).then(|| now + left / models)
    }
}

#[cfg(test)]
mod tests {
    //! Models share all but the last second of the turn, not of each step.

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
        // After this number of seconds of 30: the deadlines of models and of the step.
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
        let crowded = Allowance::without_models(began, SECOND * 30);
        assert_eq!(crowded.share(began, 1), None);
        assert_eq!(crowded.step, began + SECOND * 5);
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
        assert_eq!(began.deadline_at(now), now);
        assert_eq!(began.clone().deadline_at(now + SECOND), now);
    }
}
