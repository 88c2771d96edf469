//! Checkpoints, compactions and topics.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::compaction::{Checkpoint, CheckpointDetail, Compaction, Estimate, NewCompaction};
use crate::session::BranchPageQuery;
use crate::topic::Topic;

/// Checkpoints, compactions and topics.
#[async_trait]
pub trait Compactions {
    /// The checkpoints of a session, the newest first.
    ///
    /// # Errors
    /// `not_found`.
    async fn checkpoints(&self, session: &str, query: &BranchPageQuery)
    -> Result<Page<Checkpoint>>;

    /// A checkpoint with all its details, by number or id, and the effect of reverting it on a
    /// branch.
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

    /// The expected outcome of a compaction. It is not carried out.
    ///
    /// # Errors
    /// `not_found`: the session or its branch; `refused`: the request contradicts itself, or no
    /// step would make the context fit.
    async fn estimate(&self, session: &str, new: &NewCompaction) -> Result<Estimate>;

    /// The topics of a branch, the oldest first; empty if topics were never decided.
    ///
    /// # Errors
    /// `not_found`: the session or its branch.
    async fn topics(&self, session: &str, query: &BranchPageQuery) -> Result<Page<Topic>>;

    /// Ends the current topic of a branch; the next message begins another one. Returns the ended
    /// topic.
    ///
    /// # Errors
    /// `not_found`: the session or its branch; `conflict`: there is no topic to end.
    async fn seal(&self, session: &str, branch: &str) -> Result<Topic>;
}
