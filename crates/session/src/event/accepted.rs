//! What a turn is to do, as it was accepted.

use std::sync::Arc;

use unisono_context::call::ClientOptions;
use unisono_context::compaction::ContextPart;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::policy::{Keep, Policy};
use unisono_context::snapshot::ToolSpec;
use unisono_context::tokens::{Counts, Ppm};
use unisono_context::{AgentId, CheckpointId, Digest, Tokens, TurnId};

use super::RequestKey;
use crate::budget::TurnCaps;

/// What an agent is to do whose calls were answered by whoever asked.
const CONTINUE_TEXT: &str =
    "The tools that you called have answered. Go on with what you were asked.";

/// What a turn is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedTurn {
    /// Its id.
    pub id: TurnId,
    /// The branch it works on.
    pub branch: Arc<str>,
    /// What it does.
    pub work: Work,
    /// When and how to compact.
    pub policy: Policy,
    /// Safety margin as a share of the window.
    pub safety: Ppm,
    /// The agent that answers; digest of its definition.
    pub lead: Digest,
    /// The fan-out: definition digests and tasks.
    pub delegates: Vec<(Digest, Option<Arc<str>>)>,
    /// Agents that the lead may give tasks to by itself: digests of their definitions.
    pub available: Vec<Digest>,
    /// The tools the agents are told of, sorted.
    pub tools: Vec<ToolSpec>,
    /// How far the counts of its models are off, where they are estimates.
    pub calibrations: Vec<Calibration>,
    /// How far its agents may delegate by themselves.
    pub delegation: DelegationLimits,
    /// What it, and its session from now on, may use at most.
    pub caps: TurnCaps,
    /// The key it was asked for under: whoever asks again under it is given this turn.
    pub key: Option<RequestKey>,
    /// Whether the call of a delegate that works on the turn's input names the agent alone. Turns
    /// accepted before that was so have the input in each call.
    pub short_calls: bool,
}

/// How far agents may delegate by themselves: a fan-out by configuration is not bounded by that; and
/// how much is kept free for what comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelegationLimits {
    /// Levels below the lead: with 1, an agent that was given a task gives none.
    pub depth: u32,
    /// Runs of the turn that may be open at one time, the lead's included.
    pub live_runs: u32,
    /// Of what an agent has for the context, what is reserved for results that others hand it.
    pub results: Ppm,
}

impl DelegationLimits {
    /// The share of results where nothing else is said.
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

/// A task that an agent gave to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedCall {
    /// The model's id of the call.
    pub call_id: Arc<str>,
    /// The agent it named.
    pub agent: AgentId,
    /// What that is to do.
    pub task: Arc<str>,
    /// Why nobody works on it; none: it has a run, in the place of [`RunRole::Child`](crate::event::RunRole::Child).
    pub refused: Option<Arc<str>>,
}

/// What is known of a model whose tokens are estimated with another one's encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The model, as definitions write it.
    pub model: Arc<str>,
    /// Tokens its provider reports per estimated token.
    pub ratio: Ppm,
    /// How far that may be off, as a share of it.
    pub band: Ppm,
}

impl Calibration {
    /// The estimated tokens that are surely no more than so many of the provider's, rounded down.
    pub fn estimated(&self, tokens: Tokens) -> Tokens {
        const ONE: u128 = 1_000_000;
        let per_token = u128::from(self.ratio.0.max(1)) * (ONE + u128::from(self.band.0));
        let estimated = u128::from(tokens.0) * ONE * ONE / per_token;
        Tokens(u64::try_from(estimated).unwrap_or(u64::MAX))
    }

    /// The provider's tokens that so many estimated ones are at most, rounded up.
    pub fn at_most(&self, estimated: Tokens) -> Tokens {
        const ONE: u128 = 1_000_000;
        let per_token = u128::from(self.ratio.0.max(1)) * (ONE + u128::from(self.band.0));
        let tokens = (u128::from(estimated.0) * per_token).div_ceil(ONE * ONE);
        Tokens(u64::try_from(tokens).unwrap_or(u64::MAX))
    }
}

/// How a summary is written that a person asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryOptions {
    /// What its writer is told.
    pub instructions: Option<Arc<str>>,
    /// Who writes it, as `provider/model` or `extractive`; none: those that are configured.
    pub summariser: Option<Arc<str>>,
    /// What is done where no model writes one that can be taken.
    pub unwritten: SummaryFallback,
}

impl SummaryOptions {
    /// By those that are configured, who are told this.
    pub fn with_instructions(instructions: Option<impl Into<Arc<str>>>) -> SummaryOptions {
        SummaryOptions {
            instructions: instructions.map(Into::into),
            ..SummaryOptions::default()
        }
    }
}

/// What is done where no model writes the summary that a person asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SummaryFallback {
    /// Nothing: the context stays as it is.
    #[default]
    Leave,
    /// They are asked again, three times in all.
    Retry,
    /// Quotes are taken.
    Extractive,
}

impl SummaryFallback {
    /// All of them.
    pub const ALL: [SummaryFallback; 3] = [
        SummaryFallback::Retry,
        SummaryFallback::Extractive,
        SummaryFallback::Leave,
    ];

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            SummaryFallback::Leave => "leave",
            SummaryFallback::Retry => "retry",
            SummaryFallback::Extractive => "extractive",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<SummaryFallback> {
        SummaryFallback::ALL
            .into_iter()
            .find(|way| way.name() == name)
    }
}

/// What a turn does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Answers an input.
    Answer {
        /// A user's words; or what the tools came back with whose calls the branch ends with.
        input: NewMessage,
        /// Tools of whoever asks.
        client_options: ClientOptions,
    },
    /// Compacts the branch on a person's request.
    Compact {
        /// What stays; none: all from the newest user message on.
        keep: Option<Keep>,
        /// How the summary is written.
        writing: SummaryOptions,
    },
    /// Makes one part of the context smaller on a person's request.
    CompactPart {
        /// Which.
        part: ContextPart,
        /// How the summary is written, where there is one.
        writing: SummaryOptions,
    },
    /// Takes a checkpoint back on a person's request.
    Restore {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// Has a checkpoint written anew on a person's request.
    Regenerate {
        /// Which.
        checkpoint: CheckpointId,
        /// How the summary is written.
        writing: SummaryOptions,
    },
    /// Puts a person's text in place of a checkpoint's.
    Edit {
        /// Which.
        checkpoint: CheckpointId,
        /// The text.
        text: Arc<str>,
        /// Tokens of its block, per encoding.
        counts: Counts,
    },
}

impl Work {
    /// The checkpoint that is to be taken back or replaced.
    pub const fn checkpoint(&self) -> Option<CheckpointId> {
        match self {
            Work::Restore { checkpoint }
            | Work::Regenerate { checkpoint, .. }
            | Work::Edit { checkpoint, .. } => Some(*checkpoint),
            Work::Answer { .. } | Work::Compact { .. } | Work::CompactPart { .. } => None,
        }
    }

    /// How the person wants the summary written who asked for it.
    pub const fn writing(&self) -> Option<&SummaryOptions> {
        match self {
            Work::Compact { writing, .. }
            | Work::CompactPart { writing, .. }
            | Work::Regenerate { writing, .. } => Some(writing),
            Work::Answer { .. } | Work::Restore { .. } | Work::Edit { .. } => None,
        }
    }
}

impl Work {
    /// The tools of whoever asks.
    pub const fn client_options(&self) -> Option<&ClientOptions> {
        match self {
            Work::Answer { client_options, .. } => Some(client_options),
            _ => None,
        }
    }

    /// What is to be done, in words; none where nothing is answered.
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
}
