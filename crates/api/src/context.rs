//! What a model sees of a conversation.

use serde::{Deserialize, Serialize};

use crate::session::{Few, main_branch};
use crate::topic::Topic;
use crate::turn::{Settings, settings_text};

/// Whose context is meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ContextQuery {
    /// The branch: `main`.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that would answer; none: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// The agents that would work before it, with commas between them; none: as configured; empty:
    /// the lead alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// Settings of its own, as a turn may have them: an object in JSON.
    #[serde(
        default,
        with = "settings_text",
        skip_serializing_if = "Settings::is_empty"
    )]
    #[cfg_attr(feature = "description", param(value_type = Option<String>))]
    pub settings: Settings,
    /// Whether the provider of the lead's model is asked as well how many tokens it has.
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
    /// The encoding tokens are counted in.
    pub encoding: String,
    /// The model's window.
    pub window_tokens: u64,
    /// What of it is left for the conversation.
    pub usable_tokens: u64,
    /// What the rest of the window is reserved for: of the agent that leaves least, in each
    /// encoding in which the context is counted; the lead's encoding first.
    pub usable: Vec<Usable>,
    /// What the conversation takes.
    pub used_tokens: u64,
    /// The same, of what is usable.
    pub occupancy_percent: u64,
    /// Whether some counts are estimates.
    pub approximate: bool,
    /// The system text.
    pub system: String,
    /// What it takes.
    pub system_tokens: u64,
    /// The tools the agents are told of.
    pub tools: Vec<Tool>,
    /// What they take.
    pub tools_tokens: u64,
    /// Servers whose tools the agents may call, and that no turn of the session has asked yet: their
    /// tools are not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unasked_servers: Vec<String>,
    /// What was talked about, the newest topic first; none where nothing was decided about topics.
    pub topics: Few<Topic>,
    /// What each tier has, where the preset has tiers.
    pub tiers: Vec<TierLoad>,
    /// Summaries, in the order of the conversation.
    pub summaries: Vec<Summary>,
    /// Messages that stand for themselves.
    pub messages: Vec<Entry>,
    /// What the provider of the lead's model counts for all of it and the lead's persona, where it
    /// was to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_tokens: Option<u64>,
    /// Why that is not known, where it was to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_exact: Option<String>,
}

impl Context {
    /// The same with what the provider counts, or why that is not known.
    #[must_use]
    pub fn counted(self, exact: Result<u64, String>) -> Context {
        Context {
            exact_tokens: exact.as_ref().ok().copied(),
            not_exact: exact.err(),
            ..self
        }
    }
}

/// What an agent's model leaves for the conversation: its window without all that follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Usable {
    /// The agent.
    pub agent: String,
    /// Whether it is the lead.
    pub lead: bool,
    /// Its model.
    pub model: String,
    /// The encoding tokens are counted in.
    pub encoding: String,
    /// The model's window.
    pub window_tokens: u64,
    /// Reserved for its longest reply.
    pub reply_tokens: u64,
    /// Kept free for what an estimate misses.
    pub safety_tokens: u64,
    /// The system text and tools.
    pub preamble_tokens: u64,
    /// Its persona and task.
    pub assignment_tokens: u64,
    /// Reserved for the results of its delegates.
    pub results_tokens: u64,
    /// What is added where the model's tokens are estimated and turned out to be fewer; less than
    /// zero where they turned out to be more.
    pub calibration_tokens: i64,
    /// What is left.
    pub usable_tokens: u64,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// What a tier of the context has, and what it may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TierLoad {
    /// Its name for people.
    pub name: String,
    /// What it has.
    pub tokens: u64,
    /// What it may have.
    pub share_tokens: u64,
}

/// A summary in the context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Summary {
    /// The number of its checkpoint.
    pub checkpoint: u32,
    /// The first message it stands for.
    pub first: u32,
    /// The last one.
    pub last: u32,
    /// How many it stands for.
    pub messages: u32,
    /// Of what it is a summary: `conversation`, `topic` (one historical topic) or `bulk` (several
    /// old ones).
    pub tier: String,
    /// What it takes.
    pub tokens: u64,
    /// What stood there before.
    pub tokens_before: u64,
    /// That divided by what it takes; none where it takes nothing.
    pub compression_ratio: Option<f64>,
    /// Whether less was kept verbatim than was asked for: otherwise the context would not have
    /// fitted.
    pub tightened: bool,
    /// When it was made: for a topic or a bulk, when it was sealed.
    pub at: String,
    /// The model that wrote it.
    pub model: String,
    /// Whether it is only a note in place of what was dropped.
    #[serde(default)]
    pub note: bool,
    /// The block as the model sees it.
    pub text: String,
}

/// A message in the context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Entry {
    /// Its place on the branch.
    pub ordinal: u32,
    /// Who speaks.
    pub role: String,
    /// The agent that wrote it.
    pub author: Option<String>,
    /// What it takes.
    pub tokens: u64,
    /// Whether it stands verbatim whatever is summarised.
    pub pinned: bool,
    /// `masked` or `cut` where it is not whole.
    pub form: Option<String>,
    /// What the model sees of it.
    pub text: String,
}

/// A frozen context, rebuilt from the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its id: a digest of what the model saw.
    pub snapshot: String,
    /// The turns that were given it, oldest first.
    pub turns: Vec<String>,
    /// How many agents were given it.
    pub agents: u32,
    /// The encoding tokens are counted in.
    pub encoding: String,
    /// The system text.
    pub system: String,
    /// The tools the agents were told of.
    pub tools: Vec<Tool>,
    /// Summaries, in the order of the conversation.
    pub summaries: Vec<Summary>,
    /// Messages that stood for themselves.
    pub messages: Vec<Entry>,
}
