//! The context for programs.

use serde_json::{Value, json};
use unisono_context::alteration::Form;
use unisono_session::State;

use unisono_daemon::context::entry_text;

use super::Shown;

pub(super) fn json(shown: &Shown, state: &State) -> Value {
    let (measured, budget) = (&shown.context.measured, &shown.context.measured.budget);
    let tools = measured.preamble.tools().iter();
    let tools = tools.map(|tool| json!({"name": tool.name, "description": tool.description}));
    let summaries = shown.context.snapshot.blocks().iter().map(|block| {
        let c = block.checkpoint();
        json!({
            "checkpoint": c.number, "first": c.first().0, "last": c.cutoff.0,
            "messages": c.messages_included, "tokens": shown.context.block_tokens(block).0,
            "model": c.model, "text": block.text(),
        })
    });
    let messages = shown.context.snapshot.entries().iter().map(|entry| {
        let message = entry.message();
        json!({
            "ordinal": message.ordinal.0,
            "role": message.role.name(),
            "author": message.author.as_ref().map(ToString::to_string),
            "tokens": shown.context.entry_tokens(state, entry).0,
            "pinned": state.pinned().contains(&message.id),
            "form": match entry.form() {
                Some(Form::Masked { .. }) => Some("masked"),
                Some(Form::Cut { .. } | Form::Truncated { .. }) => Some("cut"),
                None => None,
            },
            "text": entry_text(entry),
        })
    });
    let tiers = shown.tiers.iter();
    let tiers = tiers
        .map(|tier| json!({"name": tier.name, "tokens": tier.tokens, "share_tokens": tier.share}));
    json!({
        "session": shown.session, "branch": shown.branch,
        "snapshot": shown.context.snapshot.id().to_string(),
        "encoding": shown.context.encoding.name(),
        "window_tokens": budget.window.0, "usable_tokens": budget.usable.0,
        "used_tokens": shown.context.used.tokens.0, "occupancy_percent": shown.context.percent(),
        "approximate": shown.context.used.is_approximate(),
        "exact_tokens": shown.exact.map(|exact| exact.0),
        "system": {"tokens": measured.system.tokens.0, "text": measured.preamble.system()},
        "tools": tools.collect::<Vec<_>>(), "tools_tokens": measured.tools.tokens.0,
        "topics": shown.topics,
        "tiers": tiers.collect::<Vec<_>>(),
        "summaries": summaries.collect::<Vec<_>>(),
        "messages": messages.collect::<Vec<_>>(),
    })
}
