//! Turns: what is to be done, and how it ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::call;
use unisono_context::{CheckpointId, Digest, Ppm, Tokens, TurnId};
use unisono_session::event;

use super::Invalid;
use super::codes::codes;
use super::context_part::ContextPart;
use super::message::NewMessage;
use super::policy::{Keep, Policy};
use super::snapshot::ToolSpec;
use super::tokens::Counts;

/// What a turn is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AcceptedTurn {
    pub(super) id: u128,
    pub(super) branch: Arc<str>,
    pub(super) work: Work,
    pub(super) policy: Policy,
    pub(super) safety_ppm: u32,
    pub(super) lead: [u8; 32],
    pub(super) delegates: Vec<([u8; 32], Option<Arc<str>>)>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) available: Vec<[u8; 32]>,
    pub(super) calibrations: Vec<Calibration>,
    pub(super) delegation: DelegationLimits,
}

/// How far agents may delegate by themselves.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DelegationLimits {
    pub(super) depth: u32,
    pub(super) live_runs: u32,
}

/// How far a model's estimated counts are off.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Calibration {
    model: Arc<str>,
    ratio_ppm: u32,
    band_ppm: u32,
}

/// What a turn does. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    Answer {
        input: NewMessage,
    },
    Compact {
        keep: Option<Keep>,
        instructions: Option<Arc<str>>,
    },
    Restore {
        checkpoint: u128,
    },
    Regenerate {
        checkpoint: u128,
        instructions: Option<Arc<str>>,
    },
    Edit {
        checkpoint: u128,
        text: Arc<str>,
        counts: Counts,
    },
    // With wishes about the writer.
    CompactBy {
        keep: Option<Keep>,
        writing: Writing,
    },
    RegenerateBy {
        checkpoint: u128,
        writing: Writing,
    },
    // With tools of whoever asks.
    AnswerWith {
        input: NewMessage,
        lent: Lent,
    },
    // With texts that end the reply.
    AnswerUntil {
        input: NewMessage,
        lent: Lent,
        stop: Vec<Arc<str>>,
    },
    CompactPart {
        part: ContextPart,
        instructions: Option<Arc<str>>,
        summariser: Option<Arc<str>>,
        unwritten: Unwritten,
    },
}

/// Tools of whoever asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Lent {
    tools: Vec<Arc<str>>,
    choice: Choice,
    one: bool,
}

/// Whether a tool has to be called. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Choice {
    Free,
    Any,
    This(Arc<str>),
}

/// How a summary is written that a person asks for, where more is said than its instructions.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Writing {
    instructions: Option<Arc<str>>,
    summariser: Option<Arc<str>>,
    unwritten: Unwritten,
}

codes!(
    /// What is done where no model writes a summary.
    Unwritten = event::Unwritten {
        Leave,
        Retry,
        Extractive,
    }
);

/// How a turn ended. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Answered,
    Compacted {
        before_tokens: u64,
        after_tokens: u64,
    },
    Failed {
        code: Arc<str>,
        reason: Arc<str>,
    },
    Cancelled,
    Restored {
        before_tokens: u64,
        after_tokens: u64,
    },
}

impl From<&event::AcceptedTurn> for AcceptedTurn {
    fn from(turn: &event::AcceptedTurn) -> Self {
        Self {
            id: turn.id.as_u128(),
            branch: turn.branch.clone(),
            work: (&turn.work).into(),
            policy: (&turn.policy).into(),
            safety_ppm: turn.safety.0,
            lead: turn.lead.0,
            delegates: turn
                .delegates
                .iter()
                .map(|(agent, task)| (agent.0, task.clone()))
                .collect(),
            tools: turn.tools.iter().map(ToolSpec::from).collect(),
            available: turn.available.iter().map(|agent| agent.0).collect(),
            calibrations: turn.calibrations.iter().map(Calibration::from).collect(),
            delegation: DelegationLimits {
                depth: turn.delegation.depth,
                live_runs: turn.delegation.live_runs,
            },
        }
    }
}

impl TryFrom<AcceptedTurn> for event::AcceptedTurn {
    type Error = Invalid;

