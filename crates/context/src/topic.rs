//! Topics: consecutive messages about one subject. Their ends are decided once and recorded.
//!
//! A topic ends because a message opens the next one, or because a person seals it; the next
//! message then opens a new topic. Both kinds of ends belong to a message, so they do not exist on
//! a branch that leaves the path before that message.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::checkpoint::Span;
use crate::ids::{MessageId, Ordinal, Timestamp};
use crate::tree::{Node, Tree};

mod title;

pub use title::title;

/// The reason of a topic's end, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndedBy {
    /// The message after it begins with a configured phrase.
    Phrase,
    /// No message followed for some time.
    Silence,
    /// It had become too large.
    Share,
    /// A person sealed it.
    Person,
}

crate::names!(EndedBy.name {
    Phrase = "phrase",
    Silence = "silence",
    Share = "share",
    Person = "person",
});

/// A decided end of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicEnd {
    /// The message that opened the next topic.
    pub opener: Ordinal,
    /// The reason of the previous topic's end.
    pub by: EndedBy,
}

/// The topic ends among messages of a path that were not decided before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedTopics {
    /// The last of these messages.
    pub through: MessageId,
    /// The ends, oldest first.
    pub ends: Vec<TopicEnd>,
}

/// A topic of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its messages.
    pub span: Span,
    /// The reason of its end; none: it has not ended.
    pub ended_by: Option<EndedBy>,
    /// When that was decided; if an import does not have the time, the time of its last message.
    /// None: it has not ended.
    pub sealed_at: Option<Timestamp>,
}

/// The topics of a session, over all branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// The start of the topic of each decided message.
    starts: HashMap<MessageId, Ordinal>,
    /// The reason of the end of the topic before a message that opened one, and the time of the
    /// decision, if known.
    opened: HashMap<MessageId, (EndedBy, Option<Timestamp>)>,
    /// The messages with which a person sealed topics, and the times.
    sealed: BTreeMap<MessageId, Option<Timestamp>>,
}

impl Topics {
    /// Records the decisions about all undecided messages up to `through`: `ends` are among them,
    /// ascending; `at`: the time, if known. The cost depends on their number.
    pub fn decided(
        &mut self,
        tree: &Tree,
        through: MessageId,
        ends: &[TopicEnd],
        at: Option<Timestamp>,
    ) {
        let mut fresh: Vec<(MessageId, Ordinal)> = Vec::new();
        let mut start = Ordinal::FIRST;
        for node in tree.path(through) {
            if let Some(known) = self.starts.get(&node.message.id) {
                start = *known;
                break;
            }
            fresh.push((node.message.id, node.ordinal()));
        }
        let mut ends = ends.iter().peekable();
        for (id, ordinal) in fresh.into_iter().rev() {
            if let Some(end) = ends.next_if(|end| end.opener == ordinal) {
                start = ordinal;
                self.opened.insert(id, (end.by, at));
            }
            self.starts.insert(id, start);
        }
    }

    /// Seals the topic of the branch that ends in `head` there; `at`: the time, if known.
    pub fn seal(&mut self, head: MessageId, at: Option<Timestamp>) {
        self.sealed.insert(head, at);
    }

    /// Records the times of imported topic ends: by the messages that opened the next topic, and by
    /// the messages with which a person sealed topics.
    pub fn note_times(
        &mut self,
        opened: &[(MessageId, Timestamp)],
        sealed: &[(MessageId, Timestamp)],
    ) {
        for (opener, at) in opened {
            if let Some((_, known)) = self.opened.get_mut(opener) {
                *known = Some(*at);
            }
        }
        for (last, at) in sealed {
            if let Some(known) = self.sealed.get_mut(last) {
                *known = Some(*at);
            }
        }
    }

    /// When it was decided that a topic ended before that message, if known.
    pub fn opened_at(&self, opener: MessageId) -> Option<Timestamp> {
        self.opened.get(&opener)?.1
    }

    /// When a person sealed a topic with that message, if known.
    pub fn sealed_at(&self, last: MessageId) -> Option<Timestamp> {
        *self.sealed.get(&last)?
    }

