//! What the follower and the searches share.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use crate::index::Index;

/// The shared state of the follower and the searches.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    index: Mutex<Option<Index>>,
    /// Whether something was not taken in that the journal has.
    pub(crate) behind: AtomicBool,
    /// Whether the index is closing: current work ends at the next safe point.
    pub(crate) closing: AtomicBool,
    /// The reason of the last rebuild.
    rebuilt_because: Mutex<Option<String>>,
}

impl Shared {
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
