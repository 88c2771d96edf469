//! The newest events of the sessions that this program writes to, as they were committed. Without I/O.
//!
//! The answer to a turn is made of its events, right after its end: such a read needs no statement. A
//! range is answered only if all of it is here. Committed events never change, and where a journal ends
//! is left to the database.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::{Event, SessionId};

/// Maximum number of events of a session, and of their bytes.
const EVENTS_MAX: usize = 256;
const BYTES_MAX: usize = 128 << 10;
/// Maximum number of bytes of all sessions: above it all are forgotten. Those that work fill up again.
const ALL_BYTES_MAX: usize = 16 << 20;
/// What an event, and a session, take besides.
const EVENT_BYTES: usize = 48;
const SESSION_BYTES: usize = 256;

/// The newest events of a session.
struct Tail {
    /// The claim under which they were written.
    epoch: u64,
    /// The number of the last one.
    last: u64,
    payloads: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Tail {
    fn new(epoch: u64, last: u64) -> Tail {
        Tail {
            epoch,
            last,
            payloads: VecDeque::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, payload: Vec<u8>) {
        self.last += 1;
        self.bytes += payload.capacity();
        self.payloads.push_back(payload);
        while self.payloads.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let oldest = self.payloads.pop_front().unwrap_or_default();
            self.bytes -= oldest.capacity();
        }
    }

    fn size(&self) -> usize {
        self.bytes + self.payloads.len() * EVENT_BYTES + SESSION_BYTES
    }
}

#[derive(Default)]
struct Tails {
    sessions: HashMap<SessionId, Tail>,
    bytes: usize,
}

impl Tails {
    fn take(&mut self, session: SessionId) -> Option<Tail> {
        let tail = self.sessions.remove(&session)?;
        self.bytes -= tail.size();
        Some(tail)
    }

    fn put(&mut self, session: SessionId, tail: Tail) {
        if self.bytes + tail.size() > ALL_BYTES_MAX {
            *self = Tails::default();
        }
        self.bytes += tail.size();
        self.sessions.insert(session, tail);
    }
}

/// The newest events of sessions.
#[derive(Default)]
pub(super) struct RecentEvents(Mutex<Tails>);

impl RecentEvents {
    /// Notes that events are about to be appended under a claim, after event `before`.
    pub(super) fn begin(&self, session: SessionId, epoch: u64, before: u64) {
        let mut tails = self.lock();
        let known = tails.sessions.get(&session);
        if known.is_none_or(|tail| tail.epoch < epoch) {
            tails.take(session);
            tails.put(session, Tail::new(epoch, before));
        }
    }

    /// Adds the events that were committed under a claim after event `before`, unless the session was
    /// forgotten since they were begun: it may have been deleted, and its answer comes late.
    pub(super) fn add(&self, session: SessionId, epoch: u64, before: u64, payloads: Vec<Vec<u8>>) {
        let mut tails = self.lock();
        let Some(mut tail) = tails.take(session) else {
            return;
        };
        if tail.epoch == epoch {
            if tail.last != before {
                tail = Tail::new(epoch, before);
            }
            for payload in payloads {
                tail.push(payload);
            }
        }
        tails.put(session, tail);
    }

    /// The events from a number on, if all of them are here.
    pub(super) fn read(&self, session: SessionId, from: u64, limit: usize) -> Option<Vec<Event>> {
        let tails = self.lock();
        let tail = tails.sessions.get(&session)?;
        let first = tail.last + 1 - tail.payloads.len() as u64;
        let begin = usize::try_from(from.checked_sub(first)?).ok()?;
        let end = begin.checked_add(limit)?;
        if limit == 0 || end > tail.payloads.len() {
            return None;
        }
        let numbered = (from..).zip(tail.payloads.range(begin..end));
        let events = numbered.map(|(seq, payload)| Event {
            seq,
            payload: payload.clone(),
        });
        Some(events.collect())
    }

    /// Forgets the events of a session: another program may have deleted it.
    pub(super) fn forget(&self, session: SessionId) {
        let _tail = self.lock().take(session);
    }

    /// No change of the guarded value can be left incomplete, so a poisoned lock is ignored.
    fn lock(&self) -> MutexGuard<'_, Tails> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId::from_u128(0xA);

    fn payloads(numbers: std::ops::RangeInclusive<u64>) -> Vec<Vec<u8>> {
        numbers.map(|n| n.to_be_bytes().to_vec()).collect()
    }

    fn add(recent: &RecentEvents, epoch: u64, before: u64, payloads: Vec<Vec<u8>>) {
        recent.begin(A, epoch, before);
        recent.add(A, epoch, before, payloads);
    }

