//! The chat of AI SDK UI: what `useChat` sends, and the parts of the answer that it reads.
//!
//! The names and shapes are those of the UI message stream, version 1 (`ai` 7).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::session::main_branch;
use crate::turn::{Member, Settings};
use crate::turn_event::{FrozenContext, MadeCheckpoint};
use crate::usage::Amounts;

/// What a chat sends. What it holds besides is ignored.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "description", schema(as = UiChatRequest))]
#[serde(rename_all = "camelCase")]
pub struct ChatRequest {
    /// The messages that the chat shows. The last one is the task, or has the answers to calls that
    /// wait for approval; those before it say where it goes on.
    pub messages: Vec<UiMessage>,
    /// Why it is sent.
    #[serde(default)]
    pub trigger: Trigger,
    /// The message to regenerate.
    #[serde(default)]
    pub message_id: Option<String>,
    /// The branch of the first message of a chat; later ones go on where the one before was answered.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that answers; none: as configured.
    #[serde(default)]
    pub lead: Option<String>,
    /// Agents that work before it, each `agent` or `agent=task`; none: as configured; empty: the
    /// lead alone.
    #[serde(default)]
    pub agents: Option<Vec<String>>,
    /// Settings for this turn alone, by key, dotted.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
}

/// Why a chat sends its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A message, or an approval, is new.
    #[default]
    SubmitMessage,
    /// The last answer is regenerated.
    RegenerateMessage,
}

/// A message of a chat.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct UiMessage {
    /// Its id. The id of an answer is the id of its turn.
    pub id: String,
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// Its parts.
    pub parts: Vec<UiPart>,
}

/// A part of a message, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct UiPart {
    /// `text`, `file`, `dynamic-tool`, `data-agent`, …
    pub r#type: String,
    /// The text of a `text`.
    #[serde(default)]
    pub text: Option<String>,
    /// How far a call of a tool has come.
    #[serde(default)]
    pub state: Option<String>,
    /// What was decided about it.
    #[serde(default)]
    pub approval: Option<UiApproval>,
}

/// What a person decided about a call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct UiApproval {
    /// The call's id, as in `/v1/approvals`.
    pub id: String,
    /// Whether it may be made; none: nobody has decided.
    #[serde(default)]
    pub approved: Option<bool>,
    /// Why not, for the model.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A part of an answer: the data of a server-sent event without a name. The stream ends with the
/// line `[DONE]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "description", schema(as = ChatPart))]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Part {
    /// The answer begins.
    Start {
        /// The turn.
        message_id: String,
        /// Where it is.
        message_metadata: Metadata,
    },
    /// The context that all agents of the turn are given.
    #[serde(rename = "data-context")]
    Context {
        /// `context`.
        id: String,
        /// The frozen context.
        data: FrozenContext,
    },
    /// A compaction made a summary.
    #[serde(rename = "data-checkpoint")]
    Checkpoint {
        /// Its number.
        id: String,
        /// The summary.
        data: MadeCheckpoint,
    },
    /// An agent of the turn as it is now.
    #[serde(rename = "data-agent")]
    Agent {
        /// Its run.
        id: String,
        /// The agent.
        data: Member,
    },
    /// A reply of the lead's model begins.
    StartStep,
    /// All of this step so far is void.
    ResetStep,
    /// The text of a reply begins.
    TextStart {
        /// Its id in the answer.
        id: String,
    },
    /// The next piece of it.
    TextDelta {
        /// Its id in the answer.
        id: String,
        /// The piece.
        delta: String,
    },
    /// It ends.
    TextEnd {
        /// Its id in the answer.
        id: String,
    },
    /// A tool is called.
    ToolInputAvailable {
        /// The call.
        tool_call_id: String,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        #[cfg_attr(feature = "description", schema(value_type = Object))]
        input: Value,
        /// True: the chat has no tool of that name.
        dynamic: bool,
    },
    /// A call waits for a person.
    ToolApprovalRequest {
        /// What the answer names.
        approval_id: String,
        /// The call.
        tool_call_id: String,
        /// The rule by which it waits.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A call came back.
    ToolOutputAvailable {
        /// The call.
        tool_call_id: String,
        /// What it came back with.
        output: String,
        /// True: the chat has no tool of that name.
        dynamic: bool,
    },
    /// A call failed.
    ToolOutputError {
        /// The call.
        tool_call_id: String,
        /// What went wrong.
        error_text: String,
        /// True: the chat has no tool of that name.
        dynamic: bool,
    },
    /// A call was not allowed.
    ToolOutputDenied {
        /// The call.
        tool_call_id: String,
    },
    /// A reply of the lead's model ends.
    FinishStep,
    /// The answer ends, or waits for a person.
    Finish {
        /// `stop`, `length`, or `tool-calls` where it waits for approval.
        finish_reason: String,
        /// What it took.
        message_metadata: Metadata,
    },
    /// The turn was cancelled.
    Abort {
        /// Why.
        reason: String,
    },
    /// There is no answer.
    Error {
        /// Why.
        error_text: String,
    },
}

/// What is known of an answer besides its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "description", schema(as = ChatMetadata))]
pub struct Metadata {
    /// The session.
    pub session: String,
    /// The turn.
    pub turn: String,
    /// Its branch.
    pub branch: String,
    /// What all agents used together; none before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Amounts>,
}
