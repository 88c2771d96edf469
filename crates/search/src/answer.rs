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
    /// Its score: higher is better; zero for a query of filters only.
    pub score: f32,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The results, best first.
    pub found: Vec<FoundMessage>,
    /// Whether everything on disk was searched. Otherwise messages may be missing: they are still
    /// being indexed, or the index cannot be written.
    pub complete: bool,
}

/// The results for an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecallResult {
    /// The messages, the best first.
    pub messages: Vec<Ordinal>,
    /// The words that no message has.
    pub nowhere: Vec<String>,
    /// The words as the index has them, for [`crate::excerpt()`].
    pub stems: Vec<String>,
}

/// The scope of an agent's search outside its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All branches of this session.
    Session(SessionId),
    /// In all sessions with this owner.
    Owner(Arc<str>),
}

/// The condition of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// Sessions in it.
    pub sessions: u64,
    /// Messages in it.
    pub messages: u64,
    /// The reason why it was rebuilt since it was opened; none if it was intact.
    pub rebuilt_because: Option<String>,
}
