//! Runs looked back at: their steps, and the exact bytes their agents were sent.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::turn::{Fault, Run};

/// Which runs of which sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunQuery {
    /// Only those of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only those of this turn of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// Only those of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only those that are so: `running`, `waiting`, `done`, `partial`, `failed`, `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroUsize>,
}

/// Which request, and beside whose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct WhyQuery {
    /// The request whose bytes are told, from 1: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(minimum = 1, maximum = 4294967295_i64))]
    pub number: Option<u32>,
    /// The run of the same turn to compare with; none: the first sibling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Whether the bytes of every request are told, each with the request.
    #[serde(default)]
    pub bodies: bool,
}

/// What a person may mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct LookupQuery {
    /// The id of a run or a turn, the beginning of one or at least four characters of its end;
    /// `latest`; or an agent's name: its newest run.
    pub name: String,
    /// Looks in this session only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// What has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Matches {
    /// At most 50 runs and turns; several: the name is ambiguous. Of `latest`: the newest turn, then
    /// the newest one with runs where that is another.
    pub items: Vec<Lookup>,
    /// Whether these are all.
    pub complete: bool,
}

/// A run or a turn that a person may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Lookup {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn, or that of the run.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// The run; absent: the turn is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The run's agent; absent: the turn is meant.
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

/// A run with all that is known of it.
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
}

/// A finished step of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RunStep {
    /// The event that recorded it.
    pub event: u64,
    /// When.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// What it was.
    #[serde(flatten)]
    pub done: Done,
}

/// What a step was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Done {
    /// A reply of its model.
    Model {
        /// What it says.
        text: String,
        /// The tools it calls.
        calls: Vec<Call>,
        /// The model that stood in for its own.
        fallback: Option<String>,
        /// The digest of the prompt bytes that it was sent; absent: its own model answered, or
        /// that was not recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stand_in_prefix: Option<String>,
        /// Tokens in.
        input_tokens: u64,
        /// Tokens out.
        output_tokens: u64,
        /// Dollars; none where a price is not known.
        cost_usd: Option<f64>,
    },
    /// What tools answered.
    Tools {
        /// The answers.
        results: Vec<CallResult>,
    },
    /// A step of an agent of one's own.
    Named {
        /// Its name.
        name: String,
        /// What came of it.
        result: String,
    },
    /// Its provider found a request too large that had been counted to fit.
    Narrowed {
        /// Tokens that its own exchange may have from there on.
        room_tokens: u64,
        /// The longest reply from there on; absent: as before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_tokens: Option<u64>,
    },
    /// Its first rounds stand as a summary from there on.
    Summarised {
        /// How many of its first steps the summary stands for.
        steps: u32,
        /// The summary.
        text: String,
    },
    /// Something was paid for besides replies: writing the provider's cache, a reply that broke off,
    /// or one that was no answer.
    Spent {
        /// The model whose it was, where another one stood in for the agent's.
        fallback: Option<String>,
        /// Tokens in.
        input_tokens: u64,
        /// Tokens out.
        output_tokens: u64,
        /// Dollars; none where a price is not known.
        cost_usd: Option<f64>,
    },
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Call {
    /// The model's id of it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, JSON as text.
    pub arguments: String,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct CallResult {
    /// The call's id.
    pub call_id: String,
    /// The answer.
    pub content: String,
    /// Whether it is a failure.
    #[serde(default)]
    pub is_error: bool,
}

/// An attempt after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Which, from 2.
    pub attempt: u32,
    /// The event that decided it.
    #[serde(default)]
    pub event: u64,
    /// When it was decided.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// Why the one before failed.
    pub reason: String,
}

/// What a run was sent, and why, rebuilt from the journal.
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
    /// From the input of its turn to its own end.
    pub causes: Vec<Cause>,
    /// All of its requests.
    pub requests: Vec<SentRequest>,
    /// Why they cannot be told, or not all of them.
    pub unknown: Option<String>,
    /// The bytes of the request that was asked for; none: it was sent nothing.
    pub body: Option<RequestBody>,
    /// What was recorded of it, compared with what it is now.
    pub checks: Vec<Check>,
    /// The same request of a sibling beside it; none: it has no sibling.
    pub against: Option<Against>,
}

/// A link in the chain of causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Cause {
    /// The event.
    pub event: u64,
    /// When.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// `input`, `start`, `plan`, `freeze`, `run`, `attempt` or `end`.
    pub cause: String,
    /// What happened, for people.
    pub text: String,
}

/// A request of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SentRequest {
    /// Which, from 1.
    pub number: u64,
    /// The model, or the program.
    pub to: String,
    /// Bytes it shares with its siblings.
    pub head_bytes: u64,
    /// All its bytes.
    pub bytes: u64,
    /// BLAKE3 of them.
    pub digest: String,
    /// The digest of the prompt bytes that a model was sent which stood in; absent: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in_prefix: Option<String>,
    /// How many steps of its run were known by then.
    pub after_steps: u64,
    /// Tool results that stood as a note.
    pub masked: u64,
    /// Why it was the last of its run.
    pub wrap_up: Option<String>,
    /// For a program: the attempt that was given it.
    pub attempt: Option<u32>,
    /// The bytes it shares with its siblings, as text; absent: the bytes of all were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The bytes of its own, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,
}

/// The bytes of a request, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RequestBody {
    /// Which request, from 1.
    pub number: u64,
    /// What it shares with its siblings.
    pub head: String,
    /// What is its own.
    pub tail: String,
}

/// Something that was recorded, compared with what it is when it is made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Check {
    /// `snapshot`, `definition`, `prefix` (that of a model that stood in is told after its name),
    /// `steps` or `results`.
    pub check: String,
    /// Whose; none: the turn's.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// What the journal says.
    pub recorded: String,
    /// What it is now.
    pub rebuilt: String,
    /// Whether the two are the same.
    pub holds: bool,
}

/// A sibling's request beside this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Against {
    /// The sibling.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// Its agent.
    pub agent: String,
    /// Its request, from 1.
    pub request: u64,
    /// Bytes that are the same from the beginning on.
    pub shared_bytes: u64,
    /// How this one goes on.
    pub own: String,
    /// How the sibling's does.
    pub theirs: String,
    /// The keys in which their definitions differ.
    pub differs: Vec<String>,
}

/// A turn, rebuilt from the journal without asking anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Replay {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// `open`, `answered`, `compacted`, `restored`, `failed` or `cancelled`.
    pub state: String,
    /// The same for people.
    pub text: String,
    /// Why it failed.
    pub error: Option<Fault>,
    /// Requests that were rebuilt.
    pub requests: u64,
    /// What each of its runs was sent.
    pub runs: Vec<ReplayedRun>,
    /// All that was compared.
    pub checks: Vec<Check>,
    /// How many of them do not hold.
    pub mismatches: u64,
}

/// What a run was sent, rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ReplayedRun {
    /// The run.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// Its agent.
    pub agent: String,
    /// Its requests, the oldest first.
    pub requests: Vec<ReplayedRequest>,
    /// Why they cannot be told, or not all of them.
    pub unknown: Option<String>,
}

/// A request, rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ReplayedRequest {
    /// The model, or the program.
    pub to: String,
    /// All its bytes.
    pub bytes: u64,
    /// BLAKE3 of them.
    pub digest: String,
    /// For a program: the attempt that was given it.
    pub attempt: Option<u32>,
}
