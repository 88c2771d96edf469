//! Contexts, snapshots and pins.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::context::{Context, ContextQuery, ContextSize, Snapshot};
use crate::pin::Pins;
use crate::session::BranchPageQuery;

/// Contexts, snapshots and pins.
#[async_trait]
pub trait Contexts {
    /// The context of a branch, by section, for the agents of a turn.
    ///
    /// # Errors
    /// `not_found`: the session or its branch; `refused`: an agent or a setting is wrong.
    async fn context(&self, session: &str, query: &ContextQuery) -> Result<Context>;

    /// The size of the context at each turn of a branch that froze or changed it, the newest first.
    /// A page may have fewer items than requested and still a next page.
    ///
    /// # Errors
    /// `not_found`: the session or its branch.
    async fn context_history(
        &self,
        session: &str,
        query: &BranchPageQuery,
    ) -> Result<Page<ContextSize>>;

    /// A frozen context, rebuilt from the journal and checked against its id.
    ///
    /// # Errors
    /// `not_found`; `failed`: it cannot be rebuilt.
    async fn snapshot(&self, session: &str, snapshot: &str) -> Result<Snapshot>;

    /// The pinned messages of a branch, the oldest first, and their tokens.
    ///
    /// # Errors
    /// `not_found`: the session or its branch.
    async fn pins(&self, session: &str, query: &BranchPageQuery) -> Result<Pins>;

    /// Pins or unpins a message of a branch, by its id or its number; returns the pinned messages.
    /// A call and its results are pinned together.
    ///
    /// # Errors
    /// `not_found`: the session, the branch or the message.
    async fn pin(&self, session: &str, branch: &str, message: &str, pinned: bool) -> Result<Pins>;
}
