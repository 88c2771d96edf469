//! Where topics end.

use serde::{Deserialize, Serialize};
use unisono_context::{Ordinal, topic};

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
