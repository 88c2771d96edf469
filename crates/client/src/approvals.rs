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
        let mut query = ApprovalQuery {
            limit: Some(limit),
            ..ApprovalQuery::default()
        };
        let mut count = 0;
        loop {
            let part = self.approvals(&query).await?;
            count += part.items.len();
            if part.next.is_none() || count >= limit.get() {
                return Ok(count.min(limit.get()));
            }
            query.cursor = part.next;
        }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::answering;

    /// A page with two calls.
    fn page(next: Option<&str>) -> String {
        let call = json!({"call": "c", "kind": "approval", "session": "s", "turn": "t", "run": "r",
            "agent": "a", "tool": "x", "arguments": {}, "contract": "pure", "rule": null,
            "requested_at": "2026-05-07T00:00:00Z", "expires_at": null});
        let items: [Value; 2] = [call.clone(), call];
        json!({"items": items, "next": next}).to_string()
    }

    #[tokio::test]
    async fn waiting_calls_of_several_pages_are_counted_up_to_the_limit() {
        for (limit, expected, asked) in [(2, 2, 1), (3, 3, 2), (9, 4, 2)] {
            let pages = [page(Some("c2")), page(None)];
            let (url, requests) = answering(pages.into_iter().take(asked).collect());
            let client = Client::new(url, "token").unwrap();
            let limit = NonZeroUsize::new(limit).unwrap();
            let count = client.count_approvals(limit).await.unwrap();
            assert_eq!(count, expected, "{limit}");
            let requests = requests.join().unwrap();
            assert_eq!(requests.len(), asked, "{limit}");
            let next = requests.get(1).map(|request| request.contains("cursor=c2"));
            assert_ne!(next, Some(false), "{requests:?}");
        }
    }
}
