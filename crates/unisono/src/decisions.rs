//! Recently decided calls.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use unisono_context::CallId;

/// Recently decided calls: their turns may have ended since, and a second decision must be refused
/// as such.
#[derive(Debug, Default)]
pub(crate) struct RecentDecisions(Mutex<VecDeque<CallId>>);

impl RecentDecisions {
    /// Number of remembered calls.
    const KEPT: usize = 1_024;

    pub(crate) fn add(&self, call: CallId) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.truncate(Self::KEPT - 1);
        recent.push_front(call);
    }

    pub(crate) fn has(&self, call: CallId) -> bool {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.contains(&call)
    }
}
