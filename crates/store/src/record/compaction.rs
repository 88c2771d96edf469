//! Steps of a compaction.

use serde::{Deserialize, Serialize};
use unisono_context::{CheckpointId, MessageId, Ordinal, Tokens, budget, checkpoint, compaction};

use super::Invalid;
use super::checkpoint::{Span, Tier, Writer};
use super::tokens::Encoding;

/// A step with the numbers that led to it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    step: Step,
    budget: Budget,
    before_tokens: u64,
    target_tokens: u64,
    tightened: bool,
}

impl Plan {
    /// The version that knew its step first, of those that differ in nothing else from this one.
    pub(super) const fn since(&self) -> u16 {
        match self.step {
            Step::Rewrite { .. } => 3,
            _ => 2,
        }
    }
}

/// What to do. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    Mask(Vec<MaskTarget>),
    Cut {
        message: u128,
        ordinal: u32,
        target_chars: u32,
    },
    Summarise {
        cover: Cover,
        cap_tokens: u64,
        writer: Writer,
    },
    Drop {
        cover: Cover,
    },
    // Since version 3.
    Rewrite {
        cover: Cover,
        prior: Vec<u128>,
        cap_tokens: u64,
    },
    /// A summary of another tier than the conversation's.
    SummariseTier {
        cover: Cover,
        cap_tokens: u64,
        writer: Writer,
        tier: Tier,
    },
    Truncate {
        messages: Vec<(u128, u32)>,
        target_chars: u32,
    },
}

/// A message to mask.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MaskTarget {
    message: u128,
    ordinal: u32,
    tokens: u64,
}

/// The messages that leave.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cover {
    spans: Vec<Span>,
    fresh: Vec<Span>,
    cutoff: u32,
    supersedes: Vec<u128>,
    original_tokens: u64,
}

/// What one model leaves for the conversation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Budget {
    encoding: Encoding,
    window_tokens: u64,
    usable_tokens: u64,
    per_message_tokens: u64,
}

impl TryFrom<&compaction::Plan> for Plan {
    type Error = Invalid;

    fn try_from(plan: &compaction::Plan) -> Result<Self, Invalid> {
        Ok(Self {
            step: (&plan.step).try_into()?,
            budget: plan.budget.into(),
            before_tokens: plan.before.0,
            target_tokens: plan.target.0,
            tightened: plan.tightened,
        })
    }
}

impl TryFrom<Plan> for compaction::Plan {
    type Error = Invalid;

    fn try_from(plan: Plan) -> Result<Self, Invalid> {
        Ok(Self {
            step: plan.step.try_into()?,
            budget: plan.budget.into(),
            before: Tokens(plan.before_tokens),
            target: Tokens(plan.target_tokens),
            tightened: plan.tightened,
        })
    }
}

impl TryFrom<&compaction::Step> for Step {
    type Error = Invalid;

    fn try_from(step: &compaction::Step) -> Result<Self, Invalid> {
        Ok(match step {
            compaction::Step::Mask(targets) => {
                Self::Mask(targets.iter().map(MaskTarget::from).collect())
            }
            compaction::Step::Cut {
                message,
                ordinal,
                target_chars,
            } => Self::Cut {
                message: message.as_u128(),
                ordinal: ordinal.0,
                target_chars: *target_chars,
            },
            compaction::Step::Summarise {
                cover,
                tier: checkpoint::Tier::Conversation,
                cap,
                writer,
            } => Self::Summarise {
                cover: cover.try_into()?,
                cap_tokens: cap.0,
                writer: (*writer).into(),
            },
            compaction::Step::Summarise {
                cover,
                tier,
                cap,
                writer,
            } => Self::SummariseTier {
                cover: cover.try_into()?,
                cap_tokens: cap.0,
                writer: (*writer).into(),
                tier: (*tier).into(),
            },
            compaction::Step::Truncate {
                messages,
                target_chars,
            } => Self::Truncate {
                messages: messages
                    .iter()
                    .map(|(id, at)| (id.as_u128(), at.0))
                    .collect(),
                target_chars: *target_chars,
            },
            compaction::Step::Drop { cover } => Self::Drop {
                cover: cover.try_into()?,
            },
            compaction::Step::Rewrite { cover, prior, cap } => Self::Rewrite {
                cover: cover.try_into()?,
                prior: prior.iter().map(|id| id.as_u128()).collect(),
                cap_tokens: cap.0,
            },
        })
    }
}

