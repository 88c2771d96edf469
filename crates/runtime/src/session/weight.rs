//! The approximate memory use of a session: its messages, which are nearly all of it.

use unisono_context::Tree;
use unisono_context::message::Part;

/// The memory use of a session without messages.
const SESSION_BYTES: u64 = 16 * 1024;
/// The memory use of a message without its texts.
const MESSAGE_BYTES: u64 = 1_024;

/// The sum so far. Messages never change, so each is added once.
#[derive(Debug, Default)]
pub(super) struct Weight {
    messages: usize,
    bytes: u64,
}

impl Weight {
    /// The size in bytes of a session with this tree, which only grows.
    pub(super) fn update(&mut self, tree: &Tree) -> u64 {
        for node in tree.iter().skip(self.messages) {
            let texts = node.message.parts.iter().map(text_bytes).sum::<usize>();
            self.bytes += texts as u64 + MESSAGE_BYTES;
        }
        self.messages = tree.len();
        SESSION_BYTES + self.bytes
    }
}

fn text_bytes(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::ToolCall {
            id,
            name,
            arguments,
        } => id.len() + name.len() + arguments.len(),
        Part::ToolResult {
            call_id, content, ..
        } => call_id.len() + content.len(),
        Part::Attachment { filename, mime, .. } => filename.len() + mime.len(),
    }
}
