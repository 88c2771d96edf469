//! Steps and bounds of the tests of runs.

use std::sync::Arc;

use unisono_context::Tokens;

use super::tail::Headroom;
use super::{Reply, RunBounds, Step, ToolCall};

pub(super) const ROOM: Headroom = Headroom {
    tokens: Tokens(1_000),
    reply: Tokens(200),
    note: Tokens(20),
    is_shared: false,
};

pub(super) fn bounds(max_model_calls: u32, room: Headroom) -> RunBounds {
    RunBounds {
        max_model_calls,
        room,
    }
}

pub(super) fn model(calls: &[&str], text: &str) -> Arc<Step> {
    let call = |id: &&str| ToolCall::new(*id, "recall", "{}");
    Arc::new(Step::Model(Reply {
        text: text.into(),
        calls: calls.iter().map(call).collect(),
        ..Reply::default()
    }))
}

pub(super) fn named() -> Arc<Step> {
    Arc::new(Step::named("look", "1"))
}
