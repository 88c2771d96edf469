//! Topics of a branch as JSON has them.

use serde_json::{Value, json};
use unisono_context::view::View;
use unisono_daemon::context::topics::standing;
use unisono_session::State;

pub(crate) use unisono_daemon::context::topics::of_branch;

/// The topics as JSON: first, last, messages, ended_by, standing.
pub(crate) fn json(state: &State, branch: &str, view: &View<'_>) -> Vec<Value> {
    let topics = of_branch(state, branch).into_iter();
    let each = topics.map(|topic| {
        json!({
            "first": topic.span.first.0, "last": topic.span.last.0,
            "messages": topic.span.len(),
            "ended_by": topic.ended_by.map(|by| by.name()),
            "standing": standing(view, topic.span),
        })
    });
    each.collect()
}
