//! Turns of sessions and their updates.

use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;

use super::Result;
use crate::session::EndedTurn;
use crate::timeline::Timeline;
use crate::turn::{NewTurn, Turn, TurnEstimate, TurnRequest};
use crate::turn_event::TurnUpdate;
use crate::{Page, PageQuery};

/// The updates of a turn, in the order of the journal. The last one is its end, or an error.
pub type TurnUpdates<'s> = Pin<Box<dyn Stream<Item = Result<TurnUpdate>> + Send + 's>>;

/// Turns of sessions and their updates.
#[async_trait]
pub trait Turns {
    /// Starts a turn. It is on disk when this returns, and has not ended. A repeated request with
    /// the same key returns the same turn.
    ///
    /// # Errors
    /// `not_found`; `refused`: an agent or a setting is wrong; `busy`: too many turns wait.
    async fn begin(&self, session: &str, request: &TurnRequest, key: Option<&str>) -> Result<Turn>;

    /// The tokens and the cost that a task is expected to use. Nothing is started.
    ///
    /// # Errors
    /// `not_found`: the session or its branch; `refused`: an agent or a setting is wrong.
    async fn estimate_turn(&self, session: &str, new: &NewTurn) -> Result<TurnEstimate>;

    /// The turns of a session, the newest first.
    ///
    /// # Errors
    /// `not_found`.
    async fn turns(&self, session: &str, query: &PageQuery) -> Result<Page<Turn>>;

    /// The ended turns of a session with their outcomes, the newest first.
    ///
    /// # Errors
    /// `not_found`.
    async fn ended_turns(&self, session: &str, query: &PageQuery) -> Result<Page<EndedTurn>>;

    /// A turn in its current state.
    ///
    /// # Errors
    /// `not_found`.
    async fn turn(&self, session: &str, turn: &str) -> Result<Turn>;

    /// The instants of a turn and of its runs.
    ///
    /// # Errors
    /// `not_found`.
    async fn timeline(&self, session: &str, turn: &str) -> Result<Timeline>;

    /// Follows a turn up to its end, in whatever process works on it. `after` is the number of an
    /// update: the later updates are returned, each once; `Some(0)` returns all. Without it, the
    /// current state of the turn comes first.
    ///
    /// # Errors
    /// `not_found`; `busy`: the maximum number of streams is open.
    async fn follow(
        &self,
        session: &str,
        turn: &str,
        after: Option<u64>,
    ) -> Result<TurnUpdates<'_>>;

    /// Starts a turn as [`begin`](Turns::begin) does, and follows it from its acceptance on. A
    /// service that runs the turn in this process does not read the session's earlier events.
    ///
    /// # Errors
    /// As of [`begin`](Turns::begin) and [`follow`](Turns::follow).
    async fn begin_followed(
        &self,
        session: &str,
        request: &TurnRequest,
        key: Option<&str>,
    ) -> Result<(Turn, TurnUpdates<'_>)> {
        let begun = self.begin(session, request, key).await?;
        let updates = self.follow(session, &begun.turn, Some(0)).await?;
        Ok((begun, updates))
    }

    /// Cancels a turn with all of its runs.
    ///
    /// # Errors
    /// `not_found`: it is not open.
    async fn cancel_turn(&self, session: &str, turn: &str) -> Result<Turn>;

    /// Cancels a run and its delegated runs.
    ///
    /// # Errors
    /// `not_found`: it is not open.
    async fn cancel_run(&self, session: &str, run: &str) -> Result<Turn>;
}
