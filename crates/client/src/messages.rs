//! Messages, branches, and the message tree.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::blob::{Blob, BlobContent};
use unisono_api::message::{AppendedMessage, Message, MessageQuery, NewMessage};
use unisono_api::service::{Messages, Result};
use unisono_api::session::{Branch, BranchSegment, NewBranch, TreeMessage, TreeQuery};
use unisono_api::{Page, PageQuery};

use crate::{Client, resource_path};

#[async_trait]
impl Messages for Client {
    async fn messages(&self, session: &str, query: &MessageQuery) -> Result<Page<Message>> {
        self.get_with(&resource_path(["sessions", session, "messages"]), query)
            .await
    }

    async fn append(
        &self,
        session: &str,
        new: &NewMessage,
        key: Option<&str>,
    ) -> Result<AppendedMessage> {
        let mut request = self.post(&resource_path(["sessions", session, "messages"]), new);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        self.json(request).await
    }

    async fn put_blob(&self, bytes: Vec<u8>, mime: Option<&str>) -> Result<Blob> {
        let mime = mime.unwrap_or("application/octet-stream").to_owned();
        let request = self.request(Method::POST, "/v1/blobs");
        self.json(request.header("content-type", mime).body(bytes))
            .await
    }

    async fn blob(&self, digest: &str) -> Result<BlobContent> {
        self.content(&resource_path(["blobs", digest])).await
    }

    async fn branches(&self, session: &str, query: &PageQuery) -> Result<Page<Branch>> {
        self.get_with(&resource_path(["sessions", session, "branches"]), query)
            .await
    }

    async fn fork(&self, session: &str, new: &NewBranch) -> Result<Branch> {
        let path = resource_path(["sessions", session, "branches"]);
        self.json(self.post(&path, new)).await
    }

    async fn tree(&self, session: &str, query: &TreeQuery) -> Result<Page<BranchSegment>> {
        self.get_with(&resource_path(["sessions", session, "tree"]), query)
            .await
    }

    async fn tree_messages(&self, session: &str, query: &PageQuery) -> Result<Page<TreeMessage>> {
        self.get_with(
            &resource_path(["sessions", session, "tree", "messages"]),
            query,
        )
        .await
    }
}
