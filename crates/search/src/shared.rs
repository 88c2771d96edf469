//! What the follower and the searches share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::index::Index;

/// Maximum bytes of the texts that wait for the follower. One commit may have more.
pub(crate) const WAITING_BYTES: usize = 64 << 20;

/// The shared state of the follower and the searches.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    index: Mutex<Option<Index>>,
    /// Whether something was not taken in that the journal has.
    pub(crate) behind: AtomicBool,
    /// Whether the index is closing: current work ends at the next safe point.
    pub(crate) closing: AtomicBool,
    /// The number of reports: of commits, of removals and of damage.
    reported: AtomicU64,
    /// The number of reports before the last settling, plus one; 0 while the index is not settled.
    settled: AtomicU64,
    /// The bytes of the texts that wait for the follower.
    waiting: AtomicUsize,
    /// The reason of the last rebuild.
    rebuilt_because: Mutex<Option<String>>,
}

impl Shared {
    /// Counts a report, after it was queued: whoever reads the number queues a settling behind it.
    pub(crate) fn report(&self) {
        self.reported.fetch_add(1, Ordering::Release);
    }

    /// Counts texts that are about to wait for the follower, and returns whether there is room for them:
    /// they keep messages in memory, also those of sessions that have left it.
    pub(crate) fn add_waiting(&self, bytes: usize) -> bool {
        let before = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        before == 0 || before.saturating_add(bytes) <= WAITING_BYTES
    }

    /// Counts texts that wait no longer.
    pub(crate) fn remove_waiting(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn reported(&self) -> u64 {
        self.reported.load(Ordering::Acquire)
    }

    /// Records that the index is settled up to this number of reports; none: a settling has begun.
    pub(crate) fn set_settled(&self, reported: Option<u64>) {
        let settled = reported.map_or(0, |reported| reported + 1);
        self.settled.store(settled, Ordering::Release);
    }

    /// Whether everything is searchable, so that a search need not ask the follower.
    pub(crate) fn is_settled(&self) -> bool {
        !self.closing.load(Ordering::Acquire)
            && !self.behind.load(Ordering::Acquire)
            && self.settled.load(Ordering::Acquire) == self.reported() + 1
    }

    pub(crate) fn publish(&self, index: Option<Index>) {
        *self.index.lock().unwrap_or_else(PoisonError::into_inner) = index;
    }

    pub(crate) fn set_rebuild_reason(&self, reason: String) {
        *self
            .rebuilt_because
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    pub(crate) fn rebuild_reason(&self) -> Option<String> {
        let reason = self.rebuilt_because.lock();
        reason.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn index(&self) -> Option<Index> {
        let index = self.index.lock();
        index.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
