//! Conversations of any length, the same at every run.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::alteration::Alterations;
use unisono_context::checkpoint::{Body, Checkpoint, Checkpoints, Kind, Span, Tier, Writer};
use unisono_context::message::NewMessage;
use unisono_context::policy::Preset;
use unisono_context::snapshot::Preamble;
use unisono_context::tokens::{Count, Counts, Encoding};
use unisono_context::topic::{EndedBy, TopicEnd, Topics};
use unisono_context::view::View;
use unisono_context::{
    CheckpointId, MessageId, Ordinal, Role, SessionId, Snapshot, Timestamp, Tokens, Tree,
};
use unisono_session::machine::Import;

/// Characters of a message that is in the context: about 200 tokens.
pub const MESSAGE_CHARS: usize = 800;

/// Characters of one that a summary stands for: only their number matters.
const COVERED_CHARS: usize = 60;

/// Characters of the summary: about 2,000 tokens.
const SUMMARY_CHARS: usize = 8_000;

/// Characters of a bulk and of a topic's summary: about 300 and 200 tokens.
const BULK_CHARS: usize = 1_160;
const TOPIC_CHARS: usize = 760;

const WORDS: &[&str] = &[
    "the",
    "customer",
    "asked",
    "whether",
    "replica",
    "can",
    "be",
    "moved",
    "before",
    "Friday",
    "and",
    "Ines",
    "answered",
    "that",
    "invoice",
    "table",
    "needs",
    "another",
    "index",
    "first",
    "we",
    "decided",
    "to",
    "keep",
    "retries",
    "at",
    "three",
    "because",
    "gateway",
    "drops",
    "a",
    "request",
    "under",
    "load",
    "so",
    "migration",
    "stays",
    "behind",
    "flag",
    "until",
    "Marek",
    "has",
    "checked",
    "nightly",
    "export",
    "of",
    "orders",
    "in",
    "staging",
    "without",
    "errors",
];

