//! Admission to a limited number of permits: start, wait in a bounded queue, or be rejected.
//!
//! Waiting sessions are served in turn: one job of each session, then the next of each. Jobs of one
//! session keep their order. A full queue rejects the newest job of the session with the most
//! waiting jobs, so that a flooding session rejects its own jobs.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use unisono_context::SessionId;

use crate::load::GaugePart;

/// The weight of a job in the mean duration: an eighth.
const WEIGHT: u32 = 8;

/// Running and waiting jobs.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    running: usize,
    places: usize,
    waiting: HashMap<SessionId, VecDeque<T>>,
    /// Sessions with waiting jobs; the next one is first.
    turns: VecDeque<SessionId>,
    queued: usize,
    /// Jobs that yielded their permit and want it back.
    returning: VecDeque<T>,
    bound: usize,
    /// Shows the numbers of running and waiting jobs.
    gauge: GaugePart,
    /// The moving average of job durations; none before the first job has ended.
    mean_time: Option<Duration>,
}

/// The result of an offered job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission<T> {
    /// It has a permit: start it.
    Start(T),
    Queued,
    /// The queue is full, and this job is rejected: the offered one, or another one instead.
    Full(T),
}

impl<T> FairQueue<T> {
    /// A queue with this number of permits (at least one), in which at most `bound` jobs wait.
    pub(crate) fn new(places: usize, bound: usize, gauge: GaugePart) -> FairQueue<T> {
        FairQueue {
            running: 0,
            places: places.max(1),
            waiting: HashMap::new(),
            turns: VecDeque::new(),
            queued: 0,
            returning: VecDeque::new(),
            bound,
            mean_time: None,
            gauge,
        }
    }

    fn update_gauge(&mut self) {
        self.gauge
            .set(self.running, self.queued + self.returning.len());
    }

    /// Requests a permit for a job of a session.
    pub(crate) fn offer(&mut self, session: SessionId, job: T) -> Admission<T> {
        let offer = self.place(session, job);
        self.update_gauge();
        offer
    }

    fn place(&mut self, session: SessionId, job: T) -> Admission<T> {
        if self.running < self.places {
            self.running += 1;
            return Admission::Start(job);
        }
        if self.queued < self.bound {
            self.queue(session, job);
            return Admission::Queued;
        }
        let own = self.waiting.get(&session).map_or(0, VecDeque::len);
        let longest = self
            .waiting
            .iter()
            .map(|(session, jobs)| (jobs.len(), *session));
        match longest.max() {
            Some((most, greedy)) if most > own + 1 => match self.take_newest(greedy) {
                Some(turned_away) => {
                    self.queue(session, job);
                    Admission::Full(turned_away)
                }
                None => Admission::Full(job),
            },
            _ => Admission::Full(job),
        }
    }

    /// Removes the waiting jobs that are not wanted any more.
    pub(crate) fn withdraw(&mut self, is_unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut withdrawn = Vec::new();
        for jobs in self.waiting.values_mut() {
            if jobs.iter().any(&is_unwanted) {
                let all = std::mem::take(jobs).into_iter();
                let (unwanted, left): (VecDeque<T>, _) = all.partition(&is_unwanted);
                *jobs = left;
                withdrawn.extend(unwanted);
            }
        }
        self.queued = self.queued.saturating_sub(withdrawn.len());
        self.waiting.retain(|_, jobs| !jobs.is_empty());
        let waiting = &self.waiting;
        self.turns.retain(|session| waiting.contains_key(session));
        self.update_gauge();
        withdrawn
    }

    /// Requests a permit again for a job that yielded its own ([`FairQueue::done`]): before jobs
    /// that never had one, and never rejected. Returns the job if it can continue at once.
    pub(crate) fn reacquire(&mut self, job: T) -> Option<T> {
        if self.running < self.places {
            self.running += 1;
            self.update_gauge();
            return Some(job);
        }
        self.returning.push_back(job);
        self.update_gauge();
        None
    }

    /// A running job has ended, or yields its permit: returns the job that gets it.
    pub(crate) fn done(&mut self) -> Option<T> {
        let returning = self.returning.pop_front();
        let next = returning.or_else(|| self.next());
        if next.is_none() {
            self.running = self.running.saturating_sub(1);
        }
        self.update_gauge();
        next
    }

    /// Whether a job would get a permit at once.
    pub(crate) fn has_free_permit(&self) -> bool {
        self.running < self.places
    }

    pub(crate) fn record_time(&mut self, time: Duration) {
        self.mean_time = Some(self.mean_time.map_or(time, |mean| {
            mean.saturating_mul(WEIGHT - 1).saturating_add(time) / WEIGHT
        }));
    }

    /// The number of waiting jobs.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// The expected wait of a new job: until all waiting jobs have had a permit, based on recent
    /// durations; one second per round if these are unknown.
    pub(crate) fn expected_wait(&self) -> Duration {
        let rounds = (self.queued / self.places).saturating_add(1);
        let each = self.mean_time.unwrap_or(Duration::from_secs(1));
        each.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }

