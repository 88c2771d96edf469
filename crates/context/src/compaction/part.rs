//! Compaction of one part of the context on a person's request: a topic, the middle of the current
//! topic, or messages that are too large. The rules of the tiers apply under every preset.

use crate::ids::Ordinal;
use crate::policy::Tiers;
use crate::tokens::Tokens;

use super::Plan;
use super::situation::Situation;
use super::tiered::Tiered;

/// A part of a context that is compacted on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextPart {
    /// The topic of a message, which must have ended: a summary of one paragraph.
    Topic {
        /// The message.
        message: Ordinal,
    },
    /// The greater part of the messages between the first and the last one of the current topic: a
    /// summary of one paragraph.
    Attention,
    /// Verbatim messages that are too large, largest first: their middle is cut out. The planner is
    /// called until none is left.
    Large {
        /// The maximum tokens; none: the limit of the policy's tiers.
        over: Option<Tokens>,
    },
}

/// The next step for that part; none if nothing would make it smaller.
pub(super) fn plan(s: &Situation<'_>, part: ContextPart) -> Option<Plan> {
    let mut tiers = s.policy.tiers().copied().unwrap_or(Tiers::DEFAULT);
    // A policy that never does this automatically does not forbid it.
    tiers.attention = tiers.attention.or(Tiers::DEFAULT.attention);
    let tiered = Tiered::new(s, &tiers)?;
    match part {
        ContextPart::Topic { message } => tiered.summarise_topic(message),
        ContextPart::Attention => tiered.attention(),
        ContextPart::Large { over } => tiered.cut_large(over),
    }
}
