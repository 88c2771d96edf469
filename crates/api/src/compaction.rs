//! Summaries: those there are, those that could be, and what is asked of them.

use serde::{Deserialize, Serialize};

use crate::session::main_branch;
use crate::turn::{Settings, Turn, yes};

/// A checkpoint: a stored summary and what it stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Checkpoint {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub id: String,
    /// Its number in the session, from 1.
    pub number: u32,
    /// Whether the context of the branch has it now.
    pub active: bool,
    /// How many branches have it in their context now.
    pub active_branches: u64,
    /// Whether it was taken back.
    pub retired: bool,
    /// The first message it stands for.
    pub first: u32,
    /// The last one.
    pub last: u32,
    /// How many it stands for.
    pub messages: u32,
    /// Tokens it stands for.
    pub tokens_before: u64,
    /// Tokens it takes.
    pub tokens_after: u64,
    /// `auto` or `manual`.
    pub kind: String,
    /// `conversation`, `topic` or `bulk`.
    pub tier: String,
    /// The preset that planned it.
    pub preset: String,
    /// The model that wrote it.
    pub model: String,
    /// Whether a model was to write it and could not.
    pub degraded: bool,
    /// Whether less was kept verbatim than the preset, or a person, asks for: otherwise the
    /// context would not have fitted. False for one that was imported.
    #[serde(default)]
    pub tightened: bool,
    /// Tokens it stands for, divided by those it takes; none where it takes none.
    #[serde(default)]
    pub compression_ratio: Option<f64>,
    /// When it was made: for a topic or a bulk, when it was sealed.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// The summary; none for a note in place of what was dropped.
    pub text: Option<String>,
    /// What a model's summary gives of the days, names and ids of its messages; none where no model
    /// wrote it, or they have none.
    #[serde(default)]
    pub coverage: Option<FactCoverage>,
}

/// How many of the days, names and ids of its messages a model's summary gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct FactCoverage {
    /// In the messages.
    pub facts: u32,
    /// In the summary.
    pub kept: u32,
    /// In quotes from the messages that take as many tokens as the summary.
    pub quoted: u32,
}

impl FactCoverage {
    /// Whether quotes of the same size give more.
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

/// A checkpoint with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct CheckpointDetail {
    /// What a list has of it.
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
    /// The block as the model sees it: summary and key facts, or the note.
    pub block: String,
    /// The messages it stands for.
    pub covers: Vec<Range>,
    /// Facts that are carried verbatim.
    pub key_facts: Vec<KeyFact>,
    /// How long making it took, in milliseconds.
    pub duration_ms: u64,
    /// What making it cost, in dollars; none where the price is not known.
    pub cost_usd: Option<f64>,
    /// What taking it back would do; none where it is not in the context.
    pub restore: Option<Restoring>,
    /// Why it is not in the context, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactive: Option<Inactive>,
}

/// Why a checkpoint is not in the context of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Inactive {
    /// Why, for people.
    pub reason: String,
    /// The number of the checkpoint that stands in its place, to be taken back first.
    pub restore_first: Option<u32>,
    /// Where the branch has other messages than those it stands for: the branches that have them.
    pub branches: Option<Vec<String>>,
}

/// Messages one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Range {
    /// The first one's place on the branch.
    pub first: u32,
    /// The last one's.
    pub last: u32,
}

/// A fact that is carried verbatim from summary to summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct KeyFact {
    /// The fact.
    pub text: String,
    /// The message that said it.
    pub ordinal: u32,
}

/// What taking a checkpoint back would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Restoring {
    /// What the context takes.
    pub tokens_before: u64,
    /// What it would take.
    pub tokens_after: u64,
    /// What there is room for.
    pub usable_tokens: u64,
    /// Whether it fits; otherwise it is refused.
    pub fits: bool,
}

