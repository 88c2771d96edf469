//! One part of the context that a person has made smaller: a topic, the middle of the current one,
//! or messages that are too large. The rules are those of the tiers, whatever the preset.

use crate::ids::Ordinal;
use crate::policy::Tiers;
use crate::tokens::Tokens;

use super::Plan;
use super::situation::Situation;
use super::tiered::Tiered;

/// What of a context is made smaller on request, besides what is older than the kept part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextPart {
    /// The topic that a message belongs to, which must have ended: a summary of one paragraph.
    Topic {
        /// The message.
        message: Ordinal,
    },
    /// The greater part of what lies between the first and the last message of the current topic:
    /// a summary of one paragraph.
    Attention,
    /// Verbatim messages that are too large, largest first: their middle is cut out. The planner
    /// is asked until none is left.
    Large {
        /// More tokens than this are too many; none: as the policy's tiers have it.
        over: Option<Tokens>,
    },
}

/// The next step for that part; none where there is nothing that would make it smaller.
pub(super) fn plan(s: &Situation<'_>, part: ContextPart) -> Option<Plan> {
    let mut tiers = s.policy.tiers().copied().unwrap_or(Tiers::DEFAULT);
    // A policy under which this never happens by itself does not forbid it.
    tiers.attention = tiers.attention.or(Tiers::DEFAULT.attention);
    let tiered = Tiered::new(s, &tiers)?;
    match part {
        ContextPart::Topic { message } => tiered.summarise_topic(message),
        ContextPart::Attention => tiered.attention(),
        ContextPart::Large { over } => tiered.cut_large(over),
    }
}
