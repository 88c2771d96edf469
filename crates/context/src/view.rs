//! The active content of a branch: summaries, verbatim messages, the pending input.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::alteration::{Alteration, Alterations, Form};
use crate::budget::Budget;
use crate::checkpoint::{Checkpoint, Checkpoints, Span};
use crate::ids::{MessageId, Ordinal};
use crate::message::Role;
use crate::tokens::{Count, Encoding};
use crate::topic::Topics;
use crate::tree::{MessagesCost, Node, Tree};

/// A branch for the planner and the freezer. Building a view and asking for its cost is
/// O(checkpoints · log n); nothing here walks the log.
#[derive(Clone, Debug)]
pub struct View<'a> {
    tree: &'a Tree,
    checkpoints: &'a Checkpoints,
    alterations: &'a Alterations,
    topics: Option<&'a Topics>,
    head: MessageId,
    len: Ordinal,
    active: Vec<Arc<Checkpoint>>,
    uncovered: Vec<Span>,
    pinned: BTreeSet<Ordinal>,
    pending: Option<Ordinal>,
}

/// A verbatim (or masked, or cut) message of a view.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The message with data derived from its path.
    pub node: &'a Node,
    /// How it is shortened, if it is.
    pub alteration: Option<&'a Alteration>,
}

/// The state of a message of a branch in its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageStatus {
    /// Unchanged.
    Verbatim,
    /// Masked or cut.
    Shortened(Form),
    /// Covered by a summary, or by a note that it was dropped.
    Covered(Arc<Checkpoint>),
}

impl Item<'_> {
    /// Its position.
    pub fn ordinal(&self) -> Ordinal {
        self.node.ordinal()
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.node.role()
    }

    /// How it is shortened, if it is.
    pub fn form(&self) -> Option<Form> {
        self.alteration.map(|alteration| alteration.form)
    }

    /// Its tokens in the current form under a budget, without the dialect's overhead; zero while
    /// not counted.
    pub fn count(&self, budget: &Budget) -> Count {
        self.alteration
            .and_then(|a| a.count(self.node, budget))
            .or_else(|| self.node.count(budget))
            .unwrap_or_default()
    }

    /// The same as it was counted: attachments have their largest cost.
    pub(crate) fn counted(&self, encoding: Encoding) -> Count {
        self.alteration
            .and_then(|a| a.counts.get(encoding))
            .or_else(|| self.node.counts.get(encoding))
            .unwrap_or_default()
    }
}

