//! Topics: consecutive messages about one thing. Where they end is decided once and recorded.
//!
//! A topic ends because a message opens the next one, or because a person seals it; whatever is
//! said next then opens one. Both belong to a message, so that a branch that leaves the path
//! before it knows nothing of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::checkpoint::Span;
use crate::ids::{MessageId, Ordinal, Timestamp};
use crate::tree::{Node, Tree};

mod title;

pub use title::title;

/// What ended a topic, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndedBy {
    /// The message after it begins with a phrase that says so.
    Phrase,
    /// Nobody said anything for some time.
    Silence,
    /// It had become too large.
    Share,
    /// A person sealed it.
    Person,
}

impl EndedBy {
    /// All of them, the strongest first.
    pub const ALL: [EndedBy; 4] = [
        EndedBy::Phrase,
        EndedBy::Silence,
        EndedBy::Share,
        EndedBy::Person,
    ];

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            EndedBy::Phrase => "phrase",
            EndedBy::Silence => "silence",
            EndedBy::Share => "share",
            EndedBy::Person => "person",
        }
    }
}

/// The end of a topic, as it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicEnd {
    /// The message that opened the next topic.
    pub opener: Ordinal,
    /// What ended the one before it.
    pub by: EndedBy,
}

/// Where topics end among the messages of a path that nothing was decided about before.
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
    /// What ended it; none: it goes on.
    pub ended_by: Option<EndedBy>,
    /// When that was decided; where an import does not tell it, when its end was said. None: it
    /// goes on.
    pub sealed_at: Option<Timestamp>,
}

/// The topics of a session, over all branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// Where the topic of a message begins, for those that were decided about.
    starts: HashMap<MessageId, Ordinal>,
    /// What ended the topic before a message that opened one, and when that was decided, where that
    /// is known.
    opened: HashMap<MessageId, (EndedBy, Option<Timestamp>)>,
    /// The messages that a person let topics end with, and when.
    sealed: BTreeMap<MessageId, Option<Timestamp>>,
}

impl Topics {
    /// Records what was decided about all messages up to `through` that nothing was decided
    /// about: `ends` lie among them, ascending; `at`: when, where that is known. Costs their number.
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

    /// Lets the topic of the branch that ends in `head` end there; `at`: when, where that is known.
    pub fn seal(&mut self, head: MessageId, at: Option<Timestamp>) {
        self.sealed.insert(head, at);
    }

    /// Notes when the ends were decided that came with an import: by the messages that opened the
    /// next topic, and by those that a person let topics end with.
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

    /// When it was decided that a topic ended before that message, where that is known.
    pub fn opened_at(&self, opener: MessageId) -> Option<Timestamp> {
        self.opened.get(&opener)?.1
    }

    /// When a person let a topic end with that message, where that is known.
    pub fn sealed_at(&self, last: MessageId) -> Option<Timestamp> {
        *self.sealed.get(&last)?
    }

    /// Whether a person let a topic end with that message.
    pub fn is_sealed(&self, message: MessageId) -> bool {
        self.sealed.contains_key(&message)
    }

    /// What was decided about these messages, parents first, as [`Topics::decided`] takes it. Costs
    /// their number.
    pub fn decisions<'n>(
        &self,
        tree: &Tree,
        nodes: impl Iterator<Item = &'n Node>,
    ) -> Vec<DecidedTopics> {
        let ids = nodes.map(|node| (node.message.id, node.message.parent));
        let decided: Vec<_> = ids.filter(|(id, _)| self.is_decided(*id)).collect();
        let inner: HashSet<MessageId> = decided.iter().filter_map(|(_, parent)| *parent).collect();
        let mut told = HashSet::new();
        let last = decided.into_iter().filter(|(id, _)| !inner.contains(id));
        let all = last.map(|(through, _)| {
            let fresh = tree.path(through).take_while(|n| told.insert(n.message.id));
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

    /// Whether something was decided about the message.
    pub fn is_decided(&self, message: MessageId) -> bool {
        self.starts.contains_key(&message)
    }

    /// Whether nothing was ever decided.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.sealed.is_empty()
    }

    /// Where the topic begins that the last message of the path to `head` belongs to. Costs the
    /// number of messages nothing was decided about.
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

    /// Where the current topic of the branch begins that ends in `head`: after the head where it
    /// is sealed.
    pub fn current(&self, tree: &Tree, head: MessageId) -> Ordinal {
        match tree.get(head) {
            Some(node) if self.is_sealed(head) => node.ordinal().next(),
            _ => self.start(tree, head),
        }
    }

    /// The topics of the branch that ends in `head`, oldest first. Costs their number.
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
            opener = tree.at(head, start);
            last = tree.at(head, Ordinal(start.0.saturating_sub(1)));
        }
        topics.reverse();
        topics
    }

    /// What ended a topic, by its last message and the one that opened the next; none: it goes on.
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
        // A person's seal came before the message that shows it.
        let sealed = sealed.copied().flatten().filter(|_| by == EndedBy::Person);
        Some((by, sealed.or(decided).unwrap_or(opener.message.at)))
    }
}
