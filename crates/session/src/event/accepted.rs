//! The definition of a turn, as it was accepted.

use std::sync::Arc;

use unisono_context::call::ClientOptions;
use unisono_context::compaction::ContextPart;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::policy::{Keep, Policy};
use unisono_context::snapshot::ToolSpec;
use unisono_context::tokens::{Counts, Ppm};
use unisono_context::{CheckpointId, Digest, Tokens, TurnId};

use super::RequestKey;
use crate::budget::TurnCaps;

/// The input of an agent whose client tools have answered.
const CONTINUE_TEXT: &str =
    "The tools that you called have answered. Go on with what you were asked.";

/// The definition of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedTurn {
    /// Its id.
    pub id: TurnId,
    /// Its branch.
    pub branch: Arc<str>,
    /// Its work.
    pub work: Work,
    /// The compaction policy.
    pub policy: Policy,
    /// Safety margin as a share of the window.
    pub safety: Ppm,
    /// Digest of the lead's definition.
    pub lead: Digest,
    /// The fan-out: definition digests and tasks.
    pub delegates: Vec<(Digest, Option<Arc<str>>)>,
    /// Digests of the definitions of the agents to which the lead may delegate by itself.
    pub available: Vec<Digest>,
    /// The tools of its agents, sorted.
    pub tools: Vec<ToolSpec>,
    /// The errors of its models' token counts, if they are estimates.
    pub calibrations: Vec<Calibration>,
    /// The limits of delegation by its agents.
    pub delegation: DelegationLimits,
    /// The limits of the turn, and of its session from now on.
    pub caps: TurnCaps,
    /// The key of the request: a repeated request with this key refers to this turn.
    pub key: Option<RequestKey>,
    /// Whether the call of a delegate that works on the turn's input contains only the agent. In
    /// older turns the call also contains the input.
    pub short_calls: bool,
    /// Digest of the settings by which models write summaries of the conversation, if the next
    /// summary may be written ahead after the turn; none: it may not.
    pub prepare: Option<Digest>,
    /// Whether a reply of its agents that may call tools needs a part of their headroom only. In
    /// older turns it needs the longest reply ([`crate::run::tail::Headroom`]).
    pub shared_headroom: bool,
}

/// The limits of delegation by agents (a configured fan-out is not limited by them), and the share
/// that is reserved for its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelegationLimits {
    /// Levels below the lead: with 1, a delegate may not delegate.
    pub depth: u32,
    /// The maximum number of open runs of the turn, including the lead's.
    pub live_runs: u32,
    /// The share of an agent's usable tokens that is reserved for results of other agents.
    pub results: Ppm,
}

impl DelegationLimits {
    /// The default share of results.
    pub const RESULTS: Ppm = Ppm::percent(10);
}

impl Default for DelegationLimits {
    fn default() -> DelegationLimits {
        DelegationLimits {
            depth: 1,
            live_runs: 64,
            results: DelegationLimits::RESULTS,
        }
    }
}

/// The calibration of a model whose tokens are estimated with another model's encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The model, as definitions write it.
    pub model: Arc<str>,
    /// Tokens its provider reports per estimated token.
    pub ratio: Ppm,
    /// The error of the ratio, as a share of it.
    pub band: Ppm,
}

impl Calibration {
    /// The number of estimated tokens that are certainly at most `tokens` of the provider's,
    /// rounded down.
    pub fn estimated(&self, tokens: Tokens) -> Tokens {
        const ONE: u128 = 1_000_000;
        let per_token = u128::from(self.ratio.0.max(1)) * (ONE + u128::from(self.band.0));
        let estimated = u128::from(tokens.0) * ONE * ONE / per_token;
        Tokens(u64::try_from(estimated).unwrap_or(u64::MAX))
    }

    /// The maximum number of the provider's tokens for this number of estimated ones, rounded up.
    pub fn at_most(&self, estimated: Tokens) -> Tokens {
        const ONE: u128 = 1_000_000;
        let per_token = u128::from(self.ratio.0.max(1)) * (ONE + u128::from(self.band.0));
        let tokens = (u128::from(estimated.0) * per_token).div_ceil(ONE * ONE);
        Tokens(u64::try_from(tokens).unwrap_or(u64::MAX))
    }
}

/// The options of a summary that a person requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryOptions {
    /// Instructions for the summariser.
    pub instructions: Option<Arc<str>>,
    /// The summariser, as `provider/model` or `extractive`; none: the configured ones.
    pub summariser: Option<Arc<str>>,
    /// The action if no model writes an acceptable summary.
    pub unwritten: SummaryFallback,
}

