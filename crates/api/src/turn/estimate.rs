//! What a task is expected to use, before it is sent.

use serde::{Deserialize, Serialize};

/// The expected usage of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TurnEstimate {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The branch.
    pub branch: String,
    /// Tokens of the task, in the encoding of the lead's model.
    pub task_tokens: u64,
    /// Tokens of the context now.
    pub context_tokens: u64,
    /// Maximum tokens of the context after the compaction that the turn begins with.
    pub context_tokens_after: u64,
    /// The steps of that compaction, for people; empty: nothing is compacted.
    pub steps: Vec<String>,
    /// Why the turn would fail.
    pub problem: Option<String>,
    /// The first request of each agent: its delegates in order, then the lead.
    pub runs: Vec<RunEstimate>,
    /// The sum of their input tokens.
    pub input_tokens: u64,
    /// The sum of their maximum output tokens.
    pub max_output_tokens: u64,
    /// Dollars for the input without a prompt cache; null: a price is unknown.
    pub input_cost_usd: Option<f64>,
    /// Dollars if each reply is as long as it may be; null: a price is unknown.
    pub max_cost_usd: Option<f64>,
    /// Whether a count is only an estimate.
    pub approximate: bool,
    /// Budgets that have less left than the maximum, for people.
    pub warnings: Vec<String>,
}

/// The expected usage of the first request of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RunEstimate {
    /// The agent.
    pub agent: String,
    /// `lead` or `delegate`.
    pub role: String,
    /// Its model; null: it is a program or a server, whose use is unknown.
    pub model: Option<String>,
    /// Input tokens: system text, tools, role, context and task. The results of delegates come on
    /// top of the lead's.
    pub input_tokens: u64,
    /// Input tokens that agents before it send to the same model as well: a prompt cache may have
    /// them.
    pub shared_tokens: u64,
    /// Maximum tokens of its reply.
    pub max_output_tokens: u64,
    /// Dollars for the input without a prompt cache; null: the price is unknown.
    pub input_cost_usd: Option<f64>,
    /// Dollars if its reply is as long as it may be; null: a price is unknown.
    pub max_cost_usd: Option<f64>,
}
