//! Summaries, and what a conversation was about.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::compaction::{Checkpoint, CheckpointDetail, Compaction, Estimate, NewCompaction};
use crate::session::BranchPageQuery;
use crate::topic::Topic;

/// Summaries, and what a conversation was about.
#[async_trait]
pub trait Compactions {
    /// The checkpoints of a session, the newest first.
    ///
    /// # Errors
    /// `not_found`.
    async fn checkpoints(&self, session: &str, query: &BranchPageQuery)
    -> Result<Page<Checkpoint>>;

    /// A checkpoint with all that is known of it, by its number or its id, and what taking it back
    /// on a branch would do.
    ///
    /// # Errors
    /// `not_found`: the session, the checkpoint or the branch.
    async fn checkpoint(
        &self,
        session: &str,
        number: &str,
        branch: &str,
    ) -> Result<CheckpointDetail>;

    /// A turn with its changes of the context.
    ///
    /// # Errors
    /// `not_found`: the session or the turn.
    async fn compaction(&self, session: &str, turn: &str) -> Result<Compaction>;

    /// What a compaction would do. Nothing is done.
    ///
    /// # Errors
    /// `not_found`: the session or its branch; `refused`: it contradicts itself, or no step would
    /// make the context fit.
    async fn estimate(&self, session: &str, new: &NewCompaction) -> Result<Estimate>;

    /// The topics of a branch, the oldest first; none where nothing was decided about topics.
    ///
    /// # Errors
    /// `not_found`: the session or its branch.
    async fn topics(&self, session: &str, query: &BranchPageQuery) -> Result<Page<Topic>>;

    /// Ends the current topic of a branch: what is said next opens another one. Answers the topic
    /// that has ended.
    ///
    /// # Errors
    /// `not_found`: the session or its branch; `conflict`: there is no topic to end.
    async fn seal(&self, session: &str, branch: &str) -> Result<Topic>;
}
