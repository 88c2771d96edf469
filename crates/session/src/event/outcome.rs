//! The outcome of a turn.

use std::sync::Arc;

use unisono_context::Tokens;

/// The outcome of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lead's answer is the branch's newest message.
    Answered,
    /// A requested compaction was carried out, or was not needed.
    Compacted {
        /// Effective tokens before.
        before: Tokens,
        /// Effective tokens after.
        after: Tokens,
    },
    /// It failed.
    Failed {
        /// A stable code: `context_overflow`, `lead_failed`, …
        code: Arc<str>,
        /// What happened.
        reason: Arc<str>,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// A checkpoint was reverted.
    Reverted {
        /// Effective tokens before.
        before: Tokens,
        /// Effective tokens after.
        after: Tokens,
    },
}

impl Outcome {
    /// The stable name, which is also the state of the ended turn.
    pub const fn name(&self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Compacted { .. } => "compacted",
            Outcome::Failed { .. } => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Reverted { .. } => "reverted",
        }
    }

    /// Whether a requested compaction failed and changed nothing.
    pub fn is_unwritten(&self) -> bool {
        matches!(self, Outcome::Failed { code, .. } if &**code == "compaction_failed")
    }
}
