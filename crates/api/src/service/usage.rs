//! The usage of model calls.

use async_trait::async_trait;

use super::Result;
use crate::usage::{SessionUsage, Usage as Used, UsageQuery};
use crate::{Page, PageQuery};

/// The usage of model calls.
#[async_trait]
pub trait Usage {
    /// The usage of one or all sessions, of all or some days, by agent and model, and grouped as
    /// requested.
    ///
    /// # Errors
    /// `not_found`; `invalid_request`: a day is none.
    async fn usage(&self, query: &UsageQuery) -> Result<Used>;

    /// The sessions with their usage, the largest usage first; sessions without usage are omitted.
    ///
    /// # Errors
    /// `invalid_request`: the cursor does not belong to this list.
    async fn session_usage(&self, query: &PageQuery) -> Result<Page<SessionUsage>>;
}
