//! The sessions that have work left, and those that this program took over from another one.

use unisono_context::SessionId;

use super::Journal;
use crate::engine::{self, SESSIONS_PAGE, SessionInfo};
use crate::error::Result;
use crate::record::{self, OpenTurns};

impl Journal {
    /// Whether a session has open turns, read from its last event alone. `None` if that event does
    /// not say so, because a repair cut the journal or its writer did not know: fold the journal then.
    ///
    /// # Errors
    /// The store failed, or the event cannot be read.
    pub async fn has_open_turns(&self, session: &SessionInfo) -> Result<Option<bool>> {
        let mut last = self.engine.last_events(vec![*session]).await?;
        Ok(has_open_turns(last.pop().flatten()))
    }

    /// Returns those of these sessions that may have open turns, read from the last event of each
    /// alone. A session whose last event does not say so is included.
    pub async fn unfinished_of(&self, sessions: Vec<SessionInfo>) -> Result<Vec<SessionId>> {
        let lasts = self.engine.last_events(sessions.clone()).await?;
        let unfinished = sessions.iter().zip(lasts);
        let unfinished = unfinished.filter(|(_, last)| has_open_turns(last.clone()) != Some(false));
        Ok(unfinished.map(|(info, _)| info.session.into()).collect())
    }

    /// Returns the sessions that may have open turns. Reads one event of each session, however long
    /// its journal is.
    pub async fn unfinished(&self) -> Result<Vec<SessionId>> {
        let (mut unfinished, mut after) = (Vec::new(), None);
        loop {
            let page = self.sessions(after, SESSIONS_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(unfinished);
            };
            after = Some(last.session.into());
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
