//! Past and current runs: their steps, and the exact bytes of their requests.

mod replay;
mod state;

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::blob::Blob;

pub use replay::{Replay, ReplayedRequest, ReplayedRun};
pub use state::{ErrorInfo, Member, Run, RunPause};

/// Selects runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunQuery {
    /// Only runs of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only runs of this turn of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// Only runs of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only runs in this state: `running`, `waiting`, `done`, `partial`, `failed`, `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 500 (default: 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroUsize>,
}

/// Selects a request, and a run to compare with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct WhyQuery {
    /// The request whose bytes are returned, from 1 (default: the first).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(minimum = 1, maximum = 4294967295_i64))]
    pub number: Option<u32>,
    /// The run of the same turn to compare with; absent: the first sibling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Whether the bytes of every request are returned, each with its request.
    #[serde(default)]
    pub bodies: bool,
}

/// A name as a person writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct LookupQuery {
    /// The id of a run or a turn, its beginning or at least four characters of its end; `latest`;
    /// or an agent's name: its newest run.
    pub name: String,
    /// Searches this session only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// The runs and turns with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct LookupResult {
    /// At most 50 runs and turns; several: the name is ambiguous. For `latest`: the newest turn,
    /// then the newest turn with runs if that is another one.
    pub items: Vec<LookupMatch>,
    /// Whether the list is complete.
    pub complete: bool,
}

/// A run or a turn that a name may refer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct LookupMatch {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn, or the turn of the run.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// The run; absent: the name refers to the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The run's agent; absent: the name refers to the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// A run of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ListedRun {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// The run.
    #[serde(flatten)]
    pub run: Run,
}

/// A run with all its details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RunDetail {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// The event that opened it.
    #[serde(default)]
    pub event: u64,
    /// The digest of its agent's definition.
    pub definition: String,
    /// Its finished steps.
    pub steps: Vec<RunStep>,
    /// Its attempts after the first.
    pub attempts: Vec<Attempt>,
    /// The decisions about its tool calls.
    #[serde(default)]
    pub decisions: Vec<CallDecision>,
}

/// A decision about a tool call that waited for a person, or for which a coding agent asked
/// permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct CallDecision {
    /// The event that recorded it.
    pub event: u64,
    /// When it was decided.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// The tool, as models know it.
    pub tool: String,
    /// `approved`, `denied`, `expired`, `done`, `failed` or `repeated`; by the agent's definition:
    /// `allowed` or `refused`.
    pub decision: String,
    /// The name of the token by which it was decided; null: nobody's, or the daemon's own.
    pub by: Option<String>,
}

impl CallDecision {
    /// What was decided and by whom, for people.
    pub fn text(&self) -> String {
        decision_text(&self.tool, &self.decision, self.by.as_deref())
    }
}

/// A decision about a call of a tool, for people.
pub fn decision_text(tool: &str, decision: &str, by: Option<&str>) -> String {
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    match decision {
        "expired" => format!("{tool} timed out without a decision"),
        "done" => format!("{tool} was marked as done{by}"),
        "failed" => format!("{tool} was marked as failed{by}"),
        _ => format!("{tool} was {decision}{by}"),
    }
}

/// A finished step of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RunStep {
    /// The event that recorded it.
    pub event: u64,
    /// When it was recorded.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// Its contents.
    #[serde(flatten)]
    pub done: StepContent,
}

/// The contents of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepContent {
    /// A reply of its model.
    Model {
        /// Its text.
        text: String,
        /// The tools it calls.
        calls: Vec<Call>,
        /// The fallback model that answered instead of the agent's own model.
        fallback: Option<String>,
        /// The digest of the prompt bytes of its request; absent: the agent's own model answered,
        /// or the digest was not recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback_prefix: Option<String>,
        /// Tokens in.
        input_tokens: u64,
        /// Tokens out.
        output_tokens: u64,
        /// Dollars; null if a price is unknown.
        cost_usd: Option<f64>,
    },
    /// The results of tools.
    Tools {
        /// The results.
        results: Vec<ToolOutput>,
    },
    /// A named step of an agent in Rust.
    Named {
        /// Its name.
        name: String,
        /// Its result.
        result: String,
    },
    /// The provider rejected a request as too large although it had been counted to fit.
    Narrowed {
        /// Maximum tokens of the run's own exchange from then on.
        room_tokens: u64,
        /// The longest reply from then on; absent: unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_tokens: Option<u64>,
    },
    /// A summary replaces the first rounds of the run from then on.
    Summarised {
        /// Number of first steps that the summary replaces.
        steps: u32,
        /// The summary.
        text: String,
    },
    /// A cost besides replies: writing the provider's cache, a reply that broke off, or an invalid
    /// reply.
    Spent {
        /// The fallback model that caused it; null: the agent's own model.
        fallback: Option<String>,
        /// Tokens in.
        input_tokens: u64,
        /// Tokens out.
        output_tokens: u64,
        /// Dollars; null if a price is unknown.
        cost_usd: Option<f64>,
    },
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Call {
    /// The model's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, JSON as text.
    pub arguments: String,
}

