//! The usage of model calls.

use async_trait::async_trait;
use unisono_api::service::{Result, Usage};
use unisono_api::usage::{SessionUsage, Usage as Used, UsageQuery};
use unisono_api::{Page, PageQuery};

use crate::Client;

#[async_trait]
impl Usage for Client {
    async fn usage(&self, query: &UsageQuery) -> Result<Used> {
        self.get_with("/v1/usage", query).await
    }

    async fn session_usage(&self, query: &PageQuery) -> Result<Page<SessionUsage>> {
        self.get_with("/v1/usage/sessions", query).await
    }
}
