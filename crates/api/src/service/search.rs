//! Full-text search.

use async_trait::async_trait;

use super::Result;
use crate::search::{SearchQuery, SearchResults};

/// Full-text search.
#[async_trait]
pub trait Search {
    /// Searches one session or all sessions, including messages that have left the context; the
    /// best first. Of one session, an empty query finds the newest messages.
    ///
    /// # Errors
    /// `refused`: the query is too large, or empty for all sessions; `not_found`: the session or its
    /// branch.
    async fn search(&self, session: Option<&str>, query: &SearchQuery) -> Result<SearchResults>;
}
