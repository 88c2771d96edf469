//! The sessions that have work left, and those that this program took over from another one.

use unisono_context::SessionId;

use super::Journal;
use crate::engine::{self, SESSIONS_PAGE, SessionInfo};
use crate::error::{Error, Result};
use crate::record::{self, OpenTurns};

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
    /// alone. A session whose last event does not say so is included.
    pub async fn unfinished_of(&self, sessions: Vec<SessionInfo>) -> Result<Vec<SessionId>> {
        let mut unfinished = Vec::new();
        match self.engine.last_events(sessions.clone()).await {
            // One of them is damaged: each is read alone.
            Err(Error::Corrupt { .. }) => {
                for info in &sessions {
                    if self.has_open_turns(info).await? != Some(false) {
                        unfinished.push(info.session.into());
                    }
                }
            }
            lasts => {
                let all = sessions.iter().zip(lasts?);
                let open = all.filter(|(_, last)| has_open_turns(last.clone()) != Some(false));
                unfinished.extend(open.map(|(info, _)| SessionId::from(info.session)));
            }
        }
        Ok(unfinished)
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
