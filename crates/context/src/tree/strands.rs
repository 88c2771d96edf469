//! Strands: the tree cut into stretches of messages that follow one another.
//!
//! The first message to follow another one goes on with its strand; each later one begins a strand
//! of its own. So a path is as many stretches as it takes turns at forks, however long it is, and a
//! place in the tree can be compared with a path without walking it.

use crate::checkpoint::Span;
use crate::ids::{MessageId, Ordinal};

use super::{Node, Tree};

/// Names a strand of a tree, in the order in which they were begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Strand(pub u32);

/// What is known of a strand.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    /// The strand it leaves and the message there that it follows; none for a root's.
    leaves: Option<(Strand, Ordinal)>,
    /// Its messages, by their index in the tree.
    nodes: Vec<u32>,
}

impl Begun {
    /// The first of its ordinals.
    fn first(&self) -> Ordinal {
        self.leaves.map_or(Ordinal::FIRST, |(_, left)| left.next())
    }

    /// The message at `ordinal`, where it is on this strand.
    pub(super) fn at(&self, ordinal: Ordinal) -> Option<u32> {
        let place = ordinal.0.checked_sub(self.first().0)?;
        self.nodes.get(place as usize).copied()
    }
}

/// The strand of the message `node` that is about to follow `parent`.
pub(super) fn extend(strands: &mut Vec<Begun>, parent: Option<&Node>, node: u32) -> Strand {
    let followed = parent.and_then(|parent| strands.get_mut(parent.strand.0 as usize));
    if let (Some(parent), Some(strand)) = (parent, followed)
        && strand.at(parent.ordinal.next()).is_none()
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
    /// The stretches that make up the path to `head`, newest first; empty where `head` is not in
    /// the tree. Costs the number of forks at which the path takes a turn.
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
