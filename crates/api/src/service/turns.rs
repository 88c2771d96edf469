//! What is asked of sessions, and how it goes on.

use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;

use super::Result;
use crate::session::EndedTurn;
use crate::turn::{Asked, Turn};
use crate::turn_event::TurnUpdate;
use crate::{Page, PageQuery};

/// The updates of a turn, in the order of the journal. The last one is its end.
pub type TurnUpdates<'s> = Pin<Box<dyn Stream<Item = Result<TurnUpdate>> + Send + 's>>;

/// What is asked of sessions.
#[async_trait]
pub trait Turns {
    /// Hands a turn in. On disk when it returns, and not ended. Under a key, the same request again
    /// gives the same turn.
    ///
    /// # Errors
    /// `not_found`; `refused`: an agent or a setting is wrong; `busy`: too many wait.
    async fn begin(&self, session: &str, asked: &Asked, key: Option<&str>) -> Result<Turn>;

    /// The turns of a session, the newest first.
    ///
    /// # Errors
    /// `not_found`.
    async fn turns(&self, session: &str, query: &PageQuery) -> Result<Page<Turn>>;

    /// What became of the turns of a session that have ended, the newest first.
    ///
    /// # Errors
    /// `not_found`.
    async fn ended_turns(&self, session: &str, query: &PageQuery) -> Result<Page<EndedTurn>>;

    /// A turn, as far as it has come.
    ///
    /// # Errors
    /// `not_found`.
    async fn turn(&self, session: &str, turn: &str) -> Result<Turn>;

    /// Follows a turn up to its end, wherever it is worked on. `after` is the number of an update:
    /// those after it come, each once, `Some(0)` for all. Without it, the turn as it is now comes
    /// first.
    ///
    /// # Errors
    /// `not_found`; `busy`: as many streams as are allowed are open.
    async fn follow(
        &self,
        session: &str,
        turn: &str,
        after: Option<u64>,
    ) -> Result<TurnUpdates<'_>>;

    /// Cancels a turn with all of its runs.
    ///
    /// # Errors
    /// `not_found`: it is not open.
    async fn cancel_turn(&self, session: &str, turn: &str) -> Result<Turn>;

    /// Cancels a run and what it gave to others.
    ///
    /// # Errors
    /// `not_found`: it is not open.
    async fn cancel_run(&self, session: &str, run: &str) -> Result<Turn>;
}
