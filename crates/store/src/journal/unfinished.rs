//! The sessions that have work left, and those that this program took over from another one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use unisono_context::SessionId;

use super::Journal;
use crate::engine::{self, SESSIONS_PAGE, SessionInfo};
use crate::error::{Error, Result};
use crate::record::{self, OpenTurns};

/// The finished sessions: those whose last event says that no turn is open, with that event.
#[derive(Debug, Default)]
pub(super) struct Finished(Mutex<HashMap<engine::SessionId, Last>>);

/// The last event of a session that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    seq: u64,
    payload_bytes: u64,
    /// The time of the session's creation; a later session may reuse the id of a deleted one.
    created_unix_ms: u64,
}

impl Last {
    fn from_info(info: &SessionInfo) -> Last {
        Last {
            seq: info.last_seq,
            payload_bytes: info.payload_bytes,
            created_unix_ms: info.created_unix_ms,
        }
    }
}

impl Finished {
    fn has(&self, info: &SessionInfo) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&info.session) == Some(&Last::from_info(info))
    }

    fn add(&self, info: &SessionInfo) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(info.session, Last::from_info(info));
    }

    /// Forgets all if many of them do not exist any more: the store has this number of sessions.
    fn forget_beyond(&self, sessions: usize) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > sessions + SESSIONS_PAGE {
            known.clear();
        }
    }
}

impl Journal {
    /// Whether a session has open turns, read from its last event alone. `None` if that event does
    /// not say so, because it is damaged, a repair cut the journal, or its writer did not know: fold the
    /// journal then.
    ///
    /// # Errors
    /// The store failed.
    pub async fn has_open_turns(&self, session: &SessionInfo) -> Result<Option<bool>> {
        match self.engine.last_events(vec![*session]).await {
            Err(Error::Corrupt { .. }) => Ok(None),
            last => Ok(has_open_turns(last?.pop().flatten())),
        }
    }

    /// Returns those of these sessions that may have open turns, read from the last event of each
    /// alone. A session whose last event does not say so is included. The last event of a finished
    /// session is read once.
    pub async fn unfinished_of(&self, mut sessions: Vec<SessionInfo>) -> Result<Vec<SessionId>> {
        sessions.retain(|info| !self.finished.has(info));
        if sessions.is_empty() {
            return Ok(Vec::new());
        }
        let have_open_turns: Vec<Option<bool>> =
            match self.engine.last_events(sessions.clone()).await {
                // One of them is damaged: each is read alone.
                Err(Error::Corrupt { .. }) => {
                    let mut each = Vec::with_capacity(sessions.len());
                    for info in &sessions {
                        each.push(self.has_open_turns(info).await?);
                    }
                    each
                }
                lasts => lasts?.into_iter().map(has_open_turns).collect(),
            };
        let mut unfinished = Vec::new();
        for (info, open) in sessions.iter().zip(have_open_turns) {
            match open {
                Some(false) => self.finished.add(info),
                Some(true) | None => unfinished.push(info.session.into()),
            }
        }
        Ok(unfinished)
    }

    /// Returns the sessions that may have open turns. Reads one event of each of them, and of each
    /// session that changed since the last call, however long its journal is.
    pub async fn unfinished(&self) -> Result<Vec<SessionId>> {
        let (mut unfinished, mut after, mut seen) = (Vec::new(), None, 0);
        loop {
            let page = self.sessions(after, SESSIONS_PAGE).await?;
            let Some(last) = page.last() else {
                if self.only.is_none() {
                    self.finished.forget_beyond(seen);
                }
                return Ok(unfinished);
            };
            after = Some(last.session.into());
            seen += page.len();
            unfinished.extend(self.unfinished_of(page).await?);
        }
    }

    /// Begins to work on a session that this program took over, under the claim of that epoch. False
    /// if it has to be claimed: the claim may have ended, or the session is hidden.
    pub fn take_up(&self, session: SessionId, epoch: u64) -> bool {
        let session = session.into();
        let cluster = self.engine.cluster();
        self.is_seen(session) && cluster.is_some_and(|cluster| cluster.take_up(session, epoch))
    }
}

fn has_open_turns(last: Option<engine::Event>) -> Option<bool> {
    match last.map(|event| record::open_turns(&event.payload)) {
        Some(OpenTurns::Known(open)) => Some(open > 0),
        Some(OpenTurns::Unknown) => None,
        // The session has no events, or is being deleted.
        None => Some(false),
    }
}
