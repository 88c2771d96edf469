//! Topics of a branch as JSON has them.

use serde_json::{Value, json};
use unisono::context::topics::to_api;
use unisono_session::State;

pub(crate) use unisono::context::topics::of_branch;

/// The topics as JSON, as `/v1/sessions/{session}/topics` has them.
pub(crate) fn json(state: &State, branch: &str) -> Vec<Value> {
    let topics = to_api(state, branch).unwrap_or_default();
    topics.into_iter().map(|topic| json!(topic)).collect()
}
