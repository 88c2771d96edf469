//! What model calls used.

use async_trait::async_trait;

use super::Result;
use crate::usage::{SessionUsage, Usage as Used};
use crate::{Page, PageQuery};

/// What model calls used.
#[async_trait]
pub trait Usage {
    /// What a session used, or all of them, by agent and model.
    ///
    /// # Errors
    /// `not_found`.
    async fn usage(&self, session: Option<&str>) -> Result<Used>;

    /// The sessions with their usage, the largest usage first; those without any are left out.
    ///
    /// # Errors
    /// `invalid_request`: the cursor is none of this list.
    async fn session_usage(&self, query: &PageQuery) -> Result<Page<SessionUsage>>;
}