impl SummaryOptions {
    /// The configured summarisers, with these instructions.
    pub fn with_instructions(instructions: Option<impl Into<Arc<str>>>) -> SummaryOptions {
        SummaryOptions {
            instructions: instructions.map(Into::into),
            ..SummaryOptions::default()
        }
    }
}

/// The action if no model writes the requested summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SummaryFallback {
    /// None: the context stays as it is.
    #[default]
    Leave,
    /// The models are asked again, three times in total.
    Retry,
    /// An extractive summary is used.
    Extractive,
}

impl SummaryFallback {
    /// All values.
    pub const ALL: [SummaryFallback; 3] = [
        SummaryFallback::Retry,
        SummaryFallback::Extractive,
        SummaryFallback::Leave,
    ];
}

/// The work of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Answers an input.
    Answer {
        /// A message of a user, or the results of the tool calls at the end of the branch.
        input: NewMessage,
        /// The tools of the client.
        client_options: ClientOptions,
    },
    /// Compacts the branch at a person's request.
    Compact {
        /// The messages to keep; none: all from the newest user message on.
        keep: Option<Keep>,
        /// The options of the summary.
        writing: SummaryOptions,
    },
    /// Compacts one part of the context at a person's request.
    CompactPart {
        /// The part.
        part: ContextPart,
        /// The options of the summary, if there is one.
        writing: SummaryOptions,
    },
    /// Reverts a checkpoint at a person's request.
    Revert {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// Regenerates a checkpoint at a person's request.
    Regenerate {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The options of the summary.
        writing: SummaryOptions,
    },
    /// Replaces the text of a checkpoint by a person's text.
    Edit {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The text.
        text: Arc<str>,
        /// Tokens of its block, per encoding.
        counts: Counts,
    },
}

impl Work {
    /// The checkpoint to revert or replace.
    pub const fn checkpoint(&self) -> Option<CheckpointId> {
        match self {
            Work::Revert { checkpoint }
            | Work::Regenerate { checkpoint, .. }
            | Work::Edit { checkpoint, .. } => Some(*checkpoint),
            Work::Answer { .. } | Work::Compact { .. } | Work::CompactPart { .. } => None,
        }
    }

    /// The options of the requested summary.
    pub const fn writing(&self) -> Option<&SummaryOptions> {
        match self {
            Work::Compact { writing, .. }
            | Work::CompactPart { writing, .. }
            | Work::Regenerate { writing, .. } => Some(writing),
            Work::Answer { .. } | Work::Revert { .. } | Work::Edit { .. } => None,
        }
    }
}

impl Work {
    /// The tools of the client.
    pub const fn client_options(&self) -> Option<&ClientOptions> {
        match self {
            Work::Answer { client_options, .. } => Some(client_options),
            _ => None,
        }
    }

    /// The text of the task; none if nothing is answered.
    pub fn input_text(&self) -> Option<Arc<str>> {
        let Work::Answer { input, .. } = self else {
            return None;
        };
        if input.role == Role::Tool {
            return Some(CONTINUE_TEXT.into());
        }
        let is_result = |part: &&Part| matches!(part, Part::ToolResult { .. });
        let parts = input.parts.iter().filter(|part| !is_result(part));
        let texts = parts.map(Part::countable_text);
        Some(texts.collect::<Vec<_>>().join("\n").into())
    }

    /// The images and documents of the user's input.
    pub fn attachments(&self) -> impl Iterator<Item = &Part> {
        let parts: &[Part] = match self {
            Work::Answer { input, .. } => &input.parts,
            _ => &[],
        };
        let is_attachment = |part: &&Part| matches!(part, Part::Attachment { .. });
        parts.iter().filter(is_attachment)
    }

    /// The text of the user's input as it was written, without notes of attachments; with only
    /// attachments their notes. Absent for a compaction.
    pub fn task(&self) -> Option<Arc<str>> {
        let Work::Answer { input, .. } = self else {
            return None;
        };
        let mut texts = Vec::new();
        for part in input.parts.iter() {
            if let Part::Text(text) = part {
                texts.push(&**text);
            }
        }
        let without_attachments = self.attachments().next().is_none();
        match without_attachments || texts.is_empty() {
            true => self.input_text(),
            false => Some(texts.join("\n").into()),
        }
    }
}
