//! The append-only message tree and its branches.
//!
//! Every node carries the prefix sums of its path and a jump pointer, so that a fork costs
//! O(1), a position is found in O(log n) and the cost of a range is a subtraction. The jump
//! pointers are the skew-binary ones of E. W. Myers, "An applicative random-access stack"
//! (Information Processing Letters 17, 1983).

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::digest::Digest;
use crate::ids::{MessageId, Ordinal};
use crate::message::{Message, NewMessage, Role};
use crate::tokens::{Count, Counts, Encoding};

mod calls;
mod files;
mod strands;

pub use files::MessagesCost;
pub use strands::Strand;

use calls::OpenCalls;

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The id is in use in this session.
    #[error("message id {0} is already in use in this session")]
    DuplicateId(MessageId),
    /// The parent is not in the tree.
    #[error("parent message {0} does not exist")]
    UnknownParent(MessageId),
    /// The message named is not in the tree.
    #[error("message {0} does not exist")]
    UnknownMessage(MessageId),
    /// A message without any part.
    #[error("message {0} has no content")]
    Empty(MessageId),
    /// A tool result with no unanswered call before it.
    #[error("tool result for call {call_id:?} has no unanswered tool call before it")]
    ResultWithoutCall {
        /// The id the result carries.
        call_id: String,
    },
}

/// A message with data derived from its path.
#[derive(Clone, Debug)]
pub struct Node {
    /// The message.
    pub message: Arc<Message>,
    /// First message of its unit: itself, or the call that its result answers.
    pub unit_start: Ordinal,
    /// Its tokens, per encoding, once counted.
    pub counts: Counts,
    /// Tokens of the path from the root to here, if every message of it is counted.
    prefix: Counts,
    parent: Option<u32>,
    jump: u32,
    open_calls: OpenCalls,
    strand: Strand,
    // Copies of the message's fields, so that planning over a long path stays in one array.
    ordinal: Ordinal,
    role: Role,
    is_tool_result: bool,
    has_files: bool,
    /// The attachments of the path from the root to here.
    files: files::PathFiles,
}

impl Node {
    /// The message's position on every branch that contains it.
    pub fn ordinal(&self) -> Ordinal {
        self.ordinal
    }

    /// The strand it is on.
    pub fn strand(&self) -> Strand {
        self.strand
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// True when the message answers a tool call.
    pub fn is_tool_result(&self) -> bool {
        self.is_tool_result
    }
}

/// The messages of a session, and its branches.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    by_id: HashMap<MessageId, u32>,
    branches: BTreeMap<String, MessageId>,
    strands: Vec<strands::Begun>,
}

impl Tree {
    /// Number of messages, over all branches.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True before the first message.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Appends a message after `parent` (none: a root).
    ///
    /// # Errors
    /// A used id, an unknown parent, an empty message, or a tool result without a call.
    pub fn append(
        &mut self,
        parent: Option<MessageId>,
        new: NewMessage,
    ) -> Result<&Arc<Message>, Error> {
        if self.by_id.contains_key(&new.id) {
            return Err(Error::DuplicateId(new.id));
        }
        if new.parts.is_empty() {
            return Err(Error::Empty(new.id));
        }
        let parent = parent
            .map(|id| self.index(id).ok_or(Error::UnknownParent(id)))
            .transpose()?;
        let parent_node = parent.map(|ix| &self.nodes[ix as usize]);
        let calls = calls::pair(&new.parts, parent_node)?;
        let message = Message::place(new, parent_node.map(|n| &*n.message), calls.answers);
        let ix = self.nodes.len() as u32;
        let files = files::through(parent_node, &message);
        let strand = strands::extend(&mut self.strands, parent_node, ix);
        self.by_id.insert(message.id, ix);
        self.nodes.push(Node {
            unit_start: calls.unit_start,
            counts: Counts::default(),
            prefix: Counts::default(),
            parent,
            jump: self.jump_for(parent, ix),
            open_calls: calls.open,
            strand,
            ordinal: message.ordinal,
            role: message.role,
            is_tool_result: message.is_tool_result(),
            has_files: files::has_files(&message),
            files,
            message: Arc::new(message),
        });
        Ok(&self.nodes[ix as usize].message)
    }

    /// Records the count of a message; an existing count does not change. The prefix sum follows as
    /// soon as the previous message has one, so count a path from its oldest message on.
    pub fn set_count(
        &mut self,
        id: MessageId,
        encoding: Encoding,
        count: Count,
    ) -> Result<(), Error> {
        let ix = self.index(id).ok_or(Error::UnknownMessage(id))? as usize;
        let node = &self.nodes[ix];
        let count = node.counts.get(encoding).unwrap_or(count);
        let before = match node.parent {
            None => Some(Count::default()),
            Some(parent) => self.nodes[parent as usize].prefix.get(encoding),
        };
        let node = &mut self.nodes[ix];
        node.counts.set(encoding, count);
        if let Some(before) = before {
            node.prefix.set(encoding, before + count);
        }
        Ok(())
    }

    /// The message with that id, with data derived from its path.
    pub fn get(&self, id: MessageId) -> Option<&Node> {
        self.index(id).map(|ix| &self.nodes[ix as usize])
    }

