//! Agents and models.

use async_trait::async_trait;

use super::Result;
use crate::agent::{Agent, AgentQuery, Model, Reload};

/// Agents and models.
#[async_trait]
pub trait Agents {
    /// All agents by name, with their role in the described turn.
    ///
    /// # Errors
    /// `refused`: a named agent is unknown, or a setting is wrong; `not_found`: the session.
    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>>;

    /// Reads the definitions of all agents again, for turns that begin later; all or none.
    ///
    /// # Errors
    /// `refused`: a definition is wrong; nothing changed.
    async fn reload_agents(&self) -> Result<Reload>;

    /// The models of the catalogue, by name.
    async fn models(&self) -> Result<Vec<Model>>;
}
