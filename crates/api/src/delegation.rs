//! A fan-out that the caller asks for.

use serde::{Deserialize, Serialize};

use crate::session::main_branch;
use crate::turn::{Fault, Run, yes};
use crate::usage::Amounts;

/// A task for several agents at once, on one frozen context; a lead answers with what they found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewDelegation {
    /// What is to be done.
    pub task: String,
    /// Who works on it, at least one.
    #[cfg_attr(feature = "description", schema(min_items = 1))]
    pub agents: Vec<Delegate>,
    /// The branch it continues.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that answers; none: as configured.
    #[serde(default)]
    pub lead: Option<String>,
    /// Whether to wait for the answer; otherwise it is accepted and can be followed.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// An agent with what it is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Delegate {
    /// The agent.
    pub agent: String,
    /// Its own task; none: that of all.
    #[serde(default)]
    pub task: Option<String>,
}

/// A fan-out, as far as it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Delegation {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn that does it, by which it is found.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// Its branch.
    pub branch: String,
    /// As of the turn: `queued`, `preparing`, `working`, `answered`, `failed` or `cancelled`.
    pub state: String,
    /// The frozen context that all were given.
    pub snapshot: Option<String>,
    /// How many agents were given it, the lead included.
    pub snapshot_agents: u32,
    /// The runs of those it was given to, and of those they gave tasks to.
    pub runs: Vec<Run>,
    /// What is not there, or not whole: each agent with why.
    pub missing: Vec<Missing>,
    /// The lead's answer.
    pub answer: Option<String>,
    /// Why there is none.
    pub error: Option<Fault>,
    /// What the runs that ended cost together, the lead's included; none where a price is not known.
    pub cost_usd: Option<f64>,
    /// What they used together.
    #[serde(default)]
    pub usage: Amounts,
}

/// A result that is not there, or not whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Missing {
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