    /// All messages in the order in which they were appended.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.nodes.iter()
    }

    /// The message at `ordinal` on the path that ends in `head`: in O(1) without a fork between the
    /// two, otherwise in O(log n).
    pub fn node_at(&self, head: MessageId, ordinal: Ordinal) -> Option<&Node> {
        let mut node = &self.nodes[self.index(head)? as usize];
        if ordinal.0 == 0 || ordinal > node.ordinal {
            return None;
        }
        if let Some(at) = self.strands[node.strand.0 as usize].node_at(ordinal) {
            return Some(&self.nodes[at as usize]);
        }
        while node.ordinal > ordinal {
            let jump = &self.nodes[node.jump as usize];
            let next = if jump.ordinal >= ordinal {
                node.jump
            } else {
                node.parent?
            };
            node = &self.nodes[next as usize];
        }
        Some(node)
    }

    /// The messages of the path that ends in `head`, newest first; empty if there is no such
    /// message.
    pub fn path(&self, head: MessageId) -> impl Iterator<Item = &Node> {
        let before = |node: &&Node| node.parent.map(|ix| &self.nodes[ix as usize]);
        std::iter::successors(self.get(head), before)
    }

    /// The messages of a range of the path that ends in `head`, oldest first; empty if the range is
    /// empty or ends after the head. The cost depends on the length of the range.
    pub fn range(&self, head: MessageId, range: RangeInclusive<Ordinal>) -> Vec<&Node> {
        let (first, last) = range.into_inner();
        let end = (first <= last).then(|| self.node_at(head, last)).flatten();
        let path = end.into_iter().flat_map(|end| self.path(end.message.id));
        let mut nodes: Vec<&Node> = path.take_while(|node| node.ordinal >= first).collect();
        nodes.reverse();
        nodes
    }

    /// Tokens of the path up to and including `ordinal`; zero for ordinal 0, none while a message
    /// of it is not counted.
    pub fn prefix(&self, head: MessageId, ordinal: Ordinal, encoding: Encoding) -> Option<Count> {
        if ordinal.0 == 0 {
            return Some(Count::default());
        }
        self.node_at(head, ordinal)?.prefix.get(encoding)
    }

    /// Tokens of a range of a path, by one subtraction. Attachments have their largest cost.
    pub fn cost(
        &self,
        head: MessageId,
        range: RangeInclusive<Ordinal>,
        encoding: Encoding,
    ) -> Option<Count> {
        let (first, last) = range.into_inner();
        if first > last {
            return Some(Count::default());
        }
        let before = self.prefix(head, Ordinal(first.0.saturating_sub(1)), encoding)?;
        Some(self.prefix(head, last, encoding)?.minus(before))
    }

    /// The messages of the path to `head` without a prefix sum in `encoding`, oldest first: the
    /// messages to count, in the order of recording. The cost depends on their number.
    pub fn uncounted(&self, head: MessageId, encoding: Encoding) -> Vec<&Arc<Message>> {
        let mut missing = Vec::new();
        let mut next = self.get(head);
        while let Some(node) = next.filter(|n| n.prefix.get(encoding).is_none()) {
            missing.push(&node.message);
            next = node.parent.map(|ix| &self.nodes[ix as usize]);
        }
        missing.reverse();
        missing
    }

    /// The path digest at `ordinal` on the path that ends in `head`.
    pub fn path_digest(&self, head: MessageId, ordinal: Ordinal) -> Option<Digest> {
        self.node_at(head, ordinal)
            .map(|node| node.message.path_digest)
    }

    /// The start of the first unit with a tool call without a result on the path to `head`, at or
    /// after `from`.
    pub fn first_open_call(&self, head: MessageId, from: Ordinal) -> Option<Ordinal> {
        let calls = self.get(head)?.open_calls.iter();
        calls
            .filter(|call| call.message >= from)
            .map(|call| call.unit)
            .min()
    }

    /// The ids of the calls without a result, of the newest message with such calls.
    pub fn unanswered(&self, head: MessageId) -> Vec<&Arc<str>> {
        let Some(node) = self.get(head) else {
            return Vec::new();
        };
        let newest = node.open_calls.last().map(|call| call.message);
        let calls = node.open_calls.iter();
        calls
            .filter(|call| Some(call.message) == newest)
            .map(|call| &call.id)
            .collect()
    }

    /// The unanswered calls at `head` of the message at `ordinal`, by index from 0.
    pub fn open_calls_at(&self, head: MessageId, ordinal: Ordinal) -> Vec<u16> {
        let calls = self.get(head).map(|node| node.open_calls.iter());
        let own = calls.into_iter().flatten().filter(|c| c.message == ordinal);
        own.map(|call| call.index).collect()
    }

    /// Starts or moves a branch: its head becomes `head`. O(log branches), copies nothing.
    pub fn set_branch(&mut self, name: &str, head: MessageId) -> Result<(), Error> {
        if self.index(head).is_none() {
            return Err(Error::UnknownMessage(head));
        }
        self.branches.insert(name.to_owned(), head);
        Ok(())
    }

    /// The head of a branch.
    pub fn head(&self, branch: &str) -> Option<MessageId> {
        self.branches.get(branch).copied()
    }

    /// Branch names and heads, by name.
    pub fn branches(&self) -> impl Iterator<Item = (&str, MessageId)> {
        self.branches
            .iter()
            .map(|(name, head)| (name.as_str(), *head))
    }

    fn index(&self, id: MessageId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    fn jump_for(&self, parent: Option<u32>, own: u32) -> u32 {
        let Some(parent) = parent else { return own };
        let at = |ix: u32| &self.nodes[ix as usize];
        let depth = |ix: u32| at(ix).ordinal.0;
        let jump = at(parent).jump;
        let double = at(jump).jump;
        if depth(parent) - depth(jump) == depth(jump) - depth(double) {
            double
        } else {
            parent
        }
    }
}