    /// The numbers of the events that are read, whose payloads say the same.
    fn read(recent: &RecentEvents, from: u64, limit: usize) -> Option<Vec<u64>> {
        let events = recent.read(A, from, limit)?;
        let numbers = events.iter().map(|event| {
            assert_eq!(event.payload, event.seq.to_be_bytes());
            event.seq
        });
        Some(numbers.collect())
    }

    #[test]
    fn only_whole_ranges_of_the_newest_events_are_answered() {
        let recent = RecentEvents::default();
        assert_eq!(read(&recent, 1, 1), None);
        add(&recent, 1, 0, payloads(1..=2));
        add(&recent, 1, 2, payloads(3..=5));
        assert_eq!(read(&recent, 1, 5), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(read(&recent, 3, 2), Some(vec![3, 4]));
        let not_here = [(0, 1), (1, 6), (5, 2), (6, 1), (3, 0), (1, usize::MAX)];
        for (from, limit) in not_here {
            assert_eq!(read(&recent, from, limit), None, "{from} {limit}");
        }
        // The oldest ones leave.
        let last = EVENTS_MAX as u64 + 6;
        add(&recent, 1, 5, payloads(6..=last));
        assert_eq!(read(&recent, 6, 1), None);
        let all = read(&recent, 7, EVENTS_MAX).unwrap();
        assert_eq!((all.len(), all.last()), (EVENTS_MAX, Some(&last)));
        add(&recent, 1, last, vec![vec![0; BYTES_MAX]]);
        assert_eq!(recent.read(A, last, 1), None);
        assert_eq!(recent.read(A, last + 1, 1).unwrap().len(), 1);
        // Too large for itself.
        add(&recent, 1, last + 1, vec![vec![0; BYTES_MAX + 1]]);
        assert_eq!(recent.read(A, last + 2, 1), None);
        add(&recent, 1, last + 2, payloads(last + 3..=last + 3));
        assert_eq!(read(&recent, last + 3, 1), Some(vec![last + 3]));
    }

    #[test]
    fn events_of_an_earlier_claim_or_before_a_gap_are_forgotten() {
        let recent = RecentEvents::default();
        add(&recent, 1, 0, payloads(1..=5));
        add(&recent, 2, 5, payloads(6..=6));
        assert_eq!(
            (read(&recent, 5, 1), read(&recent, 6, 1)),
            (None, Some(vec![6]))
        );
        add(&recent, 2, 7, payloads(8..=8));
        assert_eq!(
            (read(&recent, 6, 1), read(&recent, 8, 1)),
            (None, Some(vec![8]))
        );
        // Two appends, whose answers come in another order.
        recent.begin(A, 2, 8);
        recent.begin(A, 2, 9);
        recent.add(A, 2, 9, payloads(10..=10));
        assert_eq!(read(&recent, 10, 1), Some(vec![10]));
        recent.add(A, 2, 8, payloads(9..=9));
        assert_eq!(
            (read(&recent, 9, 1), read(&recent, 10, 1)),
            (Some(vec![9]), None)
        );
        recent.forget(A);
        assert_eq!(read(&recent, 9, 1), None);
        assert_eq!(recent.lock().bytes, 0);
    }

    #[test]
    fn an_answer_that_comes_after_a_deletion_adds_nothing() {
        let recent = RecentEvents::default();
        recent.begin(A, 1, 0);
        recent.forget(A);
        recent.add(A, 1, 0, payloads(1..=5));
        assert_eq!(read(&recent, 1, 1), None);
        // Another session has its id now.
        recent.begin(A, 1, 5);
        recent.forget(A);
        add(&recent, 3, 0, payloads(1..=2));
        recent.add(A, 1, 5, payloads(6..=7));
        assert_eq!(read(&recent, 1, 2), Some(vec![1, 2]));
        assert_eq!(read(&recent, 6, 1), None);
    }

    #[test]
    fn the_events_of_all_sessions_are_bounded() {
        for (sessions, bytes) in [(1_000, BYTES_MAX), (1_000, BYTES_MAX + 1), (200_000, 1)] {
            let recent = RecentEvents::default();
            for n in 0..sessions {
                let session = SessionId::from_u128(n);
                recent.begin(session, 1, 0);
                recent.add(session, 1, 0, vec![vec![0; bytes]]);
                assert!(recent.lock().bytes <= ALL_BYTES_MAX);
            }
            let newest = recent.read(SessionId::from_u128(sessions - 1), 1, 1);
            assert_eq!(newest.is_some(), bytes <= BYTES_MAX);
            let tails = recent.lock();
            let sizes: usize = tails.sessions.values().map(Tail::size).sum();
            assert_eq!(tails.bytes, sizes);
            assert!(tails.sessions.len() <= ALL_BYTES_MAX / SESSION_BYTES);
        }
    }
}
