//! Tool calls that wait for a person.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::Page;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, DecisionResult};
use unisono_api::service::{Approvals, Result};

use crate::Client;

#[async_trait]
impl Approvals for Client {
    async fn approvals(&self, query: &ApprovalQuery) -> Result<Page<Approval>> {
        self.json(self.request(Method::GET, "/v1/approvals").query(query))
            .await
    }

    async fn decide(&self, call: &str, decide: &Decide) -> Result<DecisionResult> {
        let path = format!("/v1/approvals/{call}");
        self.json(self.post(&path, decide)).await
    }
}