impl<'a> View<'a> {
    /// The view of the branch that ends in `head`. `pending` says whether the head is an input that
    /// waits for its answer; it is then never altered or covered.
    ///
    /// None if `head` is not in the tree.
    pub fn new(
        tree: &'a Tree,
        checkpoints: &'a Checkpoints,
        alterations: &'a Alterations,
        pinned: &BTreeSet<MessageId>,
        head: MessageId,
        pending: bool,
    ) -> Option<View<'a>> {
        let len = tree.get(head)?.ordinal();
        let active = checkpoints.active(tree, head);
        let on_branch = |id: &MessageId| {
            let ordinal = tree.get(*id)?.ordinal();
            (tree.node_at(head, ordinal)?.message.id == *id).then_some(ordinal)
        };
        let pinned: BTreeSet<Ordinal> = pinned.iter().filter_map(on_branch).collect();
        let uncovered = uncovered(&active, &pinned, len);
        Some(View {
            tree,
            checkpoints,
            alterations,
            topics: None,
            head,
            len,
            active,
            uncovered,
            pinned,
            pending: pending.then_some(len),
        })
    }

    /// The same view with its topics; without them the branch is one topic.
    #[must_use]
    pub fn with_topics(self, topics: &'a Topics) -> View<'a> {
        View {
            topics: Some(topics),
            ..self
        }
    }

    /// The branch's tip.
    pub fn head(&self) -> MessageId {
        self.head
    }

    /// The ordinal of the tip: the number of messages on the branch.
    pub fn len(&self) -> Ordinal {
        self.len
    }

    /// Always false: a branch has a tip.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Its tree.
    pub fn tree(&self) -> &'a Tree {
        self.tree
    }

    /// All checkpoints of the session.
    pub fn checkpoints(&self) -> &'a Checkpoints {
        self.checkpoints
    }

    /// The active checkpoints, oldest first.
    pub fn active(&self) -> &[Arc<Checkpoint>] {
        &self.active
    }

    /// The verbatim, masked or cut ranges, ascending: ranges that no active checkpoint covers, and
    /// pinned messages. A pin excludes its message from a checkpoint's coverage.
    pub fn uncovered(&self) -> &[Span] {
        &self.uncovered
    }

    /// Whether the message is verbatim, masked or cut.
    pub(crate) fn is_uncovered(&self, ordinal: Ordinal) -> bool {
        let older = self.uncovered.partition_point(|span| span.last < ordinal);
        let span = self.uncovered.get(older);
        span.is_some_and(|span| span.first <= ordinal)
    }

    /// The input that waits for its answer.
    pub fn pending(&self) -> Option<Ordinal> {
        self.pending
    }

    /// Whether the message always stays verbatim.
    pub fn is_pinned(&self, ordinal: Ordinal) -> bool {
        self.pinned.contains(&ordinal)
    }

    /// The messages that always stay verbatim, ascending.
    pub fn pinned(&self) -> impl Iterator<Item = Ordinal> {
        self.pinned.iter().copied()
    }

    /// The start of the current topic: after the tip if that topic is sealed.
    pub fn current_topic(&self) -> Ordinal {
        let topics = self.topics.map(|t| t.current(self.tree, self.head));
        topics.unwrap_or(Ordinal::FIRST)
    }

    /// The start of the topic of a message.
    pub fn topic_of(&self, ordinal: Ordinal) -> Ordinal {
        let topics = self.topics.zip(self.tree.node_at(self.head, ordinal));
        topics.map_or(Ordinal::FIRST, |(topics, node)| {
            topics.start(self.tree, node.message.id)
        })
    }

    /// The uncovered messages in order. The cost depends on their number.
    pub fn items(&self) -> Vec<Item<'a>> {
        let ranges = self.uncovered.iter();
        let nodes = ranges.flat_map(|span| self.tree.range(self.head, span.first..=span.last));
        nodes
            .map(|node| Item {
                node,
                alteration: self.alteration(node),
            })
            .collect()
    }

    /// The state of the message at that position in the context; none beyond the tip.
    pub fn status(&self, ordinal: Ordinal) -> Option<MessageStatus> {
        let node = self.tree.node_at(self.head, ordinal)?;
        let covers = |c: &&Arc<Checkpoint>| c.covers.iter().any(|span| span.contains(ordinal));
        let covering = self.active.iter().find(covers);
        if let Some(checkpoint) = covering.filter(|_| !self.is_pinned(ordinal)) {
            return Some(MessageStatus::Covered(checkpoint.clone()));
        }
        let alteration = self.alteration(node);
        Some(alteration.map_or(MessageStatus::Verbatim, |a| {
            MessageStatus::Shortened(a.form)
        }))
    }

    /// How the message is shortened on this branch, if it is. A pinned message is not.
    fn alteration(&self, node: &Node) -> Option<&'a Alteration> {
        let pinned = self.is_pinned(node.ordinal());
        self.alterations.of_node(node).filter(|_| !pinned)
    }

    /// Effective tokens under a budget: active checkpoints, uncovered messages and the pending
    /// input, each with the dialect's overhead. None while a message is not counted.
    pub fn effective(&self, budget: &Budget) -> Option<Count> {
        let blocks = self.active.iter().map(|c| block(c, budget));
        Some(blocks.sum::<Option<Count>>()? + self.verbatim_from(Ordinal::FIRST, budget)?)
    }

    /// Tokens of the uncovered messages from `first` on under a budget, with the dialect's
    /// overhead. None while a message is not counted.
    pub(crate) fn verbatim_from(&self, first: Ordinal, budget: &Budget) -> Option<Count> {
        let mut cost = MessagesCost::default();
        let mut messages = 0;
        let older = self.uncovered.partition_point(|span| span.last < first);
        for span in &self.uncovered[older..] {
            let from = span.first.max(first);
            let range = from..=span.last;
            cost += self.tree.messages_cost(self.head, range, budget.encoding)?;
            messages += u64::from(Span::new(from, span.last).len());
            for alteration in self.alterations.range(from, span.last) {
                let node = self.tree.node_at(self.head, alteration.ordinal)?;
                if node.message.id == alteration.message && !self.is_pinned(node.ordinal()) {
                    alteration.shorten(&mut cost, node, budget.encoding)?;
                }
            }
        }
        Some(cost.under(budget) + Count::exact(budget.per_message.times(messages).0))
    }
}

/// The ranges of `1..=len` that no checkpoint covers, and pinned messages.
fn uncovered(active: &[Arc<Checkpoint>], pinned: &BTreeSet<Ordinal>, len: Ordinal) -> Vec<Span> {
    let mut gaps = complement(active, len);
    gaps.extend(pinned.iter().map(|at| Span::new(*at, *at)));
    Span::merged(gaps)
}

/// Tokens of a context block, the dialect's overhead included; none while it is not counted.
pub(crate) fn block(checkpoint: &Checkpoint, budget: &Budget) -> Option<Count> {
    let count = checkpoint.counts.get(budget.encoding)?;
    Some(count + Count::exact(budget.per_message.0))
}

/// The ranges of `1..=len` that no checkpoint covers.
pub(crate) fn complement(active: &[Arc<Checkpoint>], len: Ordinal) -> Vec<Span> {
    let mut covered: Vec<Span> = active
        .iter()
        .flat_map(|c| c.covers.iter().copied())
        .collect();
    covered.sort_unstable();
    let mut gaps = Vec::new();
    let mut next = Ordinal::FIRST;
    for span in covered {
        if next < span.first {
            gaps.push(Span::new(next, Ordinal(span.first.0 - 1)));
        }
        next = next.max(span.last.next());
    }
    if next <= len {
        gaps.push(Span::new(next, len));
    }
    gaps
}
