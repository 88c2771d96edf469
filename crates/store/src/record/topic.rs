//! Where topics end.

use serde::{Deserialize, Serialize};
use unisono_context::{MessageId, Ordinal, topic};

use super::codes::codes;

codes!(
    /// What ended a topic.
    EndedBy = topic::EndedBy {
        Phrase,
        Silence,
        Share,
        Person,
    }
);

/// The end of a topic.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TopicEnd {
    opener: u32,
    by: EndedBy,
}

impl From<&topic::TopicEnd> for TopicEnd {
    fn from(end: &topic::TopicEnd) -> Self {
        Self {
            opener: end.opener.0,
            by: end.by.into(),
        }
    }
}

impl From<TopicEnd> for topic::TopicEnd {
    fn from(end: TopicEnd) -> Self {
        Self {
            opener: Ordinal(end.opener),
            by: end.by.into(),
        }
    }
}

/// What was decided about the messages of a path.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DecidedTopics {
    through: u128,
    ends: Vec<TopicEnd>,
}

impl From<&topic::DecidedTopics> for DecidedTopics {
    fn from(decided: &topic::DecidedTopics) -> Self {
        Self {
            through: decided.through.as_u128(),
            ends: decided.ends.iter().map(TopicEnd::from).collect(),
        }
    }
}

impl From<DecidedTopics> for topic::DecidedTopics {
    fn from(decided: DecidedTopics) -> Self {
        Self {
            through: MessageId::from_u128(decided.through),
            ends: decided.ends.into_iter().map(Into::into).collect(),
        }
    }
}
