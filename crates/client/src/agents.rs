//! Agents and models.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::agent::{Agent, AgentQuery, Model, Reload};
use unisono_api::service::{Agents, Result};

use crate::Client;

#[async_trait]
impl Agents for Client {
    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>> {
        let query = AgentQuery {
            settings: self.with_flags(&query.settings),
            ..query.clone()
        };
        self.json(self.request(Method::GET, "/v1/agents").query(&query))
            .await
    }

    async fn reload_agents(&self) -> Result<Reload> {
        self.json(self.request(Method::POST, "/v1/agents/reload"))
            .await
    }

    async fn models(&self) -> Result<Vec<Model>> {
        self.json(self.request(Method::GET, "/v1/models")).await
    }
}
