//! Following a turn of a session on which another program works, from the journal alone.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use unisono_api::turn_event::{TurnEvent, TurnUpdate};
use unisono_context::{SessionId, TurnId};
use unisono_session::State;
use unisono_store::Journal;

use super::fold::{Change, TurnFold};
use super::{check_position, numbered, unnumbered};
use crate::error::Error;
use crate::view::View;
use crate::{Local, history, turn_view};

/// A follower of a turn on which another program works. It has no progress reports, and says that they are
/// missed.
pub struct StoredFollower {
    journal: Journal,
    session: SessionId,
    turn: TurnId,
    fold: TurnFold,
    /// Updates that were read and not returned yet.
    ready: VecDeque<TurnUpdate>,
    ended: bool,
}

impl fmt::Debug for StoredFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = f.debug_struct("StoredFollower");
        this.field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Local {
    /// Follows a turn of a session on which another program works: with `after`, from the update of
    /// that number on; without it, the current state of the turn comes first.
    ///
    /// # Errors
    /// There is no such session or turn, event `after` has not happened, or the journal cannot be
    /// read.
    pub async fn stored_follower(
        &self,
        session: SessionId,
        turn: TurnId,
        after: Option<u64>,
    ) -> Result<StoredFollower, Error> {
        let mut follower = StoredFollower {
            journal: self.journal().clone(),
            session,
            turn,
            fold: TurnFold::new(session, State::default(), turn),
            ready: VecDeque::new(),
            ended: false,
        };
        follower.read(after.unwrap_or(0)).await?;
        let now = follower.fold.events();
        if follower.fold.open_turn().is_none() && !follower.ended {
            return Err(Error::not_found("turn", turn));
        }
        check_position(after, now)?;
        if after.is_none() {
            let state = self.state_of(&follower.view(), &follower.fold).await;
            follower.begin_with(TurnEvent::State(state));
        }
        if !follower.ended {
            // Its progress is not in the journal.
            follower.ready.push_back(unnumbered(TurnEvent::Missed));
        }
        Ok(follower)
    }
}

impl StoredFollower {
    /// The next update in the journal; none if it has no further one yet.
    ///
    /// # Errors
    /// The session was deleted, or the journal cannot be read.
    pub async fn next(&mut self) -> Result<Option<TurnUpdate>, Error> {
        if self.ready.is_empty() && !self.ended {
            self.read(0).await?;
        }
        Ok(self.ready.pop_front())
    }

    /// Whether the turn has ended: no update follows those that were read.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Reads the rest of the journal. Updates up to event `after` are known.
    async fn read(&mut self, after: u64) -> Result<(), Error> {
        let (journal, session) = (self.journal.clone(), self.session);
        let known = self.fold.events();
        let mut ending = None;
        history::read_from(&journal, session, self.fold.events() + 1, |event| {
            let seq = self.fold.events() + 1;
            let change = self.fold.apply(event);
            let change = change.map_err(|error| history::unfit(session, seq, error))?;
            match change.filter(|_| seq > after) {
                Some(Change::Events(events)) => self.ready.extend(numbered(seq, events)),
                Some(Change::Ended) => ending = Some(seq),
                None => {}
            }
            Ok::<_, Error>(true)
        })
        .await?;
        if self.fold.events() == known && !journal.exists(session).await? {
            return Err(Error::not_found("session", session));
        }
        if let Some(seq) = ending {
            self.end(seq).await?;
        }
        self.ended = self.fold.has_ended();
        Ok(())
    }

    /// Reads the ended turn for the last update.
    async fn end(&mut self, seq: u64) -> Result<(), Error> {
        let turn = turn_view::turn(&self.journal, &self.view(), self.turn).await?;
        let turn = turn.ok_or_else(|| Error::not_found("turn", self.turn))?;
        self.ready.push_back(TurnUpdate {
            seq: Some(seq),
            event: TurnEvent::Ended(Box::new(self.fold.end(turn))),
        });
        Ok(())
    }

    /// Replaces the updates up to now by the state of the turn. Without a number if the turn has ended:
    /// a client that reconnects after it must get the end as well.
    fn begin_with(&mut self, state: TurnEvent) {
        let end = self.ready.pop_back().filter(|_| self.ended);
        let seq = (!self.ended).then(|| self.fold.events());
        let state = TurnUpdate { seq, event: state };
        self.ready = [Some(state), end].into_iter().flatten().collect();
    }

    /// Its session, as far as the journal was read.
    fn view(&self) -> View {
        View::Stored {
            id: self.session,
            state: Arc::new(self.fold.session_state().clone()),
        }
    }
}
