//! The results of searches, and the state of an index.

use std::sync::Arc;

use unisono_context::{MessageId, Ordinal, SessionId};

/// A message that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundMessage {
    /// Its session.
    pub session: SessionId,
    /// The message.
    pub message: MessageId,
    /// Its position on every branch that contains it.
    pub ordinal: Ordinal,
    /// How well it fits: higher is better, zero where nothing was asked for but filters.
    pub score: f32,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What was found, the best first.
    pub found: Vec<FoundMessage>,
    /// Whether all that is on disk was searched; else the newest or much more may be missing: it is
    /// still being taken in, or the index cannot be written.
    pub complete: bool,
}

/// What was found for an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecallResult {
    /// The messages, the best first.
    pub messages: Vec<Ordinal>,
    /// The words that no message has.
    pub nowhere: Vec<String>,
    /// The words as the index has them, for [`crate::excerpt()`].
    pub stems: Vec<String>,
}

/// Where an agent's question looks beside its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In this session, whatever the branch.
    Session(SessionId),
    /// In all sessions with this owner.
    Owner(Arc<str>),
}

/// How an index is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Sessions in it.
    pub sessions: u64,
    /// Messages in it.
    pub messages: u64,
    /// Why it had to be rebuilt since it was opened; none: it was whole.
    pub remade: Option<String>,
}
