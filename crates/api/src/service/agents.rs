//! Who can be asked.

use async_trait::async_trait;

use super::Result;
use crate::agent::{Agent, AgentQuery, Model, Reload};

/// Who can be asked: agents and models.
#[async_trait]
pub trait Agents {
    /// All agents by name, with the part each would take in what is asked.
    ///
    /// # Errors
    /// `refused`: one that is named is unknown, or a setting is wrong; `not_found`: the session.
    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>>;

    /// Reads the definitions of all agents again, for turns that begin later; all or none.
    ///
    /// # Errors
    /// `refused`: one is wrong; all stay as they were.
    async fn reload_agents(&self) -> Result<Reload>;

    /// The models of the catalogue, by name.
    async fn models(&self) -> Result<Vec<Model>>;
}