impl TryFrom<Step> for compaction::Step {
    type Error = Invalid;

    fn try_from(step: Step) -> Result<Self, Invalid> {
        Ok(match step {
            Step::Mask(targets) => Self::Mask(targets.into_iter().map(Into::into).collect()),
            Step::Cut {
                message,
                ordinal,
                target_chars,
            } => Self::Cut {
                message: MessageId::from_u128(message),
                ordinal: Ordinal(ordinal),
                target_chars,
            },
            Step::Summarise {
                cover,
                cap_tokens,
                writer,
            } => Self::Summarise {
                cover: cover.try_into()?,
                tier: checkpoint::Tier::Conversation,
                cap: Tokens(cap_tokens),
                writer: writer.into(),
            },
            // The conversation's are written as above, and only so.
            Step::SummariseTier {
                tier: Tier::Conversation,
                ..
            } => return Err(Invalid::Tier),
            Step::SummariseTier {
                cover,
                cap_tokens,
                writer,
                tier,
            } => Self::Summarise {
                cover: cover.try_into()?,
                tier: tier.into(),
                cap: Tokens(cap_tokens),
                writer: writer.into(),
            },
            Step::Truncate {
                messages,
                target_chars,
            } => Self::Truncate {
                messages: messages
                    .into_iter()
                    .map(|(id, at)| (MessageId::from_u128(id), Ordinal(at)))
                    .collect(),
                target_chars,
            },
            Step::Drop { cover } => Self::Drop {
                cover: cover.try_into()?,
            },
            Step::Rewrite {
                cover,
                prior,
                cap_tokens,
            } => Self::Rewrite {
                cover: cover.try_into()?,
                prior: prior.into_iter().map(CheckpointId::from_u128).collect(),
                cap: Tokens(cap_tokens),
            },
        })
    }
}

impl From<&compaction::MaskTarget> for MaskTarget {
    fn from(target: &compaction::MaskTarget) -> Self {
        Self {
            message: target.message.as_u128(),
            ordinal: target.ordinal.0,
            tokens: target.tokens.0,
        }
    }
}

impl From<MaskTarget> for compaction::MaskTarget {
    fn from(target: MaskTarget) -> Self {
        Self {
            message: MessageId::from_u128(target.message),
            ordinal: Ordinal(target.ordinal),
            tokens: Tokens(target.tokens),
        }
    }
}

impl TryFrom<&compaction::Cover> for Cover {
    type Error = Invalid;

    fn try_from(cover: &compaction::Cover) -> Result<Self, Invalid> {
        Ok(Self {
            spans: Span::all(&cover.spans)?,
            fresh: Span::all(&cover.fresh)?,
            cutoff: cover.cutoff.0,
            supersedes: cover.supersedes.iter().map(|id| id.as_u128()).collect(),
            original_tokens: cover.original.0,
        })
    }
}

impl TryFrom<Cover> for compaction::Cover {
    type Error = Invalid;

    fn try_from(cover: Cover) -> Result<Self, Invalid> {
        Ok(Self {
            spans: Span::into_all(cover.spans)?,
            fresh: Span::into_all(cover.fresh)?,
            cutoff: Ordinal(cover.cutoff),
            supersedes: cover
                .supersedes
                .into_iter()
                .map(CheckpointId::from_u128)
                .collect(),
            original: Tokens(cover.original_tokens),
        })
    }
}

impl From<budget::Budget> for Budget {
    fn from(budget: budget::Budget) -> Self {
        Self {
            encoding: budget.encoding.into(),
            window_tokens: budget.window.0,
            usable_tokens: budget.usable.0,
            per_message_tokens: budget.per_message.0,
        }
    }
}

impl From<Budget> for budget::Budget {
    fn from(budget: Budget) -> Self {
        Self {
            encoding: budget.encoding.into(),
            window: Tokens(budget.window_tokens),
            usable: Tokens(budget.usable_tokens),
            per_message: Tokens(budget.per_message_tokens),
        }
    }
}
