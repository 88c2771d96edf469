//! The numbers of tiers.

use serde::{Deserialize, Serialize};
use unisono_context::{Ppm, Tokens, policy};

/// What each tier may have, and how it is made smaller.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tiers {
    topic_ppm: u32,
    topics_ppm: u32,
    bulks_ppm: u32,
    topic_cap_tokens: u64,
    bulk_cap_tokens: u64,
    topics_keep: u32,
    merge: u32,
    attention_ppm: Option<u32>,
    large: Large,
    silence_ms: Option<i64>,
    over_ppm: Option<u32>,
}

/// Which messages are too large. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Large {
    OfTopic { ppm: u32 },
    Chars(u32),
}

impl From<policy::Tiers> for Tiers {
    fn from(tiers: policy::Tiers) -> Self {
        Self {
            topic_ppm: tiers.topic.0,
            topics_ppm: tiers.topics.0,
            bulks_ppm: tiers.bulks.0,
            topic_cap_tokens: tiers.topic_cap.0,
            bulk_cap_tokens: tiers.bulk_cap.0,
            topics_keep: tiers.topics_keep,
            merge: tiers.merge,
            attention_ppm: tiers.attention.map(|part| part.0),
            large: match tiers.large {
                policy::Large::OfTopic(part) => Large::OfTopic { ppm: part.0 },
                policy::Large::Chars(chars) => Large::Chars(chars),
            },
            silence_ms: tiers.ends.silence_ms,
            over_ppm: tiers.ends.over.map(|part| part.0),
        }
    }
}

impl From<Tiers> for policy::Tiers {
    fn from(tiers: Tiers) -> Self {
        Self {
            topic: Ppm(tiers.topic_ppm),
            topics: Ppm(tiers.topics_ppm),
            bulks: Ppm(tiers.bulks_ppm),
            topic_cap: Tokens(tiers.topic_cap_tokens),
            bulk_cap: Tokens(tiers.bulk_cap_tokens),
            topics_keep: tiers.topics_keep,
            merge: tiers.merge,
            attention: tiers.attention_ppm.map(Ppm),
            large: match tiers.large {
                Large::OfTopic { ppm } => policy::Large::OfTopic(Ppm(ppm)),
                Large::Chars(chars) => policy::Large::Chars(chars),
            },
            ends: policy::Ends {
                silence_ms: tiers.silence_ms,
                over: tiers.over_ppm.map(Ppm),
            },
        }
    }
}
