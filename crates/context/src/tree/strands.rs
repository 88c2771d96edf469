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
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// The strand it leaves and the message there that it follows; none for a root's.
    leaves: Option<(Strand, Ordinal)>,
    /// Its newest message.
    last: Ordinal,
}

/// The strand of a message that is about to follow `parent`.
pub(super) fn extend(strands: &mut Vec<Begun>, parent: Option<&Node>) -> Strand {
    let ordinal = parent.map_or(Ordinal::FIRST, |parent| parent.ordinal.next());
    let followed = parent.and_then(|parent| strands.get_mut(parent.strand.0 as usize));
    if let (Some(parent), Some(strand)) = (parent, followed)
        && strand.last == parent.ordinal
    {
        strand.last = ordinal;
        return parent.strand;
    }
    strands.push(Begun {
        leaves: parent.map(|parent| (parent.strand, parent.ordinal)),
        last: ordinal,
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
            next = self.strands[strand.0 as usize].leaves;
            let first = next.map_or(Ordinal::FIRST, |(_, left)| left.next());
            path.push((strand, Span::new(first, last)));
        }
        path
    }
}
