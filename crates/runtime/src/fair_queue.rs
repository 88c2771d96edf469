//! Admission to a bounded number of places: start, wait in a bounded queue, or be turned away.
//!
//! Who waits is served in turn: one job of each session, then one more of each. Within a session
//! jobs are served in the order in which they came. A queue that is full turns away the newest
//! job of whoever has most of them waiting, so that who floods it turns itself away.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use unisono_context::SessionId;

use crate::load::Part;

/// What one job weighs in the mean of the times jobs took: an eighth.
const WEIGHT: u32 = 8;

/// Jobs that run and jobs that wait.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    running: usize,
    places: usize,
    waiting: HashMap<SessionId, VecDeque<T>>,
    /// Those of whom something waits, whose turn is next first.
    turns: VecDeque<SessionId>,
    queued: usize,
    /// Those that lent their place and want it back.
    returning: VecDeque<T>,
    bound: usize,
    /// Told how many run and wait.
    told: Part,
    /// The mean of the times that jobs took, recent ones most; none before the first has ended.
    took: Option<Duration>,
}

/// What became of an offered job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer<T> {
    /// It has a place: start it.
    Start(T),
    /// It waits.
    Queued,
    /// The queue is full, and this one is turned away: the offered one, or another in its place.
    Full(T),
}

impl<T> FairQueue<T> {
    /// A queue with so many places (at least one) and a queue of at most `bound`.
    pub(crate) fn new(places: usize, bound: usize, told: Part) -> FairQueue<T> {
        FairQueue {
            running: 0,
            places: places.max(1),
            waiting: HashMap::new(),
            turns: VecDeque::new(),
            queued: 0,
            returning: VecDeque::new(),
            bound,
            took: None,
            told,
        }
    }

    fn tell(&mut self) {
        self.told
            .set(self.running, self.queued + self.returning.len());
    }

    /// Asks for a place for a job of a session.
    pub(crate) fn offer(&mut self, of: SessionId, job: T) -> Offer<T> {
        let offer = self.place(of, job);
        self.tell();
        offer
    }

    fn place(&mut self, of: SessionId, job: T) -> Offer<T> {
        if self.running < self.places {
            self.running += 1;
            return Offer::Start(job);
        }
        if self.queued < self.bound {
            self.queue(of, job);
            return Offer::Queued;
        }
        let own = self.waiting.get(&of).map_or(0, VecDeque::len);
        let longest = self.waiting.iter().map(|(of, jobs)| (jobs.len(), *of));
        match longest.max() {
            Some((most, greedy)) if most > own + 1 => match self.take_newest(greedy) {
                Some(turned_away) => {
                    self.queue(of, job);
                    Offer::Full(turned_away)
                }
                None => Offer::Full(job),
            },
            _ => Offer::Full(job),
        }
    }

    /// Asks for a place again for a job that lent its own ([`FairQueue::done`]): ahead of those that
    /// had none yet, and never turned away. Gives it back where it can go on at once.
    pub(crate) fn reacquire(&mut self, job: T) -> Option<T> {
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
        let next = returning.or_else(|| self.next());
        if next.is_none() {
            self.running = self.running.saturating_sub(1);
        }
        self.tell();
        next
    }

    /// A job took so long.
    pub(crate) fn took(&mut self, time: Duration) {
        self.took = Some(self.took.map_or(time, |mean| {
            mean.saturating_mul(WEIGHT - 1).saturating_add(time) / WEIGHT
        }));
    }

    /// How many wait.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// How long one that came now would wait: until all that wait have had a place, by how long
    /// recent jobs took; a second for each round of places where that is not known.
    pub(crate) fn expected_wait(&self) -> Duration {
        let rounds = (self.queued / self.places).saturating_add(1);
        let each = self.took.unwrap_or(Duration::from_secs(1));
        each.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }

    fn queue(&mut self, of: SessionId, job: T) {
        let jobs = self.waiting.entry(of).or_default();
        if jobs.is_empty() {
            self.turns.push_back(of);
        }
        jobs.push_back(job);
        self.queued += 1;
    }

