//! The programs that use a store together.

use async_trait::async_trait;
use unisono_api::Page;
use unisono_api::cluster::{ClusterMember, Drain};
use unisono_api::page::PageQuery;
use unisono_api::service::{Cluster, Result};
use unisono_api::session::SessionListItem;

use crate::{Client, resource_path};

#[async_trait]
impl Cluster for Client {
    async fn members(&self, query: &PageQuery) -> Result<Page<ClusterMember>> {
        self.get_with("/v1/cluster", query).await
    }

    async fn member_sessions(
        &self,
        member: &str,
        query: &PageQuery,
    ) -> Result<Page<SessionListItem>> {
        self.get_with(&resource_path(["cluster", member, "sessions"]), query)
            .await
    }

    async fn drain(&self, member: &str, drain: bool) -> Result<ClusterMember> {
        let path = resource_path(["cluster", member]);
        self.json(self.post(&path, &Drain { drain })).await
    }
}
