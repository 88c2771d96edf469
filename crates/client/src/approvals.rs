//! Tool calls that wait for a person.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use async_trait::async_trait;
use unisono_api::Page;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, DecisionResult};
use unisono_api::service::{Approvals, Result};

use crate::{Client, resource_path};

#[async_trait]
impl Approvals for Client {
    async fn approvals(&self, query: &ApprovalQuery) -> Result<Page<Approval>> {
        self.get_with("/v1/approvals", query).await
    }

    async fn count_approvals(&self, limit: NonZeroUsize) -> Result<usize> {
        let query = ApprovalQuery {
            limit: Some(limit),
            ..ApprovalQuery::default()
        };
        Ok(self.approvals(&query).await?.items.len())
    }

    async fn count_approvals_of(&self, sessions: &[String]) -> Result<BTreeMap<String, usize>> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut query = ApprovalQuery::default();
        loop {
            let part = self.approvals(&query).await?;
            let calls = part.items.into_iter();
            for call in calls.filter(|call| sessions.contains(&call.session)) {
                *counts.entry(call.session).or_default() += 1;
            }
            if part.next.is_none() {
                return Ok(counts);
            }
            query.cursor = part.next;
        }
    }

    async fn decide(&self, call: &str, decide: &Decide) -> Result<DecisionResult> {
        let path = resource_path(["approvals", call]);
        self.json(self.post(&path, decide)).await
    }
}
