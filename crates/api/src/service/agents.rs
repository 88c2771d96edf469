//! Agents and models.

use async_trait::async_trait;

use super::Result;
use crate::agent::{
    Agent, AgentCheck, AgentDetail, AgentImport, AgentQuery, Model, NewAgentFile, NewAgentImport,
    Reload,
};

/// Agents and models.
#[async_trait]
pub trait Agents {
    /// All agents by name, each with its role in the turn that the query describes.
    ///
    /// # Errors
    /// `refused`: a named agent is unknown, or a setting is wrong; `not_found`: the session.
    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>>;

    /// An agent with its definition.
    ///
    /// # Errors
    /// `not_found`.
    async fn agent(&self, agent: &str) -> Result<AgentDetail>;

    /// Checks a new text for the file of an agent, with all other definitions. Nothing is written.
    ///
    /// # Errors
    /// `not_found`: there is no such agent, or no file defines it; `too_large`.
    async fn check_agent(&self, agent: &str, new: &NewAgentFile) -> Result<AgentCheck>;

    /// Replaces the file of an agent, for turns that begin later.
    ///
    /// # Errors
    /// As `check_agent`; `forbidden`: files of agents cannot be changed; `conflict`: the file has
    /// changed since it was read; `refused`: the text is wrong.
    async fn save_agent(&self, agent: &str, new: &NewAgentFile) -> Result<Reload>;

    /// Imports agents of another program: converts them, and writes a file for each that has none, for
    /// turns that begin later.
    ///
    /// # Errors
    /// `forbidden`: files of agents cannot be changed; `refused`: a name, a format, or the definitions
    /// together are wrong, and nothing was written; `too_large`.
    async fn import_agents(&self, new: &NewAgentImport) -> Result<AgentImport>;

    /// Reads the definitions of all agents again, for turns that begin later; all or none.
    ///
    /// # Errors
    /// `refused`: a definition is wrong; nothing changed.
    async fn reload_agents(&self) -> Result<Reload>;

    /// The models of the catalogue, by name.
    async fn models(&self) -> Result<Vec<Model>>;
}
