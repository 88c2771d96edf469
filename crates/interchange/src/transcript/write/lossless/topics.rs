//! The lines about topics; [`crate::transcript::unisono`] reads them.

use serde::Serialize;
use unisono_context::MessageId;
use unisono_context::topic::DecidedTopics;
use unisono_session::State;

use super::Time;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
}

impl TopicsLine {
    pub(super) fn new(decided: &DecidedTopics, state: &State) -> TopicsLine {
        let decided_at = |opener| {
            let node = state.tree().node_at(decided.through, opener)?;
            state.topics().opened_at(node.message.id)
        };
        let ends = decided.ends.iter().map(|end| EndLine {
            opener: end.opener.0,
            by: end.by.name(),
            at: decided_at(end.opener).map(Time::new),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
}

impl SealedLine {
    pub(super) fn new(message: MessageId, state: &State) -> SealedLine {
        SealedLine {
            r#type: "sealed",
            message: message.to_string(),
            at: state.topics().sealed_at(message).map(Time::new),
        }
    }
}
