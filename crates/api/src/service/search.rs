//! What was said, found by its words.

use async_trait::async_trait;

use super::Result;
use crate::search::{Found, SearchQuery};

/// What was said, found by its words.
#[async_trait]
pub trait Search {
    /// Searches one session, also what has left its context, or all of them; the best first.
    ///
    /// # Errors
    /// `refused`: there is nothing to search for, or too much; `not_found`: the session or its
    /// branch.
    async fn search(&self, session: Option<&str>, query: &SearchQuery) -> Result<Found>;
}
