//! Tool calls that wait for a person.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Selects waiting calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ApprovalQuery {
    /// Only calls of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 500 (default: 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A waiting call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Approval {
    /// Its id, which a decision names.
    pub call: String,
    /// `approval`: the call is made after approval. `in_doubt`: it is unknown whether the call was
    /// made.
    pub kind: String,
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// The run, at any depth of delegation.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// The agent that called the tool.
    pub agent: String,
    /// The tool, as models know it.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The effect of a repetition: `pure`, `idempotent` or `at_most_once`.
    pub contract: String,
    /// The rule that makes it wait.
    pub rule: Option<String>,
    /// When it was requested.
    pub requested_at: String,
    /// When it is denied if no decision has been made; null: never.
    pub expires_at: Option<String>,
}

/// A decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call is made.
    Approve,
    /// The call is refused; the model gets the reason.
    Deny,
    /// The call in doubt had been made; `text` is its result, for the model.
    Done,
    /// The call in doubt had failed; `text` is its error, for the model.
    Failed,
    /// The call in doubt is repeated under the same key.
    Repeat,
}

/// A decision about a waiting call. The OpenAPI description has [`Decision`] instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The decision.
    pub decision: Verdict,
    /// For `deny`: the reason, for the model. For `done` and `failed`: the result, for the model.
    pub text: Option<String>,
}

/// A decision about a waiting call. The schema of `Decide`: it says which decisions need a text.
/// The daemon reads `Decide`, whose errors name the field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema), schema(as = Decide))]
#[serde(untagged)]
pub enum Decision {
    /// The call is made, repeated, or denied.
    Verdict(CallVerdict),
    /// The call was in doubt, and a person found out its outcome.
    Report(CallReport),
}

/// A decision about a call that has not been made, or is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CallVerdict {
    /// The decision.
    pub decision: CallVerdictKind,
    /// For `deny`: the reason, for the model.
    pub text: Option<String>,
}

/// The decisions that need no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallVerdictKind {
    /// The call is made.
    Approve,
    /// The call is refused; the model gets the reason.
    Deny,
    /// The call in doubt is repeated under the same key.
    Repeat,
}

/// A report of the outcome of a call in doubt.
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

/// A decided call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct DecisionResult {
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
    /// The name of the token by which it was decided; absent: the daemon's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
