//! Checkpoints, estimates of compactions, and their outcomes.

use serde::{Deserialize, Serialize};

use crate::turn::Turn;
use crate::usage::Amounts;

pub use crate::turn::{
    CompactionEffect, EditSummary, NewCompaction, OnFailure, RegenerateSummary, RetryCompaction,
    RevertCheckpoint,
};

/// A checkpoint: a stored summary and the messages that it replaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Checkpoint {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub id: String,
    /// Its number in the session, from 1.
    pub number: u32,
    /// Whether it is in the context of the branch now.
    pub active: bool,
    /// Number of branches that have it in their context now.
    pub active_branches: u64,
    /// Whether it was reverted.
    pub retired: bool,
    /// The first message that it replaces.
    pub first: u32,
    /// The last message that it replaces.
    pub last: u32,
    /// Number of messages that it replaces.
    pub messages: u32,
    /// Tokens of these messages.
    pub tokens_before: u64,
    /// Tokens of the summary.
    pub tokens_after: u64,
    /// `auto` or `manual`.
    pub kind: String,
    /// `conversation`, `topic` or `bulk`.
    pub tier: String,
    /// The preset that planned it.
    pub preset: String,
    /// The model that wrote it.
    pub model: String,
    /// Whether a model should have written it but could not.
    pub degraded: bool,
    /// Whether fewer messages were kept verbatim than the preset or a person requested, because the
    /// context would not have fitted. False for an imported checkpoint.
    #[serde(default)]
    pub tightened: bool,
    /// Tokens before divided by tokens after; null if the summary has no tokens.
    pub compression_ratio: Option<f64>,
    /// When it was made; for a topic or a bulk, when it was sealed.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// The summary; null for a note in place of dropped messages.
    pub text: Option<String>,
    /// How many days, names and ids of its messages a model's summary keeps; null if no model wrote
    /// it, or the messages have none.
    pub coverage: Option<FactCoverage>,
}

/// How many days, names and ids of its messages a model's summary keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct FactCoverage {
    /// Number in the messages.
    pub facts: u32,
    /// Number in the summary.
    pub kept: u32,
    /// Number in quotes from the messages with as many tokens as the summary.
    pub quoted: u32,
}

impl FactCoverage {
    /// Whether quotes of the same size keep more.
    #[must_use]
    pub const fn is_below_quotes(self) -> bool {
        self.kept < self.quoted
    }
}

impl std::fmt::Display for FactCoverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            facts,
            kept,
            quoted,
        } = self;
        write!(
            f,
            "{kept} of {facts} days, names and ids (quotes of the same size: {quoted})"
        )
    }
}

/// A checkpoint with all its details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct CheckpointDetail {
    /// The fields of a list item.
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
    /// The block as the model sees it: summary and key facts, or the note.
    pub block: String,
    /// The messages that it replaces.
    pub covers: Vec<Range>,
    /// Facts that are copied verbatim.
    pub key_facts: Vec<KeyFact>,
    /// The time to make it, in milliseconds.
    pub duration_ms: u64,
    /// Its cost, in dollars; null if the price is unknown.
    pub cost_usd: Option<f64>,
    /// The usage of the requests for it, with unused replies; absent: no model was asked, or it was
    /// imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Amounts>,
    /// The effect of reverting it; null if it is not in the context.
    pub revert: Option<RevertEffect>,
    /// Why it is not in the context; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactive: Option<InactiveCheckpoint>,
}

/// Why a checkpoint is not in the context of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct InactiveCheckpoint {
    /// Why, for people.
    pub reason: String,
    /// The number of the checkpoint that replaces it, to be reverted first.
    pub revert_first: Option<u32>,
    /// If the branch has other messages than those it replaces: the branches that have them.
    pub branches: Option<Vec<String>>,
}

/// A range of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Range {
    /// The position of the first message on the branch.
    pub first: u32,
    /// The position of the last message on the branch.
    pub last: u32,
}

