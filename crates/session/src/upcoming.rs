//! Topics that later compaction steps of the turn will summarise.

use std::sync::Arc;

use unisono_context::Message;
use unisono_context::compaction::{self, Plan, UpcomingSummary};

use crate::event::Work;
use crate::state::State;
use crate::turn::Turn;

/// The maximum number of topics in one request, in addition to the topic that is due.
const TOPICS_AHEAD: usize = 7;

/// A topic that a later step of the turn will summarise.
#[derive(Clone, Debug)]
pub struct UpcomingTopic {
    /// The range and the limits of that step.
    pub due: UpcomingSummary,
    /// Its messages, oldest first.
    pub messages: Vec<Arc<Message>>,
}

impl State {
    /// The topics that the steps after this one will certainly summarise.
    pub(crate) fn upcoming_topics(&self, turn: &Turn, plan: &Plan) -> Vec<UpcomingTopic> {
        if !matches!(turn.accepted.work, Work::Answer { .. }) {
            return Vec::new();
        }
        let head = self.tree.head(&turn.accepted.branch);
        let Some((head, view)) = head.and_then(|head| Some((head, self.view(head, true)?))) else {
            return Vec::new();
        };
        let due = compaction::ahead(&view, plan, &turn.accepted.policy, TOPICS_AHEAD);
        let topics = due.into_iter().map(|due| {
            let spans = due.cover.fresh.iter();
            let nodes = spans.flat_map(|span| self.tree.range(head, span.first..=span.last));
            let messages = nodes.map(|node| node.message.clone()).collect();
            UpcomingTopic { due, messages }
        });
        topics.collect()
    }
}
