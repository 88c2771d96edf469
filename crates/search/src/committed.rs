//! The input of the index: messages of sessions, after their commit.

use std::sync::Arc;

#[cfg(feature = "index")]
use unisono_context::Part;
use unisono_context::tree::Strand;
use unisono_context::{Message, SessionId};
use unisono_session::{OWNER, State};

/// New messages of a session, which are on disk.
#[derive(Clone, Debug)]
pub struct CommittedMessages {
    /// The session.
    pub session: SessionId,
    /// The last event on disk.
    pub seq: u64,
    /// The number of earlier messages in the session's tree.
    pub from: usize,
    /// The messages, in the order of the tree.
    pub messages: Vec<PlacedMessage>,
}

#[cfg(feature = "index")]
impl CommittedMessages {
    pub(crate) fn text_bytes(&self) -> usize {
        let parts = self
            .messages
            .iter()
            .flat_map(|placed| &placed.message.parts);
        let bytes = parts.map(|part| match part {
            Part::Text(text) => text.len(),
            Part::ToolCall { arguments, .. } => arguments.len(),
            Part::ToolResult { content, .. } => content.len(),
            Part::Attachment { .. } => 0,
        });
        bytes.sum()
    }
}

/// A message with its place in its session's tree.
#[derive(Clone, Debug)]
pub struct PlacedMessage {
    /// The message.
    pub message: Arc<Message>,
    /// The strand of the tree it is on.
    pub strand: Strand,
    /// The owner of its session, if a label names one.
    pub owner: Option<Arc<str>>,
}

impl PlacedMessage {
    /// The messages of a session in the order of its tree, but for the first `from`.
    pub fn messages_after(state: &State, from: usize) -> impl Iterator<Item = PlacedMessage> {
        let owner = state.labels().get(OWNER).filter(|owner| !owner.is_empty());
        let nodes = state.tree().iter().skip(from);
        nodes.map(move |node| PlacedMessage {
            message: node.message.clone(),
            strand: node.strand(),
            owner: owner.cloned(),
        })
    }
}
