//! The store itself.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::Page;
use unisono_api::service::{Result, Store};
use unisono_api::store::{Acknowledged, Loss, LossQuery, Vacuumed};

use crate::Client;

#[async_trait]
impl Store for Client {
    async fn vacuum(&self) -> Result<Vacuumed> {
        self.json(self.request(Method::POST, "/v1/vacuum")).await
    }

    async fn losses(&self, query: &LossQuery) -> Result<Page<Loss>> {
        self.json(self.request(Method::GET, "/v1/losses").query(query))
            .await
    }

    async fn acknowledge_losses(&self) -> Result<Acknowledged> {
        let request = self.request(Method::POST, "/v1/losses/acknowledge");
        self.json(request).await
    }

    async fn close(self: Arc<Self>) {}
}