/// The output of a tool that an agent called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ToolOutput {
    /// The call's id.
    pub call_id: String,
    /// Its text.
    pub content: String,
    /// Whether it is an error.
    #[serde(default)]
    pub is_error: bool,
    /// The images and documents in it; `/v1/blobs/{digest}` has their contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<OutputFile>,
}

/// A file in the output of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct OutputFile {
    /// Its name.
    pub filename: String,
    /// Its content.
    #[serde(flatten)]
    pub blob: Blob,
}

/// The result of a tool call that a client made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct CallResult {
    /// The call's id.
    pub call_id: String,
    /// The result.
    pub content: String,
    /// Whether it is an error.
    #[serde(default)]
    pub is_error: bool,
}

/// An attempt after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Its number, from 2.
    pub attempt: u32,
    /// The event that recorded the decision.
    #[serde(default)]
    pub event: u64,
    /// When it was decided.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// Why the previous attempt failed.
    pub reason: String,
}

/// The requests of a run and their reasons, rebuilt from the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Why {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// The causes, from the input of its turn to its own end.
    pub causes: Vec<Cause>,
    /// All of its requests. The last one may not have been sent.
    pub requests: Vec<RunRequest>,
    /// Why its requests are unknown, or some of them.
    pub unknown: Option<String>,
    /// The bytes of the selected request; null: it has none.
    pub body: Option<RequestBody>,
    /// Recorded values, compared with rebuilt ones.
    pub checks: Vec<DigestCheck>,
    /// The same request of a sibling for comparison; null: the run has no sibling.
    pub against: Option<SiblingRequest>,
}

/// A link in the chain of causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Cause {
    /// The event.
    pub event: u64,
    /// When it happened.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// `input`, `start`, `plan`, `freeze`, `run`, `attempt`, `decision` or `end`.
    pub cause: String,
    /// What happened, for people.
    pub text: String,
}

/// A request of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RunRequest {
    /// Its number, from 1.
    pub number: u64,
    /// The model, or the program.
    pub to: String,
    /// Number of bytes that it shares with its siblings.
    pub head_bytes: u64,
    /// Number of all its bytes.
    pub bytes: u64,
    /// The BLAKE3 digest of its bytes.
    pub digest: String,
    /// The digest of the prompt bytes sent to a fallback model; absent: no fallback was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_prefix: Option<String>,
    /// Whether the journal shows that its receiver got it, or may have got it. False for a request
    /// that a budget or the window did not allow, and for one of a run that was cancelled first.
    pub sent: bool,
    /// Number of steps of its run before it.
    pub after_steps: u64,
    /// Number of tool results that were replaced by a note.
    pub masked: u64,
    /// Why it was the last request of its run.
    pub wrap_up: Option<String>,
    /// For a program: the attempt that got it.
    pub attempt: Option<u32>,
    /// The bytes that it shares with its siblings, as text; absent: the bytes of all requests were
    /// not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Its own bytes, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,
}

/// The bytes of a request, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RequestBody {
    /// The number of the request, from 1.
    pub number: u64,
    /// The bytes that it shares with its siblings.
    pub head: String,
    /// Its own bytes.
    pub tail: String,
}

/// A recorded value, compared with the rebuilt one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct DigestCheck {
    /// `snapshot`, `definition`, `prefix` (followed by the name of a fallback model), `steps` or
    /// `results`.
    pub check: String,
    /// The run; null: the turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The value in the journal.
    pub recorded: String,
    /// The rebuilt value.
    pub rebuilt: String,
    /// Whether both are equal.
    pub matches: bool,
}

/// A sibling's request, for comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SiblingRequest {
    /// The sibling.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// Its agent.
    pub agent: String,
    /// The number of its request, from 1.
    pub request: u64,
    /// Number of leading bytes that are equal.
    pub shared_bytes: u64,
    /// The bytes of this request after them.
    pub suffix: String,
    /// The bytes of the sibling's request after them.
    pub sibling_suffix: String,
    /// The keys in which their definitions differ.
    pub differing_keys: Vec<String>,
}