    fn queue(&mut self, session: SessionId, job: T) {
        let jobs = self.waiting.entry(session).or_default();
        if jobs.is_empty() {
            self.turns.push_back(session);
        }
        jobs.push_back(job);
        self.queued += 1;
    }

    fn next(&mut self) -> Option<T> {
        let session = self.turns.pop_front()?;
        let jobs = self.waiting.get_mut(&session)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.waiting.remove(&session);
        } else {
            self.turns.push_back(session);
        }
        self.queued = self.queued.saturating_sub(usize::from(job.is_some()));
        job
    }

    fn take_newest(&mut self, session: SessionId) -> Option<T> {
        // The session keeps at least one: only a session with more than one job is chosen.
        let job = self.waiting.get_mut(&session)?.pop_back()?;
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
        let mut fair_queue = FairQueue::new(1, 1, GaugePart::default());
        assert_eq!(fair_queue.offer(A, 'a'), Admission::Start('a'));
        assert_eq!(fair_queue.offer(A, 'b'), Admission::Queued);
        assert_eq!(fair_queue.offer(A, 'c'), Admission::Full('c'));
        assert_eq!(fair_queue.done(), Some('b'));
        assert_eq!(fair_queue.done(), None);
        assert_eq!(fair_queue.offer(A, 'd'), Admission::Start('d'));
    }

    #[test]
    fn who_lent_a_place_has_the_next_one() {
        let gauge = Gauge::default();
        let mut fair_queue = FairQueue::new(1, 2, GaugePart::new(&gauge));
        assert_eq!(fair_queue.offer(A, 'a'), Admission::Start('a'));
        assert_eq!(fair_queue.offer(A, 'b'), Admission::Queued);
        assert_eq!(fair_queue.offer(A, 'c'), Admission::Queued);
        assert_eq!(fair_queue.done(), Some('b'), "`a` yields its permit to `b`");
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
    fn sessions_are_served_in_turn_regardless_of_their_number_of_jobs() {
        let mut fair_queue = FairQueue::new(1, 2_000, GaugePart::default());
        assert_eq!(fair_queue.offer(A, 0), Admission::Start(0));
        for job in 1..1_000 {
            assert_eq!(fair_queue.offer(A, job), Admission::Queued);
        }
        for job in [1_000, 1_001] {
            assert_eq!(fair_queue.offer(B, job), Admission::Queued);
        }
        assert_eq!(fair_queue.offer(C, 1_002), Admission::Queued);
        let served: Vec<_> = (0..7).filter_map(|_| fair_queue.done()).collect();
        assert_eq!(served, [1, 1_000, 1_002, 2, 1_001, 3, 4]);
    }

    #[test]
    fn a_flooding_session_rejects_its_own_jobs() {
        let mut fair_queue = FairQueue::new(1, 4, GaugePart::default());
        assert_eq!(fair_queue.offer(A, 0), Admission::Start(0));
        for job in 1..5 {
            assert_eq!(fair_queue.offer(A, job), Admission::Queued);
        }
        assert_eq!(fair_queue.offer(A, 5), Admission::Full(5));
        assert_eq!(
            fair_queue.offer(B, 6),
            Admission::Full(4),
            "the newest of the flood"
        );
        assert_eq!(fair_queue.offer(B, 7), Admission::Full(3));
        assert_eq!(
            fair_queue.offer(B, 8),
            Admission::Full(8),
            "each has half of it now"
        );
        assert_eq!(fair_queue.queued(), 4);
        let served: Vec<_> = (0..5).filter_map(|_| fair_queue.done()).collect();
        assert_eq!(served, [1, 6, 2, 7]);
        assert_eq!(fair_queue.queued(), 0);
    }

    #[test]
    fn a_withdrawn_job_needs_no_place() {
        let gauge = Gauge::default();
        let mut fair_queue = FairQueue::new(1, 3, GaugePart::new(&gauge));
        for (session, job) in [(A, 0), (A, 1), (A, 2), (B, 3)] {
            fair_queue.offer(session, job);
        }
        assert_eq!(fair_queue.offer(B, 4), Admission::Full(4));
        assert_eq!(fair_queue.withdraw(|job| *job == 1), [1]);
        assert_eq!(fair_queue.withdraw(|job| *job == 3), [3]);
        assert_eq!((fair_queue.queued(), gauge.waiting()), (1, 1));
        assert_eq!(fair_queue.offer(B, 5), Admission::Queued);
        let served: Vec<_> = (0..3).filter_map(|_| fair_queue.done()).collect();
        assert_eq!(served, [2, 5]);
    }

    #[test]
    fn the_expected_wait_follows_from_recent_durations() {
        let mut fair_queue = FairQueue::new(2, 100, GaugePart::default());
        assert_eq!(fair_queue.expected_wait(), Duration::from_secs(1));
        for job in 0..10 {
            fair_queue.offer(A, job);
        }
        fair_queue.record_time(Duration::from_secs(8));
        assert_eq!(
            fair_queue.expected_wait(),
            Duration::from_secs(40),
            "eight wait for two places"
        );
        fair_queue.record_time(Duration::from_secs(16));
        assert_eq!(fair_queue.expected_wait(), Duration::from_secs(45));
    }
}
