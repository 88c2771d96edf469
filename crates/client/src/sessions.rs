//! Conversations.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::Page;
use unisono_api::service::{Result, Sessions};
use unisono_api::session::{Listed, NewSession, Session, SessionQuery};

use crate::Client;

#[async_trait]
impl Sessions for Client {
    async fn sessions(&self, query: &SessionQuery) -> Result<Page<Listed>> {
        self.json(self.request(Method::GET, "/v1/sessions").query(query))
            .await
    }

    async fn session(&self, session: &str) -> Result<Session> {
        self.json(self.request(Method::GET, &format!("/v1/sessions/{session}")))
            .await
    }

    async fn create_session(&self, new: NewSession) -> Result<Session> {
        self.json(self.post("/v1/sessions", &new)).await
    }

    async fn delete_session(&self, session: &str, purge: bool) -> Result<()> {
        let path = format!("/v1/sessions/{session}?purge={purge}");
        self.send(self.request(Method::DELETE, &path)).await?;
        Ok(())
    }
}
