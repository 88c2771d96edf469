//! The numbers of the preset `tiered`.

use serde::Deserialize;
use unisono_context::policy::{Large, Tiers};
use unisono_context::{Ppm, Tokens};

const MINUTE_MS: i64 = 60_000;
/// The default phrases that end a topic.
const PHRASES: [&str; 3] = ["new topic", "let's move on", "moving on"];

/// Numbers that replace those of the preset.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TierNumbers {
    /// Share of the current topic.
    pub tier_topic: Option<f64>,
    /// Share of older topics.
    pub tier_topics: Option<f64>,
    /// Share of bulks.
    pub tier_bulks: Option<f64>,
    /// Maximum tokens of a topic's summary.
    pub topic_cap_tokens: Option<u64>,
    /// Maximum tokens of a bulk of as many topics as `bulk_merge`.
    pub bulk_cap_tokens: Option<u64>,
    /// Number of newest older topics that are not merged.
    pub topics_keep: Option<u32>,
    /// Number of topics, or bulks, that become one bulk.
    pub bulk_merge: Option<u32>,
    /// Part of the messages between the current topic's first and last one that is summarised.
    pub attention: Option<f64>,
    /// Part of the current topic's share above which a message is cut.
    pub large_message: Option<f64>,
    /// Characters above which a message is cut.
    pub large_message_chars: Option<u32>,
    /// Minutes without a message that end a topic.
    pub silence_minutes: Option<u32>,
    /// Part of its share above which a topic ends.
    pub topic_ends_over: Option<f64>,
    /// Phrases that end a topic.
    pub topic_phrases: Option<Vec<String>>,
}

impl TierNumbers {
    /// The three shares, if set.
    pub(super) const fn shares(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("tier_topic", self.tier_topic),
            ("tier_topics", self.tier_topics),
            ("tier_bulks", self.tier_bulks),
        ]
    }

    pub(super) fn first_set(&self) -> Option<&'static str> {
        let keys = [
            ("tier_topic", self.tier_topic.is_some()),
            ("tier_topics", self.tier_topics.is_some()),
            ("tier_bulks", self.tier_bulks.is_some()),
            ("topic_cap_tokens", self.topic_cap_tokens.is_some()),
            ("bulk_cap_tokens", self.bulk_cap_tokens.is_some()),
            ("topics_keep", self.topics_keep.is_some()),
            ("bulk_merge", self.bulk_merge.is_some()),
            ("attention", self.attention.is_some()),
            ("large_message", self.large_message.is_some()),
            ("large_message_chars", self.large_message_chars.is_some()),
            ("silence_minutes", self.silence_minutes.is_some()),
            ("topic_ends_over", self.topic_ends_over.is_some()),
            ("topic_phrases", self.topic_phrases.is_some()),
        ];
        keys.into_iter().find(|(_, set)| *set).map(|(key, _)| key)
    }
}

/// The tiers of tables, nearest first, above those of the preset.
pub(super) fn tiers(tables: &[&TierNumbers], preset: Tiers) -> Tiers {
    let share = |key: fn(&TierNumbers) -> Option<f64>| {
        let set = tables.iter().find_map(|table| key(table));
        set.and_then(Ppm::from_fraction)
    };
    // Zero disables it.
    let part = |key: fn(&TierNumbers) -> Option<f64>, preset: Option<Ppm>| {
        share(key).map_or(preset, |part| Some(part).filter(|part| part.0 > 0))
    };
    let number = |key: fn(&TierNumbers) -> Option<u64>| tables.iter().find_map(|t| key(t));
    let count = |key: fn(&TierNumbers) -> Option<u32>| tables.iter().find_map(|t| key(t));
    let silence = count(|t| t.silence_minutes).map(|minutes| i64::from(minutes) * MINUTE_MS);
    let mut tiers = preset;
    tiers.topic = share(|t| t.tier_topic).unwrap_or(tiers.topic);
    tiers.topics = share(|t| t.tier_topics).unwrap_or(tiers.topics);
    tiers.bulks = share(|t| t.tier_bulks).unwrap_or(tiers.bulks);
    tiers.topic_cap = number(|t| t.topic_cap_tokens).map_or(tiers.topic_cap, Tokens);
    tiers.bulk_cap = number(|t| t.bulk_cap_tokens).map_or(tiers.bulk_cap, Tokens);
    tiers.topics_keep = count(|t| t.topics_keep).unwrap_or(tiers.topics_keep);
    tiers.merge = count(|t| t.bulk_merge).unwrap_or(tiers.merge);
    tiers.attention = part(|t| t.attention, tiers.attention);
    tiers.large = tables
        .iter()
        .find_map(|table| large(table))
        .unwrap_or(tiers.large);
    tiers.ends.silence_ms =
        silence.map_or(tiers.ends.silence_ms, |ms| Some(ms).filter(|ms| *ms > 0));
    tiers.ends.over = part(|t| t.topic_ends_over, tiers.ends.over);
    tiers
}

fn large(table: &TierNumbers) -> Option<Large> {
    let chars = table.large_message_chars.map(Large::Chars);
    chars.or_else(|| Some(Large::OfTopic(Ppm::from_fraction(table.large_message?)?)))
}

/// The phrases of tables, nearest first.
pub(super) fn phrases(tables: &[&TierNumbers]) -> Vec<String> {
    let set = tables.iter().find_map(|table| table.topic_phrases.clone());
    set.unwrap_or_else(|| PHRASES.map(str::to_owned).to_vec())
}
