//! Calls of tools that wait for a person.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ApprovalQuery {
    /// Only those of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A call that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Approval {
    /// Its id: what it is answered by.
    pub call: String,
    /// `approval`: it is made once somebody agrees. `in_doubt`: nobody knows whether it was made.
    pub waits_for: String,
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// The run, at whatever depth.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// The agent that asked for it.
    pub agent: String,
    /// The tool, as models know it.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// What making it twice does: `pure`, `idempotent` or `at_most_once`.
    pub contract: String,
    /// The rule by which it waits.
    pub rule: Option<String>,
    /// When it was asked for.
    pub asked: String,
    /// When it is denied if nobody has decided by then; null: never.
    pub until: Option<String>,
}

/// What is to become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is made.
    Approve,
    /// It is not made; the model is told so.
    Deny,
    /// It was in doubt, and had been made; `text` is what the model is told it came back with.
    Done,
    /// It was in doubt, and had failed; `text` says how.
    Failed,
    /// It was in doubt, and is made again, under the same key.
    Repeat,
}

/// An answer to a call that waits. The OpenAPI description has [`Decision`] in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// What is to become of it.
    pub decision: Verdict,
    /// For `deny`: why, for the model. For `done` and `failed`: what the model is told.
    #[serde(default)]
    pub text: Option<String>,
}

/// An answer to a call that waits.
// The schema of `Decide`: it says which decisions need a text. The daemon reads `Decide`, whose
// errors name the field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "description", schema(as = Decide))]
#[serde(untagged)]
pub enum Decision {
    /// The call is made, made again, or denied.
    Verdict(CallVerdict),
    /// The call was in doubt, and a person found out what became of it.
    Report(CallReport),
}

/// A decision about a call that is not made yet, or is made again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CallVerdict {
    /// The decision.
    pub decision: CallVerdictKind,
    /// For `deny`: the reason, for the model.
    #[serde(default)]
    pub text: Option<String>,
}

/// The decisions that need no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallVerdictKind {
    /// The call is made.
    Approve,
    /// The call is not made; the model is told so.
    Deny,
    /// The call was in doubt, and is made again under the same key.
    Repeat,
}

/// A report of what became of a call in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CallReport {
    /// The outcome.
    pub decision: CallOutcome,
    /// The result or the error, for the model.
    #[cfg_attr(feature = "description", schema(pattern = r"\S"))]
    pub text: String,
}

/// The outcomes of a call in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The call had been made.
    Done,
    /// The call had failed.
    Failed,
}

/// A call that was decided about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Decided {
    /// Its id.
    pub call: String,
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// `approved`, `denied`, `done`, `failed` or `repeated`.
    pub decision: String,
}
