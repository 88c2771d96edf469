//! The usage of model calls.

use async_trait::async_trait;

use super::Result;
use crate::usage::{SessionUsage, Usage as Used};
use crate::{Page, PageQuery};

/// The usage of model calls.
#[async_trait]
pub trait Usage {
    /// The usage of one or all sessions, by agent and model.
    ///
    /// # Errors
    /// `not_found`.
    async fn usage(&self, session: Option<&str>) -> Result<Used>;

    /// The sessions with their usage, the largest usage first; sessions without usage are omitted.
    ///
    /// # Errors
    /// `invalid_request`: the cursor does not belong to this list.
    async fn session_usage(&self, query: &PageQuery) -> Result<Page<SessionUsage>>;
}
