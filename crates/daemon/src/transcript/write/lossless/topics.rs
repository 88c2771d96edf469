//! The lines about topics; what is read is in [`crate::transcript::unisono`].

use serde::Serialize;
use unisono_context::MessageId;
use unisono_context::topic::DecidedTopics;

#[derive(Serialize)]
pub(super) struct TopicsLine {
    r#type: &'static str,
    through: String,
    ends: Vec<EndLine>,
}

#[derive(Serialize)]
struct EndLine {
    opener: u32,
    by: &'static str,
}

impl TopicsLine {
    pub(super) fn of(decided: &DecidedTopics) -> TopicsLine {
        let ends = decided.ends.iter().map(|end| EndLine {
            opener: end.opener.0,
            by: end.by.name(),
        });
        TopicsLine {
            r#type: "topics",
            through: decided.through.to_string(),
            ends: ends.collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct SealedLine {
    r#type: &'static str,
    message: String,
}

impl SealedLine {
    pub(super) fn of(message: MessageId) -> SealedLine {
        SealedLine {
            r#type: "sealed",
            message: message.to_string(),
        }
    }
}
