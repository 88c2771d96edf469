//! One path of a session's tree, the scope of an agent's search.

use unisono_context::checkpoint::Span;
use unisono_context::tree::Strand;
use unisono_context::{MessageId, SessionId, Tree};

/// The messages from a root to a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The session.
    pub session: SessionId,
    /// The stretches that make up the path, as [`Tree::strands`] gives them.
    pub strands: Vec<(Strand, Span)>,
}

impl Branch {
    /// The path of a session's tree that ends in `head`.
    pub fn new(session: SessionId, tree: &Tree, head: MessageId) -> Branch {
        Branch {
            session,
            strands: tree.strands(head),
        }
    }

    /// Whether a message with this strand and ordinal is on the path.
    #[cfg(feature = "index")]
    pub(crate) fn contains(&self, strand: u64, ordinal: u64) -> bool {
        let strands = self.strands.iter();
        let mut strands = strands.filter(|(of, _)| u64::from(of.0) == strand);
        strands
            .any(|(_, span)| (u64::from(span.first.0)..=u64::from(span.last.0)).contains(&ordinal))
    }
}
