//! The context for programs.

use serde_json::{Value, json};

use super::Shown;

pub(super) fn json(shown: &Shown) -> Value {
    let context = &shown.context;
    json!({
        "session": context.session, "branch": context.branch,
        "snapshot": context.snapshot,
        "encoding": context.encoding,
        "window_tokens": context.window_tokens, "usable_tokens": context.usable_tokens,
        "usable": context.usable,
        "used_tokens": context.used_tokens, "occupancy_percent": context.occupancy_percent,
        "approximate": context.approximate,
        "exact_tokens": shown.context.exact_tokens,
        "system": {"tokens": context.system_tokens, "text": context.system},
        "tools": context.tools, "tools_tokens": context.tools_tokens,
        "topics": shown.topics,
        "tiers": context.tiers,
        "summaries": context.summaries,
        "messages": context.messages,
    })
}