    fn next(&mut self) -> Option<T> {
        let of = self.turns.pop_front()?;
        let jobs = self.waiting.get_mut(&of)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.waiting.remove(&of);
        } else {
            self.turns.push_back(of);
        }
        self.queued = self.queued.saturating_sub(usize::from(job.is_some()));
        job
    }

    fn take_newest(&mut self, of: SessionId) -> Option<T> {
        // It keeps at least one: only who has more than one is turned away.
        let job = self.waiting.get_mut(&of)?.pop_back()?;
        self.queued = self.queued.saturating_sub(1);
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Gauge;

    const A: SessionId = SessionId::from_u128(1);
    const B: SessionId = SessionId::from_u128(2);
    const C: SessionId = SessionId::from_u128(3);

    #[test]
    fn jobs_start_wait_and_are_turned_away_in_that_order() {
        let mut fair_queue = FairQueue::new(1, 1, Part::default());
        assert_eq!(fair_queue.offer(A, 'a'), Offer::Start('a'));
        assert_eq!(fair_queue.offer(A, 'b'), Offer::Queued);
        assert_eq!(fair_queue.offer(A, 'c'), Offer::Full('c'));
        assert_eq!(fair_queue.done(), Some('b'));
        assert_eq!(fair_queue.done(), None);
        assert_eq!(fair_queue.offer(A, 'd'), Offer::Start('d'));
    }

    #[test]
    fn who_lent_a_place_has_the_next_one() {
        let gauge = Gauge::default();
        let mut fair_queue = FairQueue::new(1, 2, Part::of(&gauge));
        assert_eq!(fair_queue.offer(A, 'a'), Offer::Start('a'));
        assert_eq!(fair_queue.offer(A, 'b'), Offer::Queued);
        assert_eq!(fair_queue.offer(A, 'c'), Offer::Queued);
        assert_eq!(fair_queue.done(), Some('b'), "`a` lends its place to `b`");
        assert_eq!(fair_queue.reacquire('a'), None);
        assert_eq!((gauge.working(), gauge.waiting()), (1, 2));
        assert_eq!(fair_queue.done(), Some('a'));
        assert_eq!(fair_queue.done(), Some('c'));
        assert_eq!(fair_queue.done(), None);
        assert_eq!(fair_queue.reacquire('d'), Some('d'));
        assert_eq!((gauge.working(), gauge.waiting()), (1, 0));
        drop(fair_queue);
        assert_eq!((gauge.working(), gauge.waiting()), (0, 0), "a lost pool");
    }

    #[test]
    fn sessions_are_served_in_turn_however_many_jobs_one_of_them_has() {
        let mut fair_queue = FairQueue::new(1, 2_000, Part::default());
        assert_eq!(fair_queue.offer(A, 0), Offer::Start(0));
        for job in 1..1_000 {
            assert_eq!(fair_queue.offer(A, job), Offer::Queued);
        }
        for job in [1_000, 1_001] {
            assert_eq!(fair_queue.offer(B, job), Offer::Queued);
        }
        assert_eq!(fair_queue.offer(C, 1_002), Offer::Queued);
        let served: Vec<_> = (0..7).filter_map(|_| fair_queue.done()).collect();
        assert_eq!(served, [1, 1_000, 1_002, 2, 1_001, 3, 4]);
    }

    #[test]
    fn who_floods_a_queue_turns_itself_away() {
        let mut fair_queue = FairQueue::new(1, 4, Part::default());
        assert_eq!(fair_queue.offer(A, 0), Offer::Start(0));
        for job in 1..5 {
            assert_eq!(fair_queue.offer(A, job), Offer::Queued);
        }
        assert_eq!(fair_queue.offer(A, 5), Offer::Full(5));
        assert_eq!(
            fair_queue.offer(B, 6),
            Offer::Full(4),
            "the newest of the flood"
        );
        assert_eq!(fair_queue.offer(B, 7), Offer::Full(3));
        assert_eq!(
            fair_queue.offer(B, 8),
            Offer::Full(8),
            "each has half of it now"
        );
        assert_eq!(fair_queue.queued(), 4);
        let served: Vec<_> = (0..5).filter_map(|_| fair_queue.done()).collect();
        assert_eq!(served, [1, 6, 2, 7]);
        assert_eq!(fair_queue.queued(), 0);
    }

    #[test]
    fn a_wait_is_foretold_by_how_long_recent_jobs_took() {
        let mut fair_queue = FairQueue::new(2, 100, Part::default());
        assert_eq!(fair_queue.expected_wait(), Duration::from_secs(1));
        for job in 0..10 {
            fair_queue.offer(A, job);
        }
        fair_queue.took(Duration::from_secs(8));
        assert_eq!(
            fair_queue.expected_wait(),
            Duration::from_secs(40),
            "eight wait for two places"
        );
        fair_queue.took(Duration::from_secs(16));
        assert_eq!(fair_queue.expected_wait(), Duration::from_secs(45));
    }
}