    fn try_from(turn: AcceptedTurn) -> Result<Self, Invalid> {
        Ok(Self {
            id: TurnId::from_u128(turn.id),
            branch: turn.branch,
            work: turn.work.try_into()?,
            policy: turn.policy.into(),
            safety: Ppm(turn.safety_ppm),
            lead: Digest(turn.lead),
            delegates: turn
                .delegates
                .into_iter()
                .map(|(agent, task)| (Digest(agent), task))
                .collect(),
            tools: turn.tools.into_iter().map(Into::into).collect(),
            available: turn.available.into_iter().map(Digest).collect(),
            calibrations: turn.calibrations.into_iter().map(Into::into).collect(),
            delegation: event::DelegationLimits {
                depth: turn.delegation.depth,
                live_runs: turn.delegation.live_runs,
                results: event::DelegationLimits::RESULTS,
            },
        })
    }
}

impl AcceptedTurn {
    /// The turn with another share for results than turns have where nothing is said.
    pub(super) fn sharing(self, results: Ppm) -> Result<event::AcceptedTurn, Invalid> {
        if results == event::DelegationLimits::RESULTS {
            return Err(Invalid::Plain);
        }
        let mut turn: event::AcceptedTurn = self.try_into()?;
        turn.delegation.results = results;
        Ok(turn)
    }
}

impl From<&event::Calibration> for Calibration {
    fn from(calibration: &event::Calibration) -> Self {
        Self {
            model: calibration.model.clone(),
            ratio_ppm: calibration.ratio.0,
            band_ppm: calibration.band.0,
        }
    }
}

impl From<Calibration> for event::Calibration {
    fn from(calibration: Calibration) -> Self {
        Self {
            model: calibration.model,
            ratio: Ppm(calibration.ratio_ppm),
            band: Ppm(calibration.band_ppm),
        }
    }
}

impl From<&event::Work> for Work {
    fn from(work: &event::Work) -> Self {
        match work {
            event::Work::Answer { input, lent } if *lent == call::Lent::default() => Self::Answer {
                input: input.into(),
            },
            event::Work::Answer { input, lent } if lent.stop.is_empty() => Self::AnswerWith {
                input: input.into(),
                lent: lent.into(),
            },
            event::Work::Answer { input, lent } => Self::AnswerUntil {
                input: input.into(),
                lent: lent.into(),
                stop: lent.stop.clone(),
            },
            event::Work::Compact { keep, writing } => {
                let keep = keep.map(Into::into);
                match plain(writing) {
                    Some(instructions) => Self::Compact { keep, instructions },
                    None => Self::CompactBy {
                        keep,
                        writing: writing.into(),
                    },
                }
            }
            event::Work::CompactPart { part, writing } => Self::CompactPart {
                part: (*part).into(),
                instructions: writing.instructions.clone(),
                summariser: writing.summariser.clone(),
                unwritten: writing.unwritten.into(),
            },
            event::Work::Restore { checkpoint } => Self::Restore {
                checkpoint: checkpoint.as_u128(),
            },
            event::Work::Regenerate {
                checkpoint,
                writing,
            } => {
                let checkpoint = checkpoint.as_u128();
                match plain(writing) {
                    Some(instructions) => Self::Regenerate {
                        checkpoint,
                        instructions,
                    },
                    None => Self::RegenerateBy {
                        checkpoint,
                        writing: writing.into(),
                    },
                }
            }
            event::Work::Edit {
                checkpoint,
                text,
                counts,
            } => Self::Edit {
                checkpoint: checkpoint.as_u128(),
                text: text.clone(),
                counts: counts.into(),
            },
        }
    }
}

impl TryFrom<Work> for event::Work {
    type Error = Invalid;

