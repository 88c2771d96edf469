//! Tasks for a session, and their turns.

mod estimate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::{
    CompactionEffect, EditSummary, NewCompaction, RegenerateSummary, RetryCompaction,
    RevertCheckpoint,
};
use crate::run::CallResult;
use crate::session::main_branch;
use crate::usage::{Amounts, SummaryUsage};

pub use estimate::{RunEstimate, TurnEstimate};

/// A task for a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewTurn {
    /// The text of the task; optional if there are `results`.
    #[serde(default)]
    pub task: String,
    /// The branch to continue.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that answers; absent: as configured.
    #[serde(default)]
    pub lead: Option<String>,
    /// Agents that work before it, each `agent` or `agent=task`; absent: as configured; empty: only
    /// the lead.
    #[serde(default)]
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
    /// Settings for this turn only, by dotted key: settings that can change while the daemon runs,
    /// `models.default`, and `models.override`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// Whether to wait for the answer; otherwise the turn is accepted and can be followed.
    #[serde(default = "yes")]
    pub wait: bool,
}

impl NewTurn {
    /// A task for the configured agents, on the default branch of a session. It is accepted without
    /// waiting for the answer.
    pub fn new(task: impl Into<String>) -> NewTurn {
        NewTurn {
            task: task.into(),
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
}

/// Settings by dotted key.
pub type Settings = BTreeMap<String, Value>;

/// Settings as one query parameter: a JSON object.
pub(crate) mod settings_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::{Map, Value};

    use super::Settings;

    pub(crate) fn serialize<S: Serializer>(settings: &Settings, to: S) -> Result<S::Ok, S::Error> {
        let each = settings.iter();
        let each = each.map(|(key, value)| (key.clone(), value.clone()));
        let object = Value::Object(each.collect::<Map<_, _>>());
        to.serialize_str(&object.to_string())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Settings, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = |error| D::Error::custom(format!("settings: no object in JSON: {error}"));
        serde_json::from_str(&text).map_err(wrong)
    }
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

    /// The route of the request.
    pub fn route(&self, session: &str) -> String {
        let of = |checkpoint: &str, what: &str| {
            format!("/v1/sessions/{session}/checkpoints/{checkpoint}/{what}")
        };
        match self {
            TurnRequest::Task(_) => format!("/v1/sessions/{session}/turns"),
            TurnRequest::Compact(_) => format!("/v1/sessions/{session}/compactions"),
            TurnRequest::Edit { checkpoint, .. } => of(checkpoint, "edit"),
            TurnRequest::Regenerate { checkpoint, .. } => of(checkpoint, "regenerate"),
            TurnRequest::Revert { checkpoint, .. } => of(checkpoint, "revert"),
            TurnRequest::RetryCompaction { turn, .. } => {
                format!("/v1/sessions/{session}/turns/{turn}/retry")
            }
        }
    }
}

pub(crate) fn yes() -> bool {
    true
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
    /// The text of its task; a note of its attachments if it has no text; null for a compaction.
    pub task: Option<String>,
    /// The images and documents of its task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<TurnAttachment>,
    /// `queued`, `preparing`, `working`, `answered`, `compacted`, `failed` or `cancelled`.
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
    /// When it was accepted.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub accepted_at: String,
    /// When its branch was free and its input was appended; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub started_at: Option<String>,
    /// When its context was frozen; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub frozen_at: Option<String>,
    /// When it ended.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub ended_at: Option<String>,
}

/// An agent of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Member {
    /// Its position among the agents of the turn, from 0.
    pub place: u64,
    /// Its run; null before its start.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The agent.
    pub agent: String,
    /// `delegate`, `lead` or `child`.
    pub role: String,
    /// For a `delegate` of a pipeline: its position in the pipeline, from 1.
    pub stage: Option<u32>,
    /// The run that delegated to it, for a `child`.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub parent: Option<String>,
    /// `waiting` (for its start or its delegates), `running`, `done`, `partial`, `failed` or
    /// `cancelled`.
    pub state: String,
    /// The attempt, from 1; null if it does not run.
    pub attempt: Option<u32>,
    /// The pause before this attempt, which may be over; absent: it is the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Box<RunPause>>,
    /// Its result.
    pub text: Option<String>,
    /// Why it failed or is incomplete.
    pub error: Option<ErrorInfo>,
    /// Its usage, after its end.
    pub usage: Option<Amounts>,
    /// The duration of all attempts, in milliseconds.
    pub duration_ms: Option<u64>,
}

/// The pause of a run after a failed attempt, or before a request to its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RunPause {
    /// The earliest time of the next attempt or request.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub until: String,
    /// Why the last attempt or request failed, or what the request waits for.
    pub reason: String,
}

impl Member {
    /// Whether it has not ended yet.
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "waiting" | "running")
    }
}

/// The outcome of the compaction of a turn's context.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Compacted {
    /// Tokens of the context before.
    pub tokens_before: u64,
    /// Tokens of the context after; null while unknown.
    pub tokens_after: Option<u64>,
    /// Tokens before divided by tokens after.
    pub compression_ratio: Option<f64>,
    /// Whether fewer messages were kept verbatim than the preset or a person requested, because the
    /// context would not have fitted.
    pub tightened: bool,
    /// Its strongest change.
    pub effect: CompactionEffect,
    /// Number of messages that were masked or cut.
    pub shortened: u64,
}

impl Compacted {
    /// What it did, for people.
    pub fn text(&self) -> String {
        self.effect.text(self.shortened)
    }
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

/// Why a turn or a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ErrorInfo {
    /// A stable code, such as `context_overflow` or `timeout`.
    pub code: String,
    /// What happened.
    pub reason: String,
}

/// The work of one agent on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Run {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// The agent.
    pub agent: String,
    /// Its model.
    pub model: Option<String>,
    /// `delegate`, `lead` or `child`.
    pub role: String,
    /// For a `delegate` of a pipeline: its position in the pipeline, from 1.
    pub stage: Option<u32>,
    /// The run that delegated to it, for a `child`.
    pub parent: Option<String>,
    /// For a `child`: the round of its parent that opened it, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Its position among the delegates of its turn or the children of its round, from 0; absent
    /// for a lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Its task. In a list and in a turn: only if it has its own.
    pub task: Option<String>,
    /// `running`, `waiting`, `done`, `partial`, `failed` or `cancelled`.
    pub state: String,
    /// What it waits for: `person` (a decision about a tool call) or `delegates`; absent: it does not
    /// wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The time that it has waited for decisions of people, in milliseconds; absent: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The pause before this attempt; absent: it does not pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<RunPause>,
    /// Number of finished steps.
    #[serde(default)]
    pub step_count: u64,
    /// The frozen context that it got.
    pub snapshot: Option<String>,
    /// The digest of the prompt bytes that it shares with others.
    pub prefix: String,
    /// Its answer.
    pub text: Option<String>,
    /// Why it failed or is incomplete.
    pub error: Option<ErrorInfo>,
    /// Its usage.
    pub usage: crate::usage::Amounts,
    /// What the budgets count for it after its end, if that is not its usage: calls whose usage no
    /// provider reported, such as those in progress when it was cancelled, count as their worst case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charged: Option<crate::usage::ChargedAmount>,
    /// When it was opened.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub opened_at: String,
    /// When it ended.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub ended_at: Option<String>,
    /// The duration of all attempts, in milliseconds.
    pub duration_ms: Option<u64>,
}
