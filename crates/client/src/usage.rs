//! The usage of model calls.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::service::{Result, Usage};
use unisono_api::usage::{SessionUsage, Usage as Used, UsageQuery};
use unisono_api::{Page, PageQuery};

use crate::Client;

#[async_trait]
impl Usage for Client {
    async fn usage(&self, query: &UsageQuery) -> Result<Used> {
        let request = self.request(Method::GET, "/v1/usage");
        self.json(request.query(query)).await
    }

    async fn session_usage(&self, query: &PageQuery) -> Result<Page<SessionUsage>> {
        let request = self.request(Method::GET, "/v1/usage/sessions");
        self.json(request.query(query)).await
    }
}
