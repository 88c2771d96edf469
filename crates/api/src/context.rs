//! The context that a model sees.

use serde::{Deserialize, Serialize};

use crate::session::{Preview, main_branch};
use crate::settings::{Settings, settings_text};
use crate::topic::Topic;

/// Selects a context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ContextQuery {
    /// The branch (default: `main`).
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that would answer; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// The agents that would work before it, separated by commas; absent: as configured; empty:
    /// only the lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// Its own settings, as in a turn: a JSON object.
    #[serde(
        default,
        with = "settings_text",
        skip_serializing_if = "Settings::is_empty"
    )]
    #[cfg_attr(feature = "description", param(value_type = Option<String>))]
    pub settings: Settings,
    /// Whether the provider of the lead's model also counts the tokens.
    #[serde(default)]
    pub exact: bool,
}

impl Default for ContextQuery {
    fn default() -> ContextQuery {
        ContextQuery {
            branch: main_branch(),
            lead: None,
            agents: None,
            settings: Settings::default(),
            exact: false,
        }
    }
}

/// The context of a branch, by section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Context {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The branch.
    pub branch: String,
    /// The id of the snapshot that a turn without new input would freeze.
    pub snapshot: String,
    /// The encoding in which tokens are counted.
    pub encoding: String,
    /// The model's window.
    pub window_tokens: u64,
    /// The tokens of the window that remain for the conversation.
    pub usable_tokens: u64,
    /// The reserved parts of the window: for the agent with the fewest usable tokens, in each
    /// encoding in which the context is counted; the lead's encoding first.
    pub usable: Vec<UsableTokens>,
    /// Tokens of the conversation.
    pub used_tokens: u64,
    /// The same as a percentage of the usable tokens.
    pub occupancy_percent: u64,
    /// Whether some counts are estimates.
    pub approximate: bool,
    /// The system text.
    pub system: String,
    /// Tokens of the system text, the list of skills included.
    pub system_tokens: u64,
    /// Tokens of the list of skills.
    #[serde(default)]
    pub skills_tokens: u64,
    /// The tools in the prompt of the agents.
    pub tools: Vec<Tool>,
    /// Tokens of the tools.
    pub tools_tokens: u64,
    /// Servers whose tools the agents may call but that no turn of the session has asked yet: their
    /// tools are not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncounted_servers: Vec<String>,
    /// The topics, the newest first; empty if topics were never decided.
    pub topics: Preview<Topic>,
    /// The size of each tier, if the preset has tiers.
    pub tiers: Vec<TierLoad>,
    /// Summaries, in the order of the conversation.
    pub summaries: Vec<Summary>,
    /// Verbatim messages.
    pub messages: Vec<ContextMessage>,
    /// Messages and tasks that the end of the current turn appends; not counted in `used_tokens`.
    #[serde(default)]
    pub pending_messages: u32,
    /// Their tokens.
    #[serde(default)]
    pub pending_tokens: u64,
    /// The summary that is written ahead for the next compaction of the branch; null: none.
    pub prepared: Option<PreparedSummary>,
    /// The provider's token count of the context and the lead's instructions, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_tokens: Option<u64>,
    /// Why this count is unknown, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_error: Option<String>,
}

/// A summary that is written ahead for the next compaction of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct PreparedSummary {
    /// `writing`, `ready`, or `dropped`: it will not be used.
    pub state: String,
    /// The first message that it replaces.
    pub first: u32,
    /// The last message that it replaces.
    pub last: u32,
    /// The turn after which it was planned.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub after: String,
    /// Its tokens, once it is written.
    pub tokens: Option<u64>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// Why it was dropped.
    pub reason: Option<String>,
}

impl std::fmt::Display for PreparedSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the summary of #{}–#{} ", self.first, self.last)?;
        match (self.tokens, &self.model, &self.reason) {
            (_, _, Some(reason)) => write!(f, "was not written ahead, or is not used: {reason}"),
            (Some(tokens), Some(model), None) => {
                write!(
                    f,
                    "is ready for the next compaction: {tokens} tokens by {model}"
                )
            }
            _ => f.write_str("is being written for the next compaction"),
        }
    }
}

impl Context {
    /// The same context with the provider's count, or the reason why it is unknown.
    #[must_use]
    pub fn counted(self, exact: Result<u64, String>) -> Context {
        Context {
            exact_tokens: exact.as_ref().ok().copied(),
            exact_error: exact.err(),
            ..self
        }
    }
}

