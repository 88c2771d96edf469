//! Tasks for a session, and their turns.

mod compaction;
mod ending;
mod estimate;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blob::Extent;
use crate::run::CallResult;
use crate::session::{main_branch, yes};
use crate::usage::{Amounts, Budget, SummaryUsage};

pub use crate::run::{ErrorInfo, Member, Run, RunPause};
pub use crate::settings::Settings;
pub use compaction::{
    Compacted, CompactionEffect, EditSummary, NewCompaction, OnFailure, RegenerateSummary,
    RetryCompaction, RevertCheckpoint,
};
pub use estimate::{RunEstimate, TurnEstimate};

/// A task for a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewTurn {
    /// The text of the task; optional if there are `results`.
    #[serde(default)]
    pub task: String,
    /// The person who says the task: 1 to 200 characters. A token with an owner may only name itself
    /// or its owner, unless its scope is `admin`; absent: the token, if it has an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The branch to continue.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that answers; absent: as configured.
    pub lead: Option<String>,
    /// Agents that work before it, each `agent` or `agent=task`; absent: as configured; empty: only
    /// the lead.
    pub agents: Option<Vec<String>>,
    /// Client functions for the lead, in OpenAI's format. The lead then works alone. A call of such
    /// a function ends the turn and is listed in its `calls`, for the client to make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Vec<Object>))]
    pub tools: Vec<Value>,
    /// `auto`, `none`, `required`, or one of these functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(value_type = Option<crate::openai::ToolChoice>))]
    pub tool_choice: Option<Value>,
    /// Whether one reply may have several calls of them; absent: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Images and documents that belong to the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<NewAttachment>,
    /// The results of the calls that the newest turn of the branch ended with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<CallResult>,
    /// Settings for this turn only, by dotted key: those of a session except
    /// `compaction.summarisers`, `compaction.prompt` and `compaction.summariser_retries`; and
    /// `budget.turn.max_cost_usd` and `budget.turn.max_tokens`.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// Whether to wait for the answer; otherwise the turn is accepted and can be followed.
    #[serde(default = "yes")]
    pub wait: bool,
    /// The client's own id of the message with the task, in a protocol in which messages have ids.
    /// It is stored with the key of the request, and is no part of a request over HTTP.
    #[serde(skip)]
    pub client_message_id: Option<String>,
    /// The division of that message into parts, in a form that its protocol's server reads. Like the
    /// id, it is stored with the key of the request, and is no part of a request over HTTP.
    #[serde(skip)]
    pub client_parts: Option<String>,
}

impl NewTurn {
    /// A task for the configured agents, on the default branch of a session. It is accepted without
    /// waiting for the answer.
    pub fn new(task: impl Into<String>) -> NewTurn {
        NewTurn {
            task: task.into(),
            author: None,
            branch: main_branch(),
            lead: None,
            agents: None,
            tools: Vec::new(),
            tool_choice: None,
            parallel_tool_calls: None,
            attachments: Vec::new(),
            results: Vec::new(),
            settings: Settings::new(),
            wait: false,
            client_message_id: None,
            client_parts: None,
        }
    }
}

/// An image or a document of a task: `data`, or the `digest` of an uploaded one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewAttachment {
    /// Its name.
    #[serde(default)]
    pub filename: String,
    /// Its type; absent: that of its content.
    #[serde(default)]
    pub mime: String,
    /// Its content in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// BLAKE3 of a stored content in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The address of its content, at a host of `attachments.allowed_hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// An image or a document of the task of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TurnAttachment {
    /// Its name.
    pub filename: String,
    /// Its type.
    pub mime: String,
    /// Its size.
    pub size_bytes: u64,
    /// BLAKE3 of its content in hexadecimal digits; absent: the content is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// How large it is to a model, if that is known.
    #[serde(flatten)]
    pub extent: Extent,
}

