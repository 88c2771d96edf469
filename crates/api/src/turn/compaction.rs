//! Requests to compact, and what a compaction did.

use serde::{Deserialize, Serialize};

use crate::session::{main_branch, yes};
use crate::settings::Settings;

/// A request to compact a branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewCompaction {
    /// The branch.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// Additional instructions for the summariser.
    pub instructions: Option<String>,
    /// The summariser, instead of the configured ones: a model as `provider/model`, or
    /// `extractive`, which uses quotes.
    pub summariser: Option<String>,
    /// What to do if no model writes an acceptable summary.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Number of newest messages that stay; without this and `keep_tokens`, all messages from the
    /// newest user message on.
    pub keep_messages: Option<u32>,
    /// Tokens of the newest messages that stay.
    pub keep_tokens: Option<u64>,
    /// Instead of all older messages, the topic of this message is summarised, if it has ended.
    pub topic: Option<u32>,
    /// Instead of all older messages, the middle of the current topic is summarised.
    #[serde(default)]
    pub attention: bool,
    /// Instead of a summary, the middle of messages that are too large is cut out.
    #[serde(default)]
    pub large_messages: bool,
    /// With `large_messages`: a message with more tokens than this is too large; absent: the share
    /// of a topic in the settings.
    pub over_tokens: Option<u64>,
    /// Settings for this compaction only, as in a turn.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// Whether to wait for the end; otherwise the turn is accepted and can be followed.
    #[serde(default = "yes")]
    pub wait: bool,
}

impl NewCompaction {
    /// The compaction of all messages before the newest user message of this branch. It is accepted
    /// without waiting for its end.
    pub fn new(branch: impl Into<String>) -> NewCompaction {
        NewCompaction {
            branch: branch.into(),
            instructions: None,
            summariser: None,
            on_failure: OnFailure::default(),
            keep_messages: None,
            keep_tokens: None,
            topic: None,
            attention: false,
            large_messages: false,
            over_tokens: None,
            settings: Settings::new(),
            wait: false,
        }
    }
}

/// What to do if no model writes a requested summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Ask the models again, three times in all.
    Retry,
    /// Use quotes.
    Extractive,
    /// Nothing: the context does not change.
    #[default]
    Leave,
}

impl OnFailure {
    /// All of them: the options for a retry of a failed compaction.
    pub const ALL: [OnFailure; 3] = [OnFailure::Retry, OnFailure::Extractive, OnFailure::Leave];

    /// Its name in requests.
    pub const fn name(self) -> &'static str {
        match self {
            OnFailure::Retry => "retry",
            OnFailure::Extractive => "extractive",
            OnFailure::Leave => "leave",
        }
    }
}

/// A new text for a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EditSummary {
    /// The text.
    pub text: String,
    /// The branch whose context has the checkpoint.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// Whether to wait for the end.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// A request to regenerate a summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegenerateSummary {
    /// Additional instructions for the summariser.
    pub instructions: Option<String>,
    /// The summariser, instead of the configured ones: a model as `provider/model`, or
    /// `extractive`, which uses quotes.
    pub summariser: Option<String>,
    /// What to do if no model writes an acceptable summary.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Settings for this request only, as in a turn.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// The branch whose context has the checkpoint.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// Whether to wait for the end.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// A request to repeat a failed compaction, or a failed regeneration of a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryCompaction {
    /// The summariser, instead of the configured ones: a model as `provider/model`, or
    /// `extractive`, which uses quotes.
    pub summariser: Option<String>,
    /// What to do if no model writes an acceptable summary.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Whether to wait for the end.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// A request to revert a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RevertCheckpoint {
    /// The branch whose context has the checkpoint.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// Whether to wait for the end.
    #[serde(default = "yes")]
    pub wait: bool,
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

/// The effect of a compaction on a context: its strongest change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionEffect {
    /// Nothing changed.
    Nothing,
    /// Tool results were masked.
    Masked,
    /// Messages were cut, and tool results may have been masked.
    Cut,
    /// Messages were dropped, with a note in their place.
    Dropped,
    /// Messages were summarised.
    Summarised,
    /// A checkpoint was reverted.
    Reverted,
}

impl CompactionEffect {
    /// The effect for people, with this number of messages that were masked or cut.
    pub fn text(self, shortened: u64) -> String {
        let some = |one: &str| match shortened {
            1 => format!("1 {one}"),
            many => format!("{many} {one}s"),
        };
        match self {
            CompactionEffect::Nothing => "nothing changed".to_owned(),
            CompactionEffect::Masked => format!("masked {}", some("result")),
            CompactionEffect::Cut => format!("shortened {}", some("message")),
            CompactionEffect::Dropped => "dropped messages".to_owned(),
            CompactionEffect::Summarised => "summarised".to_owned(),
            CompactionEffect::Reverted => "reverted".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CompactionEffect, OnFailure};

    #[test]
    fn a_way_has_the_name_that_requests_have() {
        for way in OnFailure::ALL {
            assert_eq!(serde_json::to_value(way).unwrap(), way.name());
        }
    }

    #[test]
    fn an_effect_names_the_number_of_shortened_messages() {
        assert_eq!(CompactionEffect::Masked.text(12), "masked 12 results");
        assert_eq!(CompactionEffect::Cut.text(1), "shortened 1 message");
        assert_eq!(CompactionEffect::Summarised.text(3), "summarised");
    }
}
