//! What is said of a compaction and of the context that it leaves.

use unisono_context::Tokens;
use unisono_context::checkpoint::{Body, Checkpoint, Writer};
use unisono_context::compaction::PERSON;
use unisono_context::policy::ModelQuota;

use super::watch::Frozen;
use crate::show;

/// How long until a summary is tried again.
pub(super) fn pause(ms: i64) -> String {
    let minutes = u64::try_from(ms).unwrap_or(0).div_ceil(60_000);
    match minutes {
        0..120 => show::many(minutes, "minute"),
        _ => show::many(minutes / 60, "hour"),
    }
}

/// Says why no model writes a summary.
pub(super) fn quotes_for(quota: &ModelQuota) -> String {
    let hours = u64::try_from(quota.per_ms).unwrap_or(0).div_ceil(3_600_000);
    format!(
        "models wrote {} in the last {} hours, as many as compaction.model_checkpoints allows: \
         quotes are taken",
        show::many(quota.checkpoints.into(), "summary"),
        show::number(hours)
    )
}

/// The warning that less stands verbatim than was asked for.
pub(super) fn tightened(most: Tokens) -> String {
    format!(
        "less is kept than was asked for: otherwise the context would have more than {} tokens",
        show::tokens(most)
    )
}

/// The notice of a summary that was written anew.
pub(super) fn rewritten(checkpoint: &Checkpoint, old: u32) -> String {
    let Checkpoint { number, model, .. } = checkpoint;
    let whose = match (checkpoint.writer, &**model) {
        (Writer::Model, _) => "a model's",
        (Writer::Deterministic, PERSON) => "a person's",
        (Writer::Deterministic, _) => "of quotes",
    };
    let messages = show::many(u64::from(checkpoint.messages_included), "message");
    let tokens = show::tokens(show::block_tokens(checkpoint));
    let time = show::time(checkpoint.duration_ms);
    format!(
        "the summary of {messages} is now {whose}, {tokens} tokens: checkpoint {number} in place \
         of {old} ({model}, {time})"
    )
}

/// The notice of a compaction: how many messages, and what they became.
pub(super) fn compacted(checkpoint: &Checkpoint) -> String {
    let Checkpoint {
        number,
        original,
        messages_included,
        duration_ms,
        model,
        ..
    } = checkpoint;
    let messages = show::many(u64::from(*messages_included), "message");
    let (before, after) = (
        show::tokens(*original),
        show::tokens(show::block_tokens(checkpoint)),
    );
    let time = show::time(*duration_ms);
    // A model was to write it and did not.
    let model = if checkpoint.degraded {
        format!("{model} in place of a model")
    } else {
        model.to_string()
    };
    let ratio = show::compression(*original, show::block_tokens(checkpoint));
    match &checkpoint.body {
        Body::Summary(_) => format!(
            "{messages} summarised, {before} → {after} tokens{ratio}: checkpoint {number} ({model}, {time})"
        ),
        Body::Tombstone => format!("{messages} left the context, {before} → {after} tokens{ratio}"),
    }
}

/// What the agents are given, and how full it is.
pub(super) fn context(before: Option<Tokens>, frozen: &Frozen) -> String {
    let after = show::tokens(frozen.tokens);
    let tokens = match before.filter(|before| *before != frozen.tokens) {
        Some(before) => format!(
            "{} → {after} tokens{}",
            show::tokens(before),
            show::compression(before, frozen.tokens)
        ),
        None => format!("{after} tokens"),
    };
    let percent = frozen.tokens.0.saturating_mul(100) / frozen.usable.0.max(1);
    let parts = [
        (frozen.notes as u64, "note"),
        (frozen.summaries as u64, "summary"),
        (frozen.messages, "message"),
    ];
    let parts = parts.into_iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, what)| show::many(n, what)).collect();
    format!(
        "{tokens}, {percent} % of what is usable: {}",
        parts.join(" and ")
    )
}
