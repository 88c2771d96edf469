//! Recently decided calls.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use unisono_context::{CallId, SessionId};

/// Recently decided calls: their turns may have ended since, and a second decision must be refused
/// as such.
#[derive(Debug, Default)]
pub(crate) struct RecentDecisions(Mutex<VecDeque<(CallId, SessionId)>>);

impl RecentDecisions {
    /// Number of remembered calls.
    const KEPT: usize = 1_024;

    pub(crate) fn add(&self, call: CallId, session: SessionId) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.truncate(Self::KEPT - 1);
        recent.push_front((call, session));
    }

    pub(crate) fn session_of(&self, call: CallId) -> Option<SessionId> {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = recent.iter().find(|(known, _)| *known == call);
        found.map(|(_, session)| *session)
    }
}
