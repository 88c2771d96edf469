//! Admission to a bounded number of places: start, wait in a bounded queue, or be turned away.

use std::collections::VecDeque;

use crate::load::Part;

/// Jobs that run and jobs that wait, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    running: usize,
    places: usize,
    waiting: VecDeque<T>,
    /// Those that lent their place and want it back.
    returning: VecDeque<T>,
    bound: usize,
    /// Told how many run and wait.
    told: Part,
}

/// What became of an offered job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer<T> {
    /// It has a place: start it.
    Start(T),
    /// It waits.
    Queued,
    /// The queue is full.
    Full(T),
}

impl<T> Lane<T> {
    /// A lane with so many places (at least one) and a queue of at most `bound`.
    pub(crate) fn new(places: usize, bound: usize, told: Part) -> Lane<T> {
        Lane {
            running: 0,
            places: places.max(1),
            waiting: VecDeque::new(),
            returning: VecDeque::new(),
            bound,
            told,
        }
    }

    fn tell(&mut self) {
        let waiting = self.waiting.len() + self.returning.len();
        self.told.set(self.running, waiting);
    }

    /// Asks for a place.
    pub(crate) fn offer(&mut self, job: T) -> Offer<T> {
        let offer = if self.running < self.places {
            self.running += 1;
            Offer::Start(job)
        } else if self.waiting.len() < self.bound {
            self.waiting.push_back(job);
            Offer::Queued
        } else {
            Offer::Full(job)
        };
        self.tell();
        offer
    }

    /// Asks for a place again for a job that lent its own ([`Lane::done`]): ahead of those that
    /// had none yet, and never turned away. Gives it back where it can go on at once.
    pub(crate) fn take_back(&mut self, job: T) -> Option<T> {
        if self.running < self.places {
            self.running += 1;
            self.tell();
            return Some(job);
        }
        self.returning.push_back(job);
        self.tell();
        None
    }

    /// A running job is done, or lends its place: gives the one that takes it.
    pub(crate) fn done(&mut self) -> Option<T> {
        let returning = self.returning.pop_front();
        let next = returning.or_else(|| self.waiting.pop_front());
        if next.is_none() {
            self.running = self.running.saturating_sub(1);
        }
        self.tell();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Gauge;

    #[test]
    fn jobs_start_wait_and_are_turned_away_in_that_order() {
        let mut lane = Lane::new(1, 1, Part::default());
        assert_eq!(lane.offer('a'), Offer::Start('a'));
        assert_eq!(lane.offer('b'), Offer::Queued);
        assert_eq!(lane.offer('c'), Offer::Full('c'));
        assert_eq!(lane.done(), Some('b'));
        assert_eq!(lane.done(), None);
        assert_eq!(lane.offer('d'), Offer::Start('d'));
    }

    #[test]
    fn who_lent_a_place_has_the_next_one() {
        let gauge = Gauge::default();
        let mut lane = Lane::new(1, 2, Part::of(&gauge));
        assert_eq!(lane.offer('a'), Offer::Start('a'));
        assert_eq!(lane.offer('b'), Offer::Queued);
        assert_eq!(lane.offer('c'), Offer::Queued);
        assert_eq!(lane.done(), Some('b'), "`a` lends its place to `b`");
        assert_eq!(lane.take_back('a'), None);
        assert_eq!((gauge.working(), gauge.waiting()), (1, 2));
        assert_eq!(lane.done(), Some('a'));
        assert_eq!(lane.done(), Some('c'));
        assert_eq!(lane.done(), None);
        assert_eq!(lane.take_back('d'), Some('d'));
        assert_eq!((gauge.working(), gauge.waiting()), (1, 0));
        drop(lane);
        assert_eq!((gauge.working(), gauge.waiting()), (0, 0), "a lost pool");
    }
}