/// All requests to a session that become a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TurnRequest {
    /// A task.
    Task(NewTurn),
    /// A compaction of older messages.
    Compact(NewCompaction),
    /// A new text for the summary of a checkpoint.
    Edit {
        /// The checkpoint's number or id.
        #[serde(skip)]
        checkpoint: String,
        /// The text.
        #[serde(flatten)]
        new: EditSummary,
    },
    /// A regenerated summary of a checkpoint.
    Regenerate {
        /// The checkpoint's number or id.
        #[serde(skip)]
        checkpoint: String,
        /// The options.
        #[serde(flatten)]
        new: RegenerateSummary,
    },
    /// A reverted checkpoint.
    Revert {
        /// The checkpoint's number or id.
        #[serde(skip)]
        checkpoint: String,
        /// The branch.
        #[serde(flatten)]
        new: RevertCheckpoint,
    },
    /// A retry of the compaction, or the regeneration of a summary, of a failed turn.
    RetryCompaction {
        /// The turn.
        #[serde(skip)]
        turn: String,
        /// The options.
        #[serde(flatten)]
        new: RetryCompaction,
    },
}

impl TurnRequest {
    /// The same request, with or without waiting for its end.
    #[must_use]
    pub fn waited_for(&self, waited: bool) -> TurnRequest {
        let mut asked = self.clone();
        let wait = match &mut asked {
            TurnRequest::Task(new) => &mut new.wait,
            TurnRequest::Compact(new) => &mut new.wait,
            TurnRequest::Edit { new, .. } => &mut new.wait,
            TurnRequest::Regenerate { new, .. } => &mut new.wait,
            TurnRequest::Revert { new, .. } => &mut new.wait,
            TurnRequest::RetryCompaction { new, .. } => &mut new.wait,
        };
        *wait = waited;
        asked
    }

    /// Its own settings, if it may have any.
    pub fn settings_mut(&mut self) -> Option<&mut Settings> {
        match self {
            TurnRequest::Task(new) => Some(&mut new.settings),
            TurnRequest::Compact(new) => Some(&mut new.settings),
            TurnRequest::Regenerate { new, .. } => Some(&mut new.settings),
            TurnRequest::Edit { .. }
            | TurnRequest::Revert { .. }
            | TurnRequest::RetryCompaction { .. } => None,
        }
    }
}

/// A turn in its current state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Turn {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// Its branch.
    pub branch: String,
    /// Its lead, which may not have begun; absent for a compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// The text of its task; a note of its attachments if it has no text; null for a compaction.
    pub task: Option<String>,
    /// The client's own id of the message with the task, in a protocol in which messages have ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
    /// The division of that message into parts, as [`NewTurn::client_parts`].
    #[serde(skip)]
    pub client_parts: Option<String>,
    /// The images and documents of its task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<TurnAttachment>,
    /// `queued`, `preparing`, `working`, `answered`, `compacted`, `reverted`, `failed` or `cancelled`.
    pub state: String,
    /// Why it failed.
    pub error: Option<ErrorInfo>,
    /// The lead's answer.
    pub answer: Option<String>,
    /// Calls of client tools, for the client to make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ClientToolCall>,
    /// The frozen context of its agents.
    pub snapshot: Option<String>,
    /// Number of agents that got it.
    pub snapshot_agents: u32,
    /// The numbers of the checkpoints that it made.
    pub checkpoints: Vec<u32>,
    /// The outcome of the compaction of its context; absent: nothing was compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Compacted>,
    /// Notices about its models, such as a coming retirement, each with a remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Its runs, in the order of their opening.
    pub runs: Vec<Run>,
    /// The usage of its runs and of its requests for summaries.
    #[serde(default)]
    pub usage: Amounts,
    /// The part of requests for summaries; absent: no model was asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summaries: Option<SummaryUsage>,
    /// The cost of its usage; null if a price is unknown.
    pub cost_usd: Option<f64>,
    /// The turn's budgets; after its end, their last state. Absent if the turn has none, and in lists of
    /// turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// When it was accepted.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub accepted_at: String,
    /// When its branch was free and its input was appended; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub started_at: Option<String>,
    /// When a call that it waited for was last decided, or ended otherwise; none: no call was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub resumed_at: Option<String>,
    /// When its context was frozen; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub frozen_at: Option<String>,
    /// When it ended.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub ended_at: Option<String>,
}

/// A call of a client tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ClientToolCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Arguments as JSON text.
    pub arguments: String,
}
