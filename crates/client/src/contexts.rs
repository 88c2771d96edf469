//! Contexts, snapshots and pins.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::Page;
use unisono_api::context::{Context, ContextQuery, ContextSize, Snapshot};
use unisono_api::pin::Pins;
use unisono_api::service::{Contexts, Result};
use unisono_api::session::BranchPageQuery;

use crate::{Client, resource_path};

#[async_trait]
impl Contexts for Client {
    async fn context(&self, session: &str, query: &ContextQuery) -> Result<Context> {
        let query = ContextQuery {
            settings: self.with_flags(&query.settings),
            ..query.clone()
        };
        self.get_with(&resource_path(["sessions", session, "context"]), &query)
            .await
    }

    async fn context_history(
        &self,
        session: &str,
        query: &BranchPageQuery,
    ) -> Result<Page<ContextSize>> {
        self.get_with(
            &resource_path(["sessions", session, "context", "history"]),
            query,
        )
        .await
    }

    async fn snapshot(&self, session: &str, snapshot: &str) -> Result<Snapshot> {
        self.get(&resource_path(["sessions", session, "snapshots", snapshot]))
            .await
    }

    async fn pins(&self, session: &str, query: &BranchPageQuery) -> Result<Pins> {
        self.get_with(&resource_path(["sessions", session, "pins"]), query)
            .await
    }

    async fn pin(&self, session: &str, branch: &str, message: &str, pinned: bool) -> Result<Pins> {
        let method = if pinned { Method::PUT } else { Method::DELETE };
        let request = self.request(
            method,
            &resource_path(["sessions", session, "pins", message]),
        );
        self.json(request.query(&[("branch", branch)])).await
    }
}
