//! Planning a compaction: one step at a time. A step leaves no choice to its execution.
//!
//! The caller loops: [`plan`] → carry out → recount → commit, until there is no further plan. Each
//! step masks, cuts or covers at least one message or replaces a summary by a smaller one, so the
//! loop ends. If no step would shrink the context, there is no plan.

mod accept;
mod ahead;
mod cover;
mod delegated;
mod floor;
mod foresee;
mod keep;
mod outcome;
mod part;
mod regenerate;
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

pub use accept::{
    Draft, Rejection, SECTIONS, Stop, accept, accept_replacement, has_text, truncated,
};
pub use ahead::{UpcomingSummary, ahead};
pub use delegated::mask_delegated;
pub use floor::holds;
pub use foresee::{ExpectedGrowth, ForeseenSummary, foresee};
pub use outcome::NewSummary;
pub use part::ContextPart;
pub use regenerate::{EXTRACTIVE, Edit, PERSON, edited, regenerate};
pub use repair::{repair, rewrite, without};
pub use tiered::Loads;
pub use unit::Unit;

/// A branch that rests is compacted above this share of the usable tokens.
const NEARLY_FULL: Ppm = Ppm::percent(95);

/// The reason for planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Before a snapshot: start only above the trigger.
    Check,
    /// Before a snapshot, on a branch where a person reverted a summary: start only when nearly all
    /// usable tokens are used.
    Rest,
    /// After a step of a running compaction: continue until the target is reached.
    Continue,
    /// Before a snapshot, if the lead of the previous turn requested it: start at any length, keep
    /// the last exchange and the newest input.
    Requested,
    /// A person requested it: start at any length. Without their own `keep`, all messages before
    /// the newest user message leave. Planned again after each step until there is no further plan.
    Manual {
        /// The messages that stay instead.
        keep: Option<Keep>,
    },
    /// A person requested the compaction of one part, at any length. Planned again after each step
    /// until there is no further plan.
    Part(ContextPart),
}

impl Mode {
    /// The tiers to keep, if there are any. A request of a person or a lead is for one summary, or
    /// one part.
    const fn tiers(self, policy: &Policy) -> Option<&Tiers> {
        match self {
            Mode::Requested | Mode::Manual { .. } | Mode::Part(_) => None,
            Mode::Check | Mode::Rest | Mode::Continue => policy.tiers(),
        }
    }

    /// The origin of the compaction.
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

/// The messages that leave, and the checkpoints that covered some of them before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// All messages that the new checkpoint covers.
    pub spans: Vec<Span>,
    /// Those that were verbatim until now.
    pub fresh: Vec<Span>,
    /// The last of them.
    pub cutoff: Ordinal,
    /// The checkpoints that it replaces.
    pub supersedes: Vec<CheckpointId>,
    /// Tokens of the replaced messages and blocks, the dialect's overhead included.
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
        /// The cover of the summary.
        cover: Cover,
        /// The scope of the summary.
        tier: Tier,
        /// Maximum tokens of the summary, key facts and marking included.
        cap: Tokens,
        /// The permitted writer.
        writer: Writer,
    },
    /// Leave only a note.
    Drop {
        /// The cover of the note.
        cover: Cover,
    },
    /// Regenerate a summary: another text for the same messages. If no model writes it, nothing
    /// changes.
    Regenerate {
        /// Its cover. `fresh` is read in full; it supersedes the checkpoint that it replaces.
        cover: Cover,
        /// The summaries that are read before those messages, oldest first.
        prior: Vec<CheckpointId>,
        /// Maximum tokens, key facts and marking included.
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

/// A step with the numbers from which it was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The step.
    pub step: Step,
    /// The budget for which it was planned.
    pub budget: Budget,
    /// Effective tokens before it.
    pub before: Tokens,
    /// The target of the compaction.
    pub target: Tokens,
    /// Whether the preset's own result would not fit, so that fewer messages are kept than it
    /// requests.
    pub tightened: bool,
}

/// Why there can be no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The content that must not be compacted does not fit.
    #[error(
        "context overflow: the pending input, pinned messages and what must stay need {needed} \
         tokens, but only {usable} of a window of {window} are left for them"
    )]
    Overflow {
        /// Tokens of that content.
        needed: Tokens,
        /// Usable tokens.
        usable: Tokens,
        /// The model's window.
        window: Tokens,
    },
    /// Some message has no count in an encoding of the turn.
    #[error("the branch is not counted yet")]
    Uncounted,
}

/// The next step, or none if nothing is due or no step would shrink the context.
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
    // The budget with the largest excess comes first: it determines how small a step must make the
    // context.
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

/// The upper bound of the effective tokens in millionths of the usable tokens.
fn occupancy(budget: &Budget, effective: Count) -> u128 {
    u128::from(effective.at_most.0) * 1_000_000 / u128::from(budget.usable.0.max(1))
}

/// Whether an executed step may be committed: the effective tokens shrink, by estimate or at their
/// upper bound. Both are equal if every count is exact.
pub fn shrinks(before: Count, after: Count) -> bool {
    after.tokens < before.tokens || after.at_most < before.at_most
}

/// Whether a compaction starts (or continues) under one budget. Estimated counts lower the trigger
/// by a tenth; above the usable tokens it is always due.
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
        Mode::Rest => effective.tokens > NEARLY_FULL.share_of(budget.usable),
        Mode::Check => {
            let limit = if effective.is_approximate() {
                Ppm::percent(90).share_of(trigger)
            } else {
                trigger
            };
            effective.tokens > limit && effective.tokens >= policy.minimum
        }
    }
}

/// Maximum tokens of a summary of this policy; zero for a policy that drops messages.
const fn summary_cap(policy: &Policy) -> Tokens {
    match policy.method {
        Method::Summarise { cap } => cap,
        Method::Drop => Tokens::ZERO,
    }
}