    /// Whether a person sealed a topic with that message.
    pub fn is_sealed(&self, message: MessageId) -> bool {
        self.sealed.contains_key(&message)
    }

    /// The decisions about these messages, parents first, as [`Topics::decided`] takes them. The
    /// cost depends on their number.
    pub fn decisions<'n>(
        &self,
        tree: &Tree,
        nodes: impl Iterator<Item = &'n Node>,
    ) -> Vec<DecidedTopics> {
        let ids = nodes.map(|node| (node.message.id, node.message.parent));
        let decided: Vec<_> = ids.filter(|(id, _)| self.is_decided(*id)).collect();
        let inner: HashSet<MessageId> = decided.iter().filter_map(|(_, parent)| *parent).collect();
        let mut visited = HashSet::new();
        let last = decided.into_iter().filter(|(id, _)| !inner.contains(id));
        let all = last.map(|(through, _)| {
            let fresh = tree
                .path(through)
                .take_while(|n| visited.insert(n.message.id));
            let ends = fresh.filter_map(|node| {
                let (by, _) = *self.opened.get(&node.message.id)?;
                let opener = node.ordinal();
                Some(TopicEnd { opener, by })
            });
            let mut ends: Vec<TopicEnd> = ends.collect();
            ends.reverse();
            DecidedTopics { through, ends }
        });
        all.collect()
    }

    /// Whether the message is decided.
    pub fn is_decided(&self, message: MessageId) -> bool {
        self.starts.contains_key(&message)
    }

    /// Whether there are no decisions.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.sealed.is_empty()
    }

    /// The start of the topic of the last message of the path to `head`. The cost depends on the
    /// number of undecided messages.
    pub fn start(&self, tree: &Tree, head: MessageId) -> Ordinal {
        if self.is_empty() {
            return Ordinal::FIRST;
        }
        let mut opener = Ordinal::FIRST;
        for node in tree.path(head) {
            let id = node.message.id;
            if id != head && self.is_sealed(id) {
                return opener;
            }
            if let Some(start) = self.starts.get(&id) {
                return *start;
            }
            opener = node.ordinal();
        }
        Ordinal::FIRST
    }

    /// The start of the current topic of the branch that ends in `head`: after the head if it is
    /// sealed.
    pub fn current(&self, tree: &Tree, head: MessageId) -> Ordinal {
        match tree.get(head) {
            Some(node) if self.is_sealed(head) => node.ordinal().next(),
            _ => self.start(tree, head),
        }
    }

    /// The topics of the branch that ends in `head`, oldest first. The cost depends on their
    /// number.
    pub fn of_branch(&self, tree: &Tree, head: MessageId) -> Vec<Topic> {
        let mut topics = Vec::new();
        let mut opener: Option<&Node> = None;
        let mut last = tree.get(head);
        while let Some(node) = last {
            let start = self.start(tree, node.message.id);
            let (ended_by, sealed_at) = self.end(node, opener).unzip();
            topics.push(Topic {
                span: Span::new(start, node.ordinal()),
                ended_by,
                sealed_at,
            });
            opener = tree.node_at(head, start);
            last = tree.node_at(head, Ordinal(start.0.saturating_sub(1)));
        }
        topics.reverse();
        topics
    }

    /// The reason of a topic's end, by its last message and the one that opened the next topic;
    /// none: it has not ended.
    fn end(&self, last: &Node, opener: Option<&Node>) -> Option<(EndedBy, Timestamp)> {
        let sealed = self.sealed.get(&last.message.id);
        let Some(opener) = opener else {
            let at = sealed?.unwrap_or(last.message.at);
            return Some((EndedBy::Person, at));
        };
        let (by, decided) = match self.opened.get(&opener.message.id) {
            Some((by, at)) => (*by, *at),
            None => (EndedBy::Person, None),
        };
        // A person's seal precedes the message that shows it.
        let sealed = sealed.copied().flatten().filter(|_| by == EndedBy::Person);
        Some((by, sealed.or(decided).unwrap_or(opener.message.at)))
    }
}
