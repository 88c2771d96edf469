//! The attachments on a path: messages are counted with their largest cost, which a budget replaces
//! by the cost for its models.

use std::ops::{AddAssign, RangeInclusive};
use std::sync::Arc;

use super::{Node, Tree};
use crate::attachment::FileTokens;
use crate::budget::Budget;
use crate::ids::{MessageId, Ordinal};
use crate::message::Message;
use crate::tokens::{Count, Encoding};

/// The attachments of a path, each sum shared by the messages after it; none: it has none.
pub(super) type PathFiles = Option<Arc<FileTokens>>;

/// The attachments of the path that ends in this message.
pub(super) fn through(parent: Option<&Node>, message: &Message) -> PathFiles {
    let before = parent.and_then(|node| node.files.clone());
    if !has_files(message) {
        return before;
    }
    let sum = before.as_deref().copied().unwrap_or_default();
    Some(Arc::new(sum + message.file_tokens()))
}

pub(super) fn has_files(message: &Message) -> bool {
    message.parts.iter().any(|part| part.content().is_some())
}

impl Node {
    /// Its tokens under a budget, without the dialect's overhead; none while it is not counted.
    pub fn count(&self, budget: &Budget) -> Option<Count> {
        let counted = self.counts.get(budget.encoding)?;
        Some(self.recounted(counted, budget))
    }

    /// A count of it that has its attachments, under a budget.
    pub(crate) fn recounted(&self, counted: Count, budget: &Budget) -> Count {
        match self.has_files {
            true => budget.files.recounted(counted, &self.message.file_tokens()),
            false => counted,
        }
    }
}

/// Tokens and attachments of messages, without the dialect's overhead. A budget recounts the attachments
/// of all messages together: one way for all of them may cost less than the most expensive way for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagesCost {
    /// Besides the attachments, in one encoding.
    texts: Count,
    files: FileTokens,
}

impl MessagesCost {
    /// The tokens under a budget in whose encoding they were counted.
    pub fn under(&self, budget: &Budget) -> Count {
        self.texts + budget.files.count(&self.files)
    }

    /// Replaces the tokens of one of its messages by those of a shorter form, which has its attachments
    /// or none. None, and no change, while the message is not counted.
    pub(crate) fn replace(
        &mut self,
        node: &Node,
        (encoding, shorter): (Encoding, Count),
        keeps_files: bool,
    ) -> Option<()> {
        let full = node.counts.get(encoding)?;
        let files = match node.has_files {
            true => node.message.file_tokens(),
            false => FileTokens::default(),
        };
        let shorter = match keeps_files {
            true => files.without_files(shorter),
            false => shorter,
        };
        self.texts = self.texts.minus(files.without_files(full)) + shorter;
        if !keeps_files {
            self.files = self.files.minus(&files);
        }
        Some(())
    }
}

impl AddAssign for MessagesCost {
    fn add_assign(&mut self, other: MessagesCost) {
        self.texts += other.texts;
        self.files = self.files + other.files;
    }
}

impl Tree {
    /// Tokens of a range of a path under a budget, without the dialect's overhead.
    pub fn cost_under(
        &self,
        head: MessageId,
        range: RangeInclusive<Ordinal>,
        budget: &Budget,
    ) -> Option<Count> {
        let cost = self.messages_cost(head, range, budget.encoding)?;
        Some(cost.under(budget))
    }

    /// Tokens and attachments of a range of a path, by one subtraction.
    pub fn messages_cost(
        &self,
        head: MessageId,
        range: RangeInclusive<Ordinal>,
        encoding: Encoding,
    ) -> Option<MessagesCost> {
        let counted = self.cost(head, range.clone(), encoding)?;
        let files = self.files_in(head, range).unwrap_or_default();
        Some(MessagesCost {
            texts: files.without_files(counted),
            files,
        })
    }

    fn files_in(&self, head: MessageId, range: RangeInclusive<Ordinal>) -> Option<FileTokens> {
        let (first, last) = range.into_inner();
        if first > last {
            return None;
        }
        let all = self.node_at(head, last)?.files.as_deref()?;
        let before = self.node_at(head, Ordinal(first.0.saturating_sub(1)));
        let before = before.and_then(|node| node.files.as_deref());
        Some(before.map_or(*all, |before| all.minus(before)))
    }
}
