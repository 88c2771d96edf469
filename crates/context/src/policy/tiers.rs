//! The numbers of the three tiers: the current topic, older topics, and bulks of the oldest.

use crate::tokens::{Ppm, Tokens};

/// The size of each tier, and how it is made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// Share of the current topic.
    pub topic: Ppm,
    /// Share of older topics, verbatim or summarised.
    pub topics: Ppm,
    /// Share of bulks: summaries of several topics each.
    pub bulks: Ppm,
    /// Maximum tokens of the summary of a topic; for a summary of several, of each of them.
    pub topic_cap: Tokens,
    /// Maximum tokens of a bulk of [`merge`](Tiers::merge) topics; one of more has more if its tier
    /// has room.
    pub bulk_cap: Tokens,
    /// Newest older topics that are merged only before something would be dropped.
    pub topics_keep: u32,
    /// Number of topics, or bulks, that become one bulk.
    pub merge: u32,
    /// The part of the messages between the first and the last one of the current topic that
    /// becomes one summary; none: no summary.
    pub attention: Option<Ppm>,
    /// The limit above which messages of the current topic are cut.
    pub large: Large,
    /// The automatic ends of a topic, besides phrases and a person.
    pub ends: Ends,
}

/// Which messages of an oversized topic are cut, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Large {
    /// Messages with more tokens than this part of the topic's share, largest first: head and tail
    /// stay.
    OfTopic(Ppm),
    /// Messages with a text of more Unicode scalars than this, all at once: the head stays.
    Chars(u32),
}

/// The automatic ends of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// After more milliseconds than this without a message; none: never.
    pub silence_ms: Option<i64>,
    /// Above this part of the topic's share; none: at no size.
    pub over: Option<Ppm>,
}

impl Tiers {
    /// The numbers of the preset.
    pub const DEFAULT: Tiers = Tiers {
        topic: Ppm::percent(50),
        topics: Ppm::percent(30),
        bulks: Ppm::percent(20),
        topic_cap: Tokens(200),
        bulk_cap: Tokens(300),
        topics_keep: 3,
        merge: 3,
        attention: Some(Ppm::percent(65)),
        large: Large::OfTopic(Ppm::percent(25)),
        ends: Ends {
            silence_ms: Some(30 * 60_000),
            over: Some(Ppm::percent(60)),
        },
    };

    /// The shares of the current topic, older topics and bulks of an amount, each rounded down.
    pub const fn shares(&self, amount: Tokens) -> [Tokens; 3] {
        [
            self.topic.share_of(amount),
            self.topics.share_of(amount),
            self.bulks.share_of(amount),
        ]
    }
}
