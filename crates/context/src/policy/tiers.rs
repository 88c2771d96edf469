//! The numbers of the three tiers: the current topic, older topics, and bulks of the oldest.

use crate::tokens::{Ppm, Tokens};

/// What each tier may have, and how it is made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// Share of the current topic.
    pub topic: Ppm,
    /// Share of older topics, verbatim or summarised.
    pub topics: Ppm,
    /// Share of bulks: summaries of several topics each.
    pub bulks: Ppm,
    /// The most tokens the summary of a topic may have.
    pub topic_cap: Tokens,
    /// The most tokens a bulk may have.
    pub bulk_cap: Tokens,
    /// Newest older topics that are merged only before something would have to be dropped.
    pub topics_keep: u32,
    /// Topics, or bulks, that become one bulk.
    pub merge: u32,
    /// Of the messages between the first and the last of the current topic, the part that
    /// becomes one summary; none: none of them.
    pub attention: Option<Ppm>,
    /// Which messages of the current topic are too large.
    pub large: Large,
    /// What ends a topic, beside a phrase and a person.
    pub ends: Ends,
}

/// Which messages of a topic that is over its share are cut, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Large {
    /// Those of more tokens than this part of the topic's share, largest first: head and tail
    /// stay.
    OfTopic(Ppm),
    /// Those with a text of more Unicode scalars than this, all at once: the head stays.
    Chars(u32),
}

/// What ends a topic by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Silence of more milliseconds than this; none: no silence does.
    pub silence_ms: Option<i64>,
    /// More tokens than this part of the topic's share; none: no amount does.
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

    /// What the current topic, older topics and bulks may have of an amount, each rounded down.
    pub const fn shares(&self, amount: Tokens) -> [Tokens; 3] {
        [
            self.topic.of(amount),
            self.topics.of(amount),
            self.bulks.of(amount),
        ]
    }
}
