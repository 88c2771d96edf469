//! Strands: the tree divided into stretches of consecutive messages.
//!
//! The first message that follows another one continues its strand; each later one begins a new
//! strand. A path therefore has as many stretches as it takes turns at forks, however long it is,
//! and a position in the tree can be compared with a path without a walk.

use crate::ids::{MessageId, Ordinal};
use crate::span::Span;

use super::{Node, Tree};

/// Identifies a strand of a tree, in order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Strand(pub u32);

#[derive(Clone, Debug)]
pub(super) struct Begun {
    /// The parent strand and the message on it that it follows; none for a root.
    leaves: Option<(Strand, Ordinal)>,
    /// Its messages, by their index in the tree.
    nodes: Vec<u32>,
}

impl Begun {
    fn first(&self) -> Ordinal {
        self.leaves.map_or(Ordinal::FIRST, |(_, left)| left.next())
    }

    /// The message at `ordinal`, if it is on this strand.
    pub(super) fn node_at(&self, ordinal: Ordinal) -> Option<u32> {
        let place = ordinal.0.checked_sub(self.first().0)?;
        self.nodes.get(place as usize).copied()
    }
}

/// The strand of the message `node`, which is appended after `parent`.
pub(super) fn extend(strands: &mut Vec<Begun>, parent: Option<&Node>, node: u32) -> Strand {
    let followed = parent.and_then(|parent| strands.get_mut(parent.strand.0 as usize));
    if let (Some(parent), Some(strand)) = (parent, followed)
        && strand.node_at(parent.ordinal.next()).is_none()
    {
        strand.nodes.push(node);
        return parent.strand;
    }
    strands.push(Begun {
        leaves: parent.map(|parent| (parent.strand, parent.ordinal)),
        nodes: vec![node],
    });
    Strand(strands.len() as u32 - 1)
}

impl Tree {
    /// The stretches of the path to `head`, newest first; empty if `head` is not in the tree. The
    /// cost depends on the number of forks at which the path takes a turn.
    pub fn strands(&self, head: MessageId) -> Vec<(Strand, Span)> {
        let node = self.get(head);
        let mut next = node.map(|node| (node.strand, node.ordinal));
        let mut path = Vec::new();
        while let Some((strand, last)) = next {
            let begun = &self.strands[strand.0 as usize];
            path.push((strand, Span::new(begun.first(), last)));
            next = begun.leaves;
        }
        path
    }
}
