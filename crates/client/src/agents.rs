//! Agents and models.

use async_trait::async_trait;
use reqwest::Method;
use unisono_api::agent::{
    Agent, AgentCheck, AgentDetail, AgentImport, AgentQuery, Model, NewAgentFile, NewAgentImport,
    Reload,
};
use unisono_api::service::{Agents, Result};

use crate::{Client, resource_path};

#[async_trait]
impl Agents for Client {
    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>> {
        let query = AgentQuery {
            settings: self.with_flags(&query.settings),
            ..query.clone()
        };
        self.get_with("/v1/agents", &query).await
    }

    async fn agent(&self, agent: &str) -> Result<AgentDetail> {
        self.get(&resource_path(["agents", agent])).await
    }

    async fn check_agent(&self, agent: &str, new: &NewAgentFile) -> Result<AgentCheck> {
        let path = resource_path(["agents", agent, "check"]);
        self.json(self.post(&path, new)).await
    }

    async fn save_agent(&self, agent: &str, new: &NewAgentFile) -> Result<Reload> {
        let request = self.request(Method::PUT, &resource_path(["agents", agent]));
        self.json(request.json(new)).await
    }

    async fn import_agents(&self, new: &NewAgentImport) -> Result<AgentImport> {
        self.json(self.post("/v1/agent-imports", new)).await
    }

    async fn reload_agents(&self) -> Result<Reload> {
        self.json(self.request(Method::POST, "/v1/agents/reload"))
            .await
    }

    async fn models(&self) -> Result<Vec<Model>> {
        self.get("/v1/models").await
    }
}