/// A text of so many characters, ASCII, with some numbers and paths in it.
pub fn text(seed: u64, chars: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = || {
        // xorshift64 (G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut text = String::with_capacity(chars + 32);
    while text.len() < chars {
        let number = draw();
        match number % 16 {
            0 => text.push_str(&format!("{} ", number >> 48)),
            1 => text.push_str(&format!("src/{:x}.rs ", number >> 44)),
            2 => text.push_str("\n- "),
            _ => {
                text.push_str(WORDS[(number >> 8) as usize % WORDS.len()]);
                text.push(' ');
            }
        }
    }
    text.truncate(chars);
    text
}

/// The messages of a branch, user and assistant in turn, counted at four bytes a token.
#[derive(Debug)]
pub struct Conversation {
    /// The messages.
    pub tree: Tree,
    /// The last of them.
    pub head: MessageId,
    checkpoints: Checkpoints,
    alterations: Alterations,
    pinned: BTreeSet<MessageId>,
    topics: Topics,
}

impl Conversation {
    /// `covered` short messages that one summary stands for (none: no summary), and `active`
    /// ones of [`MESSAGE_CHARS`] after them.
    pub fn new(covered: u32, active: u32) -> Conversation {
        let lengths = (0..covered)
            .map(|_| COVERED_CHARS)
            .chain((0..active).map(|_| MESSAGE_CHARS));
        let mut conversation = Conversation::of(
            lengths
                .enumerate()
                // The active part is the same whatever stands before it.
                .map(|(n, chars)| text((n as u64).wrapping_sub(covered.into()), chars)),
        );
        if covered > 0 {
            conversation.summarise(
                Span::new(Ordinal::FIRST, Ordinal(covered)),
                Tier::Conversation,
                SUMMARY_CHARS,
            );
        }
        conversation
    }

    /// One of these texts.
    pub fn of(texts: impl IntoIterator<Item = String>) -> Conversation {
        let mut tree = Tree::default();
        let mut head = None;
        for (n, text) in texts.into_iter().enumerate() {
            let id = MessageId::from_u128(n as u128 + 1);
            let role = if n % 2 == 0 {
                Role::User
            } else {
                Role::Assistant
            };
            let count = Count::exact(text.len().div_ceil(4) as u64);
            let new = NewMessage::text(id, role, text, Timestamp(n as i64 * 1_000));
            tree.append(head, new).expect("a new message fits");
            for encoding in Encoding::ALL {
                tree.set_count(id, encoding, count).expect("it is there");
            }
            head = Some(id);
        }
        Conversation {
            tree,
            head: head.expect("a conversation has a message"),
            checkpoints: Checkpoints::default(),
            alterations: Alterations::default(),
            pinned: BTreeSet::new(),
            topics: Topics::default(),
        }
    }

    /// `bulks` and `topics` of summarised messages, all of about the same number, and a current
    /// topic of `current` messages of [`MESSAGE_CHARS`] after them.
    pub fn tiered(messages: u32, bulks: u32, topics: u32, current: u32) -> Conversation {
        let covered = messages - current;
        let lengths = (0..messages).map(|n| {
            if n < covered {
                COVERED_CHARS
            } else {
                MESSAGE_CHARS
            }
        });
        let texts = lengths.enumerate().map(|(n, chars)| text(n as u64, chars));
        let mut conversation = Conversation::of(texts);
        let parts = bulks + topics;
        let end =
            |part: u32| Ordinal((u64::from(covered) * u64::from(part) / u64::from(parts)) as u32);
        let ends: Vec<TopicEnd> = (1..=parts)
            .map(|part| TopicEnd {
                opener: end(part).next(),
                by: EndedBy::Silence,
            })
            .collect();
        conversation
            .topics
            .decided(&conversation.tree, conversation.head, &ends, None);
        for part in 0..parts {
            let span = Span::new(end(part).next(), end(part + 1));
            let (tier, chars) = if part < bulks {
                (Tier::Bulk, BULK_CHARS)
            } else {
                (Tier::Topic, TOPIC_CHARS)
            };
            conversation.summarise(span, tier, chars);
        }
        conversation
    }

    fn summarise(&mut self, span: Span, tier: Tier, chars: usize) {
        let number = self.checkpoints.next_number();
        let cutoff = span.last;
        let summary = text(u64::MAX / 3 + u64::from(number), chars);
        let count = Count::exact(chars.div_ceil(4) as u64);
        let digest = self.tree.path_digest(self.head, cutoff);
        let checkpoint = Checkpoint {
            id: CheckpointId::from_u128(u128::from(number)),
            number,
            parent: self.head,
            covers: vec![span],
            cutoff,
            cutoff_digest: digest.expect("the cutoff is on the branch"),
            supersedes: Vec::new(),
            kind: Kind::Auto,
            tier,
            preset: Preset::Checkpoint,
            writer: Writer::Deterministic,
            model: "extractive".into(),
            body: Body::Summary(summary.into()),
            original: Tokens(u64::from(span.len()) * 15),
            counts: Encoding::ALL
                .into_iter()
                .map(|e| (e, count))
                .collect::<Counts>(),
            messages_included: span.len(),
            key_facts: Vec::new(),
            cost_micros: Some(0),
            duration_ms: 0,
            degraded: false,
            at: Timestamp(0),
            coverage: None,
        };
        self.checkpoints.add(Arc::new(checkpoint));
    }

    /// What is active on it.
    pub fn view(&self) -> View<'_> {
        let (tree, checkpoints) = (&self.tree, &self.checkpoints);
        let view = View::new(
            tree,
            checkpoints,
            &self.alterations,
            &self.pinned,
            self.head,
            false,
        );
        view.expect("the head is in the tree")
            .with_topics(&self.topics)
    }

    /// Says one message more, and counts it.
    pub fn say(&mut self, chars: usize) {
        let n = self.tree.len();
        let id = MessageId::from_u128(n as u128 + 1);
        let at = Timestamp(n as i64 * 1_000);
        let new = NewMessage::text(id, Role::User, text(n as u64, chars), at);
        self.tree
            .append(Some(self.head), new)
            .expect("a new message fits");
        let count = Count::exact(chars.div_ceil(4) as u64);
        for encoding in Encoding::ALL {
            self.tree
                .set_count(id, encoding, count)
                .expect("it is there");
        }
        self.head = id;
    }

    /// Its frozen context.
    pub fn freeze(&self) -> Snapshot {
        Snapshot::freeze(&self.view(), preamble())
    }

    /// The same conversation as a session to be created.
    pub fn import(&self, session: SessionId) -> Import {
        let placed = self.tree.iter().map(|node| &node.message);
        Import {
            session: Some(session),
            system: preamble().system().clone(),
            messages: placed.map(|m| (m.parent, m.to_new())).collect(),
            checkpoints: self.checkpoints.iter().cloned().collect(),
            ..Import::default()
        }
    }
}

/// The system text of every conversation here.
pub fn preamble() -> Preamble {
    Preamble::new(
        "You help a small team to move its orders to another database.",
        Vec::new(),
    )
}
