//! The chat of AI SDK UI: the request of `useChat`, and the parts of the answer that it reads.
//!
//! The names and shapes are those of the UI message stream, version 1 (`ai` 7).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::Member;
use crate::session::main_branch;
use crate::settings::Settings;
use crate::turn_event::{FrozenContext, NewCheckpoint};
use crate::usage::Amounts;

/// The request of a chat. Other fields are ignored.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema), schema(as = UiChatRequest))]
#[serde(rename_all = "camelCase")]
pub struct ChatRequest {
    /// The messages that the chat shows. The last one is the task, or has the decisions about calls
    /// that wait for approval; the earlier ones determine where the conversation continues.
    pub messages: Vec<UiMessage>,
    /// Why it is sent.
    #[serde(default)]
    pub trigger: Trigger,
    /// The message to regenerate.
    pub message_id: Option<String>,
    /// The branch of the first message of a chat; later messages continue after the previous
    /// answer.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that answers; absent: as configured.
    pub lead: Option<String>,
    /// Agents that work before it, each `agent` or `agent=task`; absent: as configured; empty: only
    /// the lead.
    pub agents: Option<Vec<String>>,
    /// Settings for this turn only, by dotted key.
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

/// The used fields of a part of a message.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct UiPart {
    /// `text`, `file`, `dynamic-tool`, `data-agent`, …
    pub r#type: String,
    /// The text of a `text`.
    pub text: Option<String>,
    /// The content of a `file`: a `data:` URL, or an address at a host of
    /// `attachments.allowed_hosts`.
    pub url: Option<String>,
    /// The name of a `file`.
    pub filename: Option<String>,
    /// The type of a `file`.
    #[serde(default, rename = "mediaType")]
    pub media_type: Option<String>,
    /// The state of a tool call.
    pub state: Option<String>,
    /// The decision about it.
    pub approval: Option<UiApproval>,
}

/// The decision of a person about a tool call.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct UiApproval {
    /// The `approvalId` of the question.
    pub id: String,
    /// Whether it may be made; absent: not decided.
    pub approved: Option<bool>,
    /// The reason of a denial, for the model.
    pub reason: Option<String>,
}

/// A part of an answer: the data of a server-sent event without a name. The stream ends with the
/// line `[DONE]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema), schema(as = ChatPart))]
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
        /// Its session, turn and branch.
        message_metadata: Metadata,
    },
    /// The frozen context of all agents of the turn.
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
        data: NewCheckpoint,
    },
    /// The current state of an agent of the turn.
    #[serde(rename = "data-agent")]
    Agent {
        /// Its run.
        id: String,
        /// The agent.
        data: Member,
    },
    /// A reply of the lead's model begins.
    StartStep,
    /// The text of this step so far is invalid.
    ResetStep,
    /// The text of a reply begins.
    TextStart {
        /// Its id in the answer.
        id: String,
    },
    /// The next piece of the text.
    TextDelta {
        /// Its id in the answer.
        id: String,
        /// The piece.
        delta: String,
    },
    /// The text ends.
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
        /// The id for the decision: the call's id in `/v1/approvals`; after `in-doubt:` if a crash left
        /// the outcome of the call unknown.
        approval_id: String,
        /// The call.
        tool_call_id: String,
        /// The rule that requires the approval, or that the call may have been made.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A call returned a result.
    ToolOutputAvailable {
        /// The call.
        tool_call_id: String,
        /// Its result.
        output: String,
        /// True: the chat has no tool of that name.
        dynamic: bool,
    },
    /// A call failed.
    ToolOutputError {
        /// The call.
        tool_call_id: String,
        /// The error.
        error_text: String,
        /// True: the chat has no tool of that name.
        dynamic: bool,
    },
    /// A call was denied.
    ToolOutputDenied {
        /// The call.
        tool_call_id: String,
    },
    /// A reply of the lead's model ends.
    FinishStep,
    /// The answer ends, or waits for a person.
    Finish {
        /// `stop`, `length`, or `tool-calls` if it waits for approval.
        finish_reason: String,
        /// Its session, turn, branch and usage.
        message_metadata: Metadata,
    },
    /// The turn was cancelled.
    Abort {
        /// Why.
        reason: String,
    },
    /// The turn failed.
    Error {
        /// Why.
        error_text: String,
    },
}

/// Metadata of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema), schema(as = ChatMetadata))]
pub struct Metadata {
    /// The session.
    pub session: String,
    /// The turn.
    pub turn: String,
    /// Its branch.
    pub branch: String,
    /// The usage of all agents together; absent before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Amounts>,
}
