//! Planning a compaction: one step at a time, nothing left to choose when it is carried out.
//!
//! The caller loops: [`plan`] → carry out → recount → commit, until there is no further plan.
//! Each step masks, cuts or covers at least one message or replaces a summary by a smaller one,
//! so the loop ends; where no step would shrink the context, there is no plan.

mod accept;
mod ahead;
mod anew;
mod cover;
mod delegated;
mod floor;
mod keep;
mod outcome;
mod part;
mod repair;
mod shorten;
mod show;
mod situation;
mod steps;
mod tiered;
mod unit;

use std::cmp::Reverse;

use crate::budget::{Budget, Budgets};
use crate::checkpoint::{Kind, Span, Tier, Writer};
use crate::ids::{CheckpointId, MessageId, Ordinal, Timestamp};
use crate::policy::{Keep, Method, Policy, Tiers};
use crate::tokens::{Count, Ppm, Tokens};
use crate::view::View;

use situation::Situation;

pub use accept::{Draft, Rejection, SECTIONS, Stop, accept, accept_replacement, truncated};
pub use ahead::{Ahead, ahead};
pub use anew::{Edit, PERSON, anew, edited};
pub use delegated::mask_delegated;
pub use floor::holds;
pub use outcome::Made;
pub use part::ContextPart;
pub use repair::{repair, rewrite, without};
pub use tiered::Loads;
pub use unit::Unit;

/// A branch that rests is compacted above this share of what is usable.
const NEARLY_FULL: Ppm = Ppm::percent(95);

/// Why the planner is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Before a snapshot: start only above the trigger.
    Check,
    /// Before a snapshot, on a branch where a person took a summary back: start only when nearly
    /// all that is usable is used.
    Rest,
    /// After a step of a compaction that is under way: go on until the target is reached.
    Continue,
    /// Before a snapshot, where the lead of the turn before requested it: start at any length, keep
    /// the last exchange and the newest input.
    Requested,
    /// A person asked: start at any length. Without a `keep` of their own, all before the
    /// newest user message goes. Asked again after each step until there is no further plan.
    Manual {
        /// What stays instead.
        keep: Option<Keep>,
    },
    /// A person asked for one part to be made smaller, at any length. Asked again after each step
    /// until there is no further plan.
    Part(ContextPart),
}

impl Mode {
    /// The tiers that are to be kept, where there are any. What a person or a lead asks for is one
    /// summary, or one part.
    const fn tiers(self, policy: &Policy) -> Option<&Tiers> {
        match self {
            Mode::Requested | Mode::Manual { .. } | Mode::Part(_) => None,
            Mode::Check | Mode::Rest | Mode::Continue => policy.tiers(),
        }
    }

    /// Who asked.
    pub const fn kind(self) -> Kind {
        match self {
            Mode::Manual { .. } | Mode::Part(_) => Kind::Manual,
            Mode::Check | Mode::Rest | Mode::Continue | Mode::Requested => Kind::Auto,
        }
    }
}

/// A message to mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskTarget {
    /// The message.
    pub message: MessageId,
    /// Its position.
    pub ordinal: Ordinal,
    /// Its tokens now.
    pub tokens: Tokens,
}

/// The messages that leave, and what stood for some of them before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// All messages the new checkpoint stands for.
    pub spans: Vec<Span>,
    /// Those of them that were verbatim until now.
    pub fresh: Vec<Span>,
    /// The last of them.
    pub cutoff: Ordinal,
    /// The checkpoints whose place it takes.
    pub supersedes: Vec<CheckpointId>,
    /// Tokens of what it takes the place of, the dialect's overhead included.
    pub original: Tokens,
}

/// One step of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Replace the tool results of these messages by references.
    Mask(Vec<MaskTarget>),
    /// Shorten one message.
    Cut {
        /// The message.
        message: MessageId,
        /// Its position.
        ordinal: Ordinal,
        /// New length of its longest part, in Unicode scalars.
        target_chars: u32,
    },
    /// Summarise.
    Summarise {
        /// What leaves.
        cover: Cover,
        /// What it is to be a summary of.
        tier: Tier,
        /// The most tokens that may stand for it, key facts and marking included.
        cap: Tokens,
        /// Who may write it.
        writer: Writer,
    },
    /// Leave nothing but a note.
    Drop {
        /// What leaves.
        cover: Cover,
    },
    /// Write a summary anew: another text for the same messages. A model writes it, or nobody.
    Rewrite {
        /// What it stands for. `fresh` is read in full; it supersedes the one it replaces.
        cover: Cover,
        /// The summaries that are read before those messages, oldest first.
        prior: Vec<CheckpointId>,
        /// The most tokens it may have, key facts and marking included.
        cap: Tokens,
    },
    /// Shorten several messages to their heads.
    Truncate {
        /// The messages, with their positions.
        messages: Vec<(MessageId, Ordinal)>,
        /// New length of each of their longer parts, in Unicode scalars.
        target_chars: u32,
    },
}