    fn try_from(work: Work) -> Result<Self, Invalid> {
        Ok(match work {
            Work::Answer { input } => Self::Answer {
                input: input.into(),
                lent: call::Lent::default(),
            },
            Work::AnswerWith { input, lent } => {
                let lent = call::Lent::from(lent);
                if lent == call::Lent::default() {
                    return Err(Invalid::Alone);
                }
                let input = input.into();
                Self::Answer { input, lent }
            }
            Work::AnswerUntil { stop, .. } if stop.is_empty() => return Err(Invalid::Alone),
            Work::AnswerUntil { input, lent, stop } => {
                let lent = call::Lent {
                    stop,
                    ..lent.into()
                };
                let input = input.into();
                Self::Answer { input, lent }
            }
            Work::Compact { keep, instructions } => Self::Compact {
                keep: keep.map(Into::into),
                writing: event::Writing::told(instructions),
            },
            Work::CompactBy { keep, writing } => Self::Compact {
                keep: keep.map(Into::into),
                writing: writing.try_into()?,
            },
            Work::CompactPart {
                part,
                instructions,
                summariser,
                unwritten,
            } => Self::CompactPart {
                part: part.into(),
                writing: event::Writing {
                    instructions,
                    summariser,
                    unwritten: unwritten.into(),
                },
            },
            Work::Restore { checkpoint } => Self::Restore {
                checkpoint: CheckpointId::from_u128(checkpoint),
            },
            Work::Regenerate {
                checkpoint,
                instructions,
            } => Self::Regenerate {
                checkpoint: CheckpointId::from_u128(checkpoint),
                writing: event::Writing::told(instructions),
            },
            Work::RegenerateBy {
                checkpoint,
                writing,
            } => Self::Regenerate {
                checkpoint: CheckpointId::from_u128(checkpoint),
                writing: writing.try_into()?,
            },
            Work::Edit {
                checkpoint,
                text,
                counts,
            } => Self::Edit {
                checkpoint: CheckpointId::from_u128(checkpoint),
                text,
                counts: counts.try_into()?,
            },
        })
    }
}

impl From<&call::Lent> for Lent {
    fn from(lent: &call::Lent) -> Self {
        Self {
            tools: lent.tools.clone(),
            choice: match &lent.choice {
                call::Choice::Free => Choice::Free,
                call::Choice::Any => Choice::Any,
                call::Choice::This(tool) => Choice::This(tool.clone()),
            },
            one: lent.one,
        }
    }
}

impl From<Lent> for call::Lent {
    fn from(lent: Lent) -> Self {
        Self {
            tools: lent.tools,
            choice: match lent.choice {
                Choice::Free => call::Choice::Free,
                Choice::Any => call::Choice::Any,
                Choice::This(tool) => call::Choice::This(tool),
            },
            one: lent.one,
            stop: Vec::new(),
        }
    }
}

/// The instructions of a wish that says nothing else.
fn plain(writing: &event::Writing) -> Option<Option<Arc<str>>> {
    let instructions = writing.instructions.clone();
    (*writing == event::Writing::told(instructions.clone())).then_some(instructions)
}

impl From<&event::Writing> for Writing {
    fn from(writing: &event::Writing) -> Self {
        Self {
            instructions: writing.instructions.clone(),
            summariser: writing.summariser.clone(),
            unwritten: writing.unwritten.into(),
        }
    }
}

impl TryFrom<Writing> for event::Writing {
    type Error = Invalid;

    fn try_from(writing: Writing) -> Result<Self, Invalid> {
        let writing = Self {
            instructions: writing.instructions,
            summariser: writing.summariser,
            unwritten: writing.unwritten.into(),
        };
        match plain(&writing) {
            None => Ok(writing),
            Some(_) => Err(Invalid::Plain),
        }
    }
}

impl From<&event::Outcome> for Outcome {
    fn from(outcome: &event::Outcome) -> Self {
        match outcome {
            event::Outcome::Answered => Self::Answered,
            event::Outcome::Compacted { before, after } => Self::Compacted {
                before_tokens: before.0,
                after_tokens: after.0,
            },
            event::Outcome::Failed { code, reason } => Self::Failed {
                code: code.clone(),
                reason: reason.clone(),
            },
            event::Outcome::Cancelled => Self::Cancelled,
            event::Outcome::Restored { before, after } => Self::Restored {
                before_tokens: before.0,
                after_tokens: after.0,
            },
        }
    }
}

impl From<Outcome> for event::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Answered => Self::Answered,
            Outcome::Compacted {
                before_tokens,
                after_tokens,
            } => Self::Compacted {
                before: Tokens(before_tokens),
                after: Tokens(after_tokens),
            },
            Outcome::Failed { code, reason } => Self::Failed { code, reason },
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Restored {
                before_tokens,
                after_tokens,
            } => Self::Restored {
                before: Tokens(before_tokens),
                after: Tokens(after_tokens),
            },
        }
    }
}
