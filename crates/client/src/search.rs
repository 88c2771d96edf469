//! Full-text search.

use async_trait::async_trait;
use unisono_api::search::{SearchQuery, SearchResults};
use unisono_api::service::{Result, Search};

use crate::{Client, resource_path};

#[async_trait]
impl Search for Client {
    async fn search(&self, session: Option<&str>, query: &SearchQuery) -> Result<SearchResults> {
        let path = match session {
            Some(session) => resource_path(["sessions", session, "search"]),
            None => "/v1/search".to_owned(),
        };
        self.get_with(&path, query).await
    }
}
