//! The permits of compaction steps. A step that finds the queue full calls no model. Such steps have
//! as many permits of their own and wait for them: their work needs the processors, and all of it at
//! once would not end in time.

use unisono_context::SessionId;

use crate::fair_queue::{Admission, FairQueue};
use crate::load::{Gauge, GaugePart};

/// What a step with a permit may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// It may call models.
    WithModels,
    /// It calls no model.
    WithoutModels,
}

/// Running and waiting steps.
pub(super) struct Queues<T> {
    with_models: FairQueue<(SessionId, T)>,
    /// Without a bound: a session has at most one step per open turn, and none of them is rejected.
    without_models: FairQueue<(SessionId, T)>,
}

impl<T> Queues<T> {
    /// This number of permits for each kind of step; `bound` steps wait for a permit with models.
    pub(super) fn new(permits: usize, bound: usize, gauge: &Gauge) -> Queues<T> {
        Queues {
            with_models: FairQueue::new(permits, bound, GaugePart::new(gauge)),
            without_models: FairQueue::new(permits, usize::MAX, GaugePart::new(gauge)),
        }
    }

    /// Whether a step would get a permit with models at once.
    pub(super) fn has_free_permit(&self) -> bool {
        self.with_models.has_free_permit()
    }

    /// Requests a permit for a step. Returns the step that starts now: this one, or one that it
    /// displaces from the queue.
    pub(super) fn offer(&mut self, session: SessionId, step: T) -> Option<(T, Permit)> {
        let displaced = match self.with_models.offer(session, (session, step)) {
            Admission::Start((_, step)) => return Some((step, Permit::WithModels)),
            Admission::Queued => return None,
            Admission::Full(displaced) => displaced,
        };
        match self.without_models.offer(displaced.0, displaced) {
            Admission::Start((_, step)) => Some((step, Permit::WithoutModels)),
            Admission::Queued | Admission::Full(_) => None,
        }
    }

    /// A step has ended: returns the step that gets its permit.
    pub(super) fn done(&mut self, permit: Permit) -> Option<T> {
        let queue = match permit {
            Permit::WithModels => &mut self.with_models,
            Permit::WithoutModels => &mut self.without_models,
        };
        queue.done().map(|(_, step)| step)
    }

    /// Removes the waiting steps that are not wanted any more.
    pub(super) fn withdraw(&mut self, is_unwanted: impl Fn(&T) -> bool) {
        for queue in [&mut self.with_models, &mut self.without_models] {
            drop(queue.withdraw(|(_, step)| is_unwanted(step)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_beside_a_full_queue_wait_for_permits_of_their_own() {
        let gauge = Gauge::default();
        let mut queues = Queues::new(1, 1, &gauge);
        let mut offer = |step: u128| queues.offer(SessionId::from_u128(step), step);
        assert_eq!(offer(1), Some((1, Permit::WithModels)));
        assert_eq!(offer(2), None);
        assert_eq!(offer(3), Some((3, Permit::WithoutModels)));
        assert_eq!([4, 5, 6].map(offer), [None; 3]);
        assert_eq!((gauge.working(), gauge.waiting()), (2, 4));
        queues.withdraw(|step| *step == 5);
        assert_eq!(queues.done(Permit::WithoutModels), Some(4));
        assert_eq!(queues.done(Permit::WithModels), Some(2));
        assert_eq!(queues.done(Permit::WithModels), None);
        assert!(queues.has_free_permit());
        assert_eq!(queues.done(Permit::WithoutModels), Some(6));
        assert_eq!(queues.done(Permit::WithoutModels), None);
        assert_eq!((gauge.working(), gauge.waiting()), (0, 0));
    }
}