/// A fact that is copied verbatim from summary to summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct KeyFact {
    /// The fact.
    pub text: String,
    /// The message with the fact.
    pub ordinal: u32,
}

/// The effect of reverting a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RevertEffect {
    /// Tokens of the context now.
    pub tokens_before: u64,
    /// Tokens of the context after that.
    pub tokens_after: u64,
    /// The usable tokens of the next turn.
    pub usable_tokens: u64,
    /// Whether the context then fits; otherwise the request is refused.
    pub fits: bool,
    /// The numbers of the checkpoints that return to the context: those that it replaced.
    #[serde(default)]
    pub checkpoints: Vec<u32>,
    /// The number of messages that return to the context.
    #[serde(default)]
    pub messages: u32,
}

/// The expected outcome of a compaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Estimate {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The branch.
    pub branch: String,
    /// Messages on the branch.
    pub total_messages: u32,
    /// Messages that the summary would replace and no summary replaces yet.
    pub messages_to_summarise: u64,
    /// Verbatim messages that would be masked or cut.
    #[serde(default)]
    pub messages_to_shorten: u64,
    /// Tokens of the context now.
    pub tokens_before: u64,
    /// Maximum tokens of the context afterwards.
    pub estimated_tokens_after: u64,
    /// Tokens now divided by the maximum afterwards; null if that is zero.
    pub estimated_compression_ratio: Option<f64>,
    /// The cost, in dollars; null if the price is unknown.
    pub estimated_cost_usd: Option<f64>,
    /// The step, for people; null: nothing can be compacted.
    pub step: Option<String>,
    /// Why nothing can be compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_change_reason: Option<String>,
    /// Budgets that have less left than the maximum, for people.
    pub warnings: Vec<String>,
    /// The automatic compaction of the next turn, without its input.
    pub next_turn: NextTurn,
}

/// The automatic compaction of a turn that begins now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct NextTurn {
    /// The preset.
    pub preset: String,
    /// It compacts above this number of tokens; null: never, or when its tiers are full.
    pub starts_above_tokens: Option<u64>,
    /// The messages that it keeps verbatim, for people.
    pub keeps: String,
    /// Tokens of the context for the agents of such a turn.
    pub tokens_before: u64,
    /// Maximum tokens of the context afterwards.
    pub estimated_tokens_after: u64,
    /// Tokens before divided by the maximum afterwards; null if that is zero.
    pub estimated_compression_ratio: Option<f64>,
    /// The steps, for people; empty: nothing is due.
    pub steps: Vec<String>,
    /// Whether fewer messages would be kept than the preset requests.
    pub tightened: bool,
    /// Why such a turn would fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The outcome of a compaction or of a change of a checkpoint: its turn and, after the end of the
/// turn, the changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Compaction {
    /// The turn.
    #[serde(flatten)]
    pub turn: Turn,
    /// Tokens of the context before.
    pub tokens_before: Option<u64>,
    /// Tokens of the context now.
    pub tokens_after: Option<u64>,
    /// Tokens saved.
    pub tokens_saved: Option<u64>,
    /// Tokens before divided by tokens now; null if that is zero.
    pub compression_ratio: Option<f64>,
    /// Why nothing changed, if the turn ended without a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_change_reason: Option<String>,
    /// The first 200 characters of the newest summary it made.
    pub preview: Option<String>,
    /// The requested summariser, instead of the configured ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summariser: Option<String>,
    /// If no summary could be written and nothing changed: the options for `on_failure` of another
    /// request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<OnFailure>,
}

/// The compression ratio, to two decimals; none if nothing is left.
pub fn ratio(before: u64, after: u64) -> Option<f64> {
    (after > 0).then(|| (before as f64 / after as f64 * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::ratio;

    #[test]
    fn a_ratio_has_two_decimals_and_none_of_nothing() {
        assert_eq!(ratio(16_696, 2_045), Some(8.16));
        assert_eq!(ratio(7, 0), None);
    }
}
