//! Fan-outs requested by a client.

use serde::{Deserialize, Serialize};

use crate::run::{ErrorInfo, Run};
use crate::session::{main_branch, yes};
use crate::usage::Amounts;

/// A task for several agents in parallel, on one frozen context; a lead answers with their results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewDelegation {
    /// The text of the task.
    pub task: String,
    /// The agents that work on it, at least one.
    #[cfg_attr(feature = "description", schema(min_items = 1))]
    pub agents: Vec<Delegate>,
    /// The branch to continue.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that answers; absent: as configured.
    pub lead: Option<String>,
    /// Whether to wait for the answer; otherwise it is accepted and can be followed.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// An agent with its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Delegate {
    /// The agent.
    pub agent: String,
    /// Its own task; absent: the common task.
    pub task: Option<String>,
}

/// A fan-out in its current state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Delegation {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its turn, which identifies it.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// Its branch.
    pub branch: String,
    /// The state of the turn: `queued`, `preparing`, `working`, `answered`, `failed` or
    /// `cancelled`.
    pub state: String,
    /// The frozen context of all agents.
    pub snapshot: Option<String>,
    /// Number of agents that got it, the lead included.
    pub snapshot_agents: u32,
    /// The runs of the agents and of their delegates.
    pub runs: Vec<Run>,
    /// Missing and incomplete results, with agent and reason.
    pub missing: Vec<MissingResult>,
    /// The lead's answer.
    pub answer: Option<String>,
    /// Why there is no answer.
    pub error: Option<ErrorInfo>,
    /// The total cost of the ended runs, the lead's included; null if a price is unknown.
    pub cost_usd: Option<f64>,
    /// Their total usage.
    #[serde(default)]
    pub usage: Amounts,
}

/// A missing or incomplete result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct MissingResult {
    /// The run.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// Its agent.
    pub agent: String,
    /// `partial`, `failed` or `cancelled`.
    pub state: String,
    /// Why.
    pub reason: Option<String>,
}