/// A step with the numbers that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to do.
    pub step: Step,
    /// The budget it was made under.
    pub budget: Budget,
    /// Effective tokens before it.
    pub before: Tokens,
    /// The amount the compaction aims at.
    pub target: Tokens,
    /// Set where the preset's own result would not fit and less is kept than it asks for.
    pub tightened: bool,
}

/// Why there can be no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What may not be compacted does not fit.
    #[error(
        "context overflow: the pending input, pinned messages and what must stay need {needed} \
         tokens, but only {usable} are usable of a window of {window}"
    )]
    Overflow {
        /// Tokens of what must stay.
        needed: Tokens,
        /// Tokens there are.
        usable: Tokens,
        /// The model's window.
        window: Tokens,
    },
    /// Some message has no count in an encoding of the turn.
    #[error("the branch is not counted yet")]
    Uncounted,
}

/// The next step, or none when nothing is due or no step would shrink the context.
///
/// # Errors
/// The context cannot be made to fit, or a message is not counted.
pub fn plan(
    view: &View<'_>,
    budgets: &Budgets,
    policy: &Policy,
    mode: Mode,
    now: Timestamp,
) -> Result<Option<Plan>, Error> {
    let mut due: Vec<(Budget, Count)> = Vec::new();
    for budget in budgets.iter() {
        let effective = view.effective(budget).ok_or(Error::Uncounted)?;
        if is_due(view, policy, mode, budget, effective) {
            due.push((*budget, effective));
        }
    }
    // The budget that is over by most comes first: it decides how small a step has to make it.
    due.sort_by_key(|(budget, effective)| Reverse(occupancy(budget, *effective)));
    for (budget, effective) in due {
        let situation = Situation::new(view, budget, effective, policy, mode, now);
        let next = match mode {
            Mode::Part(part) => part::plan(&situation, part),
            _ => steps::next(&situation)?,
        };
        if let Some(plan) = next {
            return Ok(Some(plan));
        }
    }
    Ok(None)
}

/// The bound of the effective tokens in millionths of what is usable.
fn occupancy(budget: &Budget, effective: Count) -> u128 {
    u128::from(effective.at_most.0) * 1_000_000 / u128::from(budget.usable.0.max(1))
}

/// Whether a carried-out step may be committed: the effective tokens shrink, by estimate or at
/// their bound. The two are one where every count is exact.
pub fn shrinks(before: Count, after: Count) -> bool {
    after.tokens < before.tokens || after.at_most < before.at_most
}

/// Whether a compaction starts (or goes on) under one budget. Estimated counts lower the
/// trigger by a tenth; over what is usable it is always due.
fn is_due(view: &View<'_>, policy: &Policy, mode: Mode, budget: &Budget, effective: Count) -> bool {
    if effective.at_most > budget.usable {
        return true;
    }
    let tiers = mode.tiers(policy);
    if let Some(tiers) = tiers.filter(|_| mode != Mode::Rest) {
        return tiered::is_due(view, policy, tiers, mode, budget);
    }
    let Some(trigger) = policy.trigger_amount(budget) else {
        return mode == Mode::Requested || mode.kind() == Kind::Manual;
    };
    match mode {
        Mode::Requested | Mode::Manual { .. } | Mode::Part(_) => true,
        Mode::Continue => effective.tokens > policy.target_amount(budget),
        Mode::Rest => effective.tokens > NEARLY_FULL.of(budget.usable),
        Mode::Check => {
            let limit = if effective.is_approximate() {
                Ppm::percent(90).of(trigger)
            } else {
                trigger
            };
            effective.tokens > limit && effective.tokens >= policy.minimum
        }
    }
}

/// The most a summary of this policy may have; zero for one that drops.
const fn summary_cap(policy: &Policy) -> Tokens {
    match policy.method {
        Method::Summarise { cap } => cap,
        Method::Drop => Tokens::ZERO,
    }
}