/// The tokens that an agent's model has for the conversation: its window minus the following parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct UsableTokens {
    /// The agent.
    pub agent: String,
    /// Whether it is the lead.
    pub lead: bool,
    /// Its model.
    pub model: String,
    /// The encoding in which tokens are counted.
    pub encoding: String,
    /// The model's window.
    pub window_tokens: u64,
    /// Reserved for its longest reply.
    pub reply_tokens: u64,
    /// Reserved for errors of token estimates.
    pub safety_tokens: u64,
    /// The system text and tools.
    pub preamble_tokens: u64,
    /// Its instructions and task.
    pub assignment_tokens: u64,
    /// Reserved for the results of its delegates.
    pub results_tokens: u64,
    /// The correction of an estimate by the measured ratio of the model's tokens to it, and by the
    /// possible error of that ratio; negative if fewer tokens are usable.
    pub calibration_tokens: i64,
    /// The remaining tokens.
    pub usable_tokens: u64,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
}

/// The size of a tier of the context, and its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TierLoad {
    /// Its name for people.
    pub name: String,
    /// Its tokens.
    pub tokens: u64,
    /// Its maximum tokens.
    pub limit_tokens: u64,
}

/// A summary in the context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Summary {
    /// The number of its checkpoint.
    pub checkpoint: u32,
    /// The first message that it replaces.
    pub first: u32,
    /// The last message that it replaces.
    pub last: u32,
    /// Number of messages that it replaces.
    pub messages: u32,
    /// Its scope: `conversation`, `topic` (one historical topic) or `bulk` (several old topics).
    pub tier: String,
    /// Its tokens.
    pub tokens: u64,
    /// Tokens of the messages that it replaces.
    pub tokens_before: u64,
    /// Tokens before divided by its tokens; null if that is zero.
    pub compression_ratio: Option<f64>,
    /// Whether fewer messages were kept verbatim than requested, because the context would not have
    /// fitted.
    pub tightened: bool,
    /// When it was made; for a topic or a bulk, when it was sealed.
    pub at: String,
    /// The model that wrote it.
    pub model: String,
    /// Whether it is only a note in place of dropped messages.
    #[serde(default)]
    pub note: bool,
    /// The block as the model sees it.
    pub text: String,
}

/// A message in the context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ContextMessage {
    /// Its position on the branch.
    pub ordinal: u32,
    /// Its role.
    pub role: String,
    /// The agent or the person who wrote it.
    pub author: Option<String>,
    /// Its tokens.
    pub tokens: u64,
    /// Whether it stays verbatim in every compaction.
    pub pinned: bool,
    /// `masked` or `cut`; null if it is complete.
    pub form: Option<String>,
    /// Its text as the model sees it.
    pub text: String,
}

/// A frozen context, rebuilt from the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its id: a digest of the content that the model saw.
    pub snapshot: String,
    /// The turns that used it, oldest first.
    pub turns: Vec<String>,
    /// Number of agents that got it.
    pub agents: u32,
    /// The encoding in which tokens are counted.
    pub encoding: String,
    /// The system text.
    pub system: String,
    /// The tools in the prompt of the agents.
    pub tools: Vec<Tool>,
    /// Summaries, in the order of the conversation.
    pub summaries: Vec<Summary>,
    /// Verbatim messages.
    pub messages: Vec<ContextMessage>,
}

/// The size of the context at one turn of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ContextSize {
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// The state of the turn.
    pub state: String,
    /// When its context was frozen, or changed on request.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// The encoding of the counts: that of the lead's model.
    pub encoding: String,
    /// Tokens of the frozen summaries and messages, or of the context after a compaction on
    /// request; null: something is not counted.
    pub tokens: Option<u64>,
    /// The part of the summaries; null: it was a compaction on request, or is not counted.
    pub summary_tokens: Option<u64>,
    /// Number of verbatim messages; null: it was a compaction on request.
    pub messages: Option<u32>,
    /// The window of the lead's model.
    pub window_tokens: u64,
    /// Whether the turn made the context smaller, or reverted a checkpoint.
    pub changed: bool,
    /// Tokens before that; null: nothing changed.
    pub tokens_before: Option<u64>,
    /// The checkpoints that the turn made, by number.
    pub checkpoints: Vec<u32>,
}
