//! Checkpoints, compactions and topics.

use async_trait::async_trait;
use unisono_api::Page;
use unisono_api::compaction::{Checkpoint, CheckpointDetail, Compaction, Estimate, NewCompaction};
use unisono_api::service::{Compactions, Result};
use unisono_api::session::BranchPageQuery;
use unisono_api::topic::{Seal, Topic};

use crate::{Client, resource_path};

#[async_trait]
impl Compactions for Client {
    async fn checkpoints(
        &self,
        session: &str,
        query: &BranchPageQuery,
    ) -> Result<Page<Checkpoint>> {
        self.get_with(&resource_path(["sessions", session, "checkpoints"]), query)
            .await
    }

    async fn checkpoint(
        &self,
        session: &str,
        number: &str,
        branch: &str,
    ) -> Result<CheckpointDetail> {
        let path = resource_path(["sessions", session, "checkpoints", number]);
        self.get_with(&path, &[("branch", branch)]).await
    }

    async fn compaction(&self, session: &str, turn: &str) -> Result<Compaction> {
        self.get(&resource_path(["sessions", session, "compactions", turn]))
            .await
    }

    async fn estimate(&self, session: &str, new: &NewCompaction) -> Result<Estimate> {
        let new = NewCompaction {
            settings: self.with_flags(&new.settings),
            ..new.clone()
        };
        let path = resource_path(["sessions", session, "compactions", "dry-run"]);
        self.json(self.post(&path, &new)).await
    }

    async fn topics(&self, session: &str, query: &BranchPageQuery) -> Result<Page<Topic>> {
        self.get_with(&resource_path(["sessions", session, "topics"]), query)
            .await
    }

    async fn seal(&self, session: &str, branch: &str) -> Result<Topic> {
        let path = resource_path(["sessions", session, "topics", "seal"]);
        let branch = branch.to_owned();
        self.json(self.post(&path, &Seal { branch })).await
    }
}
