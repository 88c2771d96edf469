//! The drawn tree of a session's messages: forks are indented below their message.

use std::collections::HashMap;
use std::sync::Arc;

use unisono_context::{Message, MessageId, Tree};

/// Consecutive messages up to a fork, an end, or a branch's head.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BranchSegment {
    /// Number of forks above it.
    pub depth: usize,
    /// Its first message.
    pub first: Arc<Message>,
    /// Its last message.
    pub last: Arc<Message>,
    /// Number of its messages.
    pub messages: usize,
    /// The branches whose head is its last message.
    pub heads: Vec<String>,
}

/// The stretches of a tree from its roots on; `full`: each message is a separate stretch.
pub fn stretches(tree: &Tree, full: bool) -> Vec<BranchSegment> {
    let drawing = Drawing::new(tree, full);
    let mut out = Vec::new();
    // The remaining roots to draw, the next one last: a deep tree needs no deep stack.
    let roots = drawing.children.get(&None).into_iter().flatten().rev();
    let mut todo: Vec<(MessageId, usize)> = roots.map(|id| (*id, 0)).collect();
    while let Some((first, depth)) = todo.pop() {
        let (last, messages) = drawing.chain(first);
        if let (Some(first), Some(last)) = (tree.get(first), tree.get(last)) {
            let heads = drawing.heads.get(&last.message.id);
            let heads = heads.into_iter().flatten();
            out.push(BranchSegment {
                depth,
                first: first.message.clone(),
                last: last.message.clone(),
                messages,
                heads: heads.map(|name| (*name).to_owned()).collect(),
            });
        }
        let next = drawing.children.get(&Some(last));
        let next = next.map_or(&[][..], Vec::as_slice);
        let deeper = depth + usize::from(next.len() > 1);
        todo.extend(next.iter().rev().map(|id| (*id, deeper)));
    }
    out
}

struct Drawing<'t> {
    children: HashMap<Option<MessageId>, Vec<MessageId>>,
    heads: HashMap<MessageId, Vec<&'t str>>,
    full: bool,
}

impl<'t> Drawing<'t> {
    fn new(tree: &'t Tree, full: bool) -> Drawing<'t> {
        let mut children: HashMap<Option<MessageId>, Vec<MessageId>> = HashMap::new();
        for node in tree.iter() {
            children
                .entry(node.message.parent)
                .or_default()
                .push(node.message.id);
        }
        let mut heads: HashMap<MessageId, Vec<&str>> = HashMap::new();
        for (name, head) in tree.branches() {
            heads.entry(head).or_default().push(name);
        }
        Drawing {
            children,
            heads,
            full,
        }
    }

    /// From `first` to the end of its stretch, and the number of messages.
    fn chain(&self, first: MessageId) -> (MessageId, usize) {
        let (mut last, mut messages) = (first, 1);
        while !self.full && !self.heads.contains_key(&last) {
            match self.children.get(&Some(last)).map(Vec::as_slice) {
                Some([next]) => (last, messages) = (*next, messages + 1),
                _ => break,
            }
        }
        (last, messages)
    }
}