/// A request to compact a branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewCompaction {
    /// The branch.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// What the writer of the summary is told besides.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Who writes the summary, in place of those that are configured: a model as
    /// `provider/model`, or `extractive`, which takes quotes.
    #[serde(default)]
    pub summariser: Option<String>,
    /// What is done where no model writes a summary that can be taken.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// How many of the newest messages stay; without this and `keep_tokens`, all from the newest
    /// user message on do.
    #[serde(default)]
    pub keep_messages: Option<u32>,
    /// How many tokens of the newest messages stay.
    #[serde(default)]
    pub keep_tokens: Option<u64>,
    /// In place of all that is older, the topic that this message belongs to is summarised, if it
    /// has ended.
    #[serde(default)]
    pub topic: Option<u32>,
    /// In place of all that is older, the middle of the current topic is summarised.
    #[serde(default)]
    pub attention: bool,
    /// In place of a summary, the middle of messages that are too large is cut out.
    #[serde(default)]
    pub large_messages: bool,
    /// With `large_messages`: what has more tokens than this is too large; otherwise the share of
    /// a topic that the settings say.
    #[serde(default)]
    pub over_tokens: Option<u64>,
    /// Settings for this compaction alone, as of a turn.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// Whether to wait for the end; otherwise the turn is accepted and can be followed.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// What is done where no model writes a summary that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They are asked again, three times in all.
    Retry,
    /// Quotes are taken.
    Extractive,
    /// Nothing: the context stays as it is.
    #[default]
    Leave,
}

impl OnFailure {
    /// All of them: what a compaction that failed may be asked for again with.
    pub const ALL: [OnFailure; 3] = [OnFailure::Retry, OnFailure::Extractive, OnFailure::Leave];
}

/// What a compaction would do.
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
    /// Those that the summary would stand for, and no summary does yet.
    pub messages_to_summarise: u64,
    /// Verbatim messages that would be masked or cut.
    #[serde(default)]
    pub messages_to_shorten: u64,
    /// What the context takes.
    pub tokens_before: u64,
    /// What it would take at most.
    pub estimated_tokens_after: u64,
    /// What it takes, divided by what it would take at most; none where that is nothing.
    #[serde(default)]
    pub estimated_compression_ratio: Option<f64>,
    /// What it would cost, in dollars; none where the price is not known.
    pub estimated_cost_usd: Option<f64>,
    /// The step, for people; none: there is nothing to do.
    pub step: Option<String>,
    /// Why there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// The automatic compaction of the next turn, without its input.
    pub next_turn: NextTurn,
}

/// The automatic compaction of a turn that begins now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct NextTurn {
    /// The preset.
    pub preset: String,
    /// It compacts above this many tokens; none: never, or as its tiers are full.
    pub starts_above_tokens: Option<u64>,
    /// What it keeps verbatim, for people.
    pub keeps: String,
    /// What the context takes for the agents of such a turn.
    pub tokens_before: u64,
    /// What it would take at most.
    pub estimated_tokens_after: u64,
    /// What it takes, divided by what it would take at most; none where that is nothing.
    #[serde(default)]
    pub estimated_compression_ratio: Option<f64>,
    /// The steps, for people; empty: nothing is due.
    pub steps: Vec<String>,
    /// Whether less would be kept than the preset asks for.
    pub tightened: bool,
    /// Why such a turn would fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What came of a compaction, or of a change of a checkpoint: the turn that did it, with what it
/// changed once it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Compaction {
    /// The turn.
    #[serde(flatten)]
    pub turn: Turn,
    /// What the context took before.
    pub tokens_before: Option<u64>,
    /// What it takes now.
    pub tokens_after: Option<u64>,
    /// What was saved.
    pub tokens_saved: Option<u64>,
    /// What it took before, divided by what it takes now; none where it takes nothing.
    #[serde(default)]
    pub compression_ratio: Option<f64>,
    /// Why it changed nothing, where it ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// The first 200 characters of the newest summary it made.
    pub preview: Option<String>,
    /// The writer that was asked for, in place of those that are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summariser: Option<String>,
    /// Where no summary could be written and nothing was changed: what can be done, as
    /// `on_failure` of another request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<OnFailure>,
}

/// Another text for a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewText {
    /// The text.
    pub text: String,
    /// The branch in whose context the checkpoint stands.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// Whether to wait for the end.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// A request to have a summary written anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Anew {
    /// What its writer is told besides.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Who writes it, in place of those that are configured: a model as `provider/model`, or
    /// `extractive`, which takes quotes.
    #[serde(default)]
    pub summariser: Option<String>,
    /// What is done where no model writes one that can be taken.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Settings for this alone, as of a turn.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// The branch in whose context the checkpoint stands.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// Whether to wait for the end.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// A request to repeat a compaction, or the regeneration of a summary, that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Again {
    /// Who writes the summary, in place of those that are configured: a model as
    /// `provider/model`, or `extractive`, which takes quotes.
    #[serde(default)]
    pub summariser: Option<String>,
    /// What is done where no model writes a summary that can be taken.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Whether to wait for the end.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// A request to take a checkpoint back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TakeBack {
    /// The branch in whose context the checkpoint stands.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// Whether to wait for the end.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// How many tokens became one, to two decimals; none where nothing is left.
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
