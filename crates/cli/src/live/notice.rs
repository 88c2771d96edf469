//! Messages about a compaction and its context.

use unisono_api::turn_event::{FrozenContext, NewCheckpoint, SummaryQuota};
use unisono_context::Tokens;

use crate::show;

/// The reason of the last retry. If the next reason begins in the same way, only what is new in it is
/// shown: advice that was shown is not repeated.
#[derive(Debug, Default)]
pub(super) struct LastReason(String);

impl LastReason {
    pub(super) fn text(&mut self, reason: &str) -> String {
        let last = std::mem::replace(&mut self.0, reason.to_owned());
        let mut known = last.split("; ");
        let mut clauses = reason.split("; ");
        if known.next() != clauses.next() {
            return reason.to_owned();
        }
        let known: Vec<&str> = known.collect();
        let new = clauses.filter(|clause| !known.contains(clause));
        let text: Vec<&str> = std::iter::once("the same error again").chain(new).collect();
        text.join("; ")
    }
}

/// The pause before a summary is retried.
pub(super) fn pause(ms: i64) -> String {
    let minutes = u64::try_from(ms).unwrap_or(0).div_ceil(60_000);
    match minutes {
        0..120 => show::many(minutes, "minute"),
        _ => show::many(minutes / 60, "hour"),
    }
}

/// Says why no model writes a summary.
pub(super) fn quotes_for(quota: SummaryQuota) -> String {
    let hours = u64::try_from(quota.per_ms).unwrap_or(0).div_ceil(3_600_000);
    format!(
        "models wrote {} in the last {} hours, as many as compaction.model_checkpoints allows: \
         quotes are taken",
        show::many(quota.checkpoints.into(), "summary"),
        show::number(hours)
    )
}

/// The notice of a regenerated summary.
pub(super) fn rewritten(made: &NewCheckpoint, old: u32) -> String {
    let (number, model) = (made.number, &made.model);
    let whose = match made.writer.as_str() {
        "model" => "a model's",
        "person" => "a person's",
        _ => "of quotes",
    };
    let messages = show::many(u64::from(made.messages), "message");
    let tokens = show::number(made.tokens_after);
    let time = show::time(made.duration_ms);
    format!(
        "the summary of {messages} is now {whose}, {tokens} tokens: checkpoint {number} in place \
         of {old} ({model}, {time}){}",
        gives_less(made)
    )
}

/// The note that quotes would keep more facts than the model's summary.
fn gives_less(made: &NewCheckpoint) -> String {
    let coverage = made.coverage.filter(|coverage| coverage.is_below_quotes());
    coverage.map_or_else(String::new, |coverage| format!("; it gives {coverage}"))
}

/// The notice of a compaction: the number of messages and their replacement.
pub(super) fn compacted(made: &NewCheckpoint) -> String {
    let (number, model) = (made.number, &made.model);
    let messages = show::many(u64::from(made.messages), "message");
    let (before, after) = (
        show::number(made.tokens_before),
        show::number(made.tokens_after),
    );
    let time = show::time(made.duration_ms);
    // A model was to write it and did not.
    let model = if made.degraded {
        format!("{model} in place of a model")
    } else {
        model.clone()
    };
    let ahead = if made.prepared { " ahead" } else { "" };
    let ratio = show::compression(Tokens(made.tokens_before), Tokens(made.tokens_after));
    match made.summary {
        true => format!(
            "{messages} summarised, {before} → {after} tokens{ratio}: checkpoint {number} ({model}, {time}{ahead}){}",
            gives_less(made)
        ),
        false => format!("{messages} left the context, {before} → {after} tokens{ratio}"),
    }
}

/// The size and the occupancy of the agents' context.
pub(super) fn context(before: Option<u64>, frozen: &FrozenContext) -> String {
    let after = show::number(frozen.tokens);
    let tokens = match before.filter(|before| *before != frozen.tokens) {
        Some(before) => format!(
            "{} → {after} tokens{}",
            show::number(before),
            show::compression(Tokens(before), Tokens(frozen.tokens))
        ),
        None => format!("{after} tokens"),
    };
    let percent = frozen.tokens.saturating_mul(100) / frozen.usable_tokens.max(1);
    let parts = [
        (frozen.notes, "note"),
        (frozen.summaries, "summary"),
        (frozen.messages, "message"),
    ];
    let parts = parts.into_iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, what)| show::many(n, what)).collect();
    format!(
        "{tokens}, {percent} % of the usable tokens: {}",
        parts.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_is_repeated_is_shown_in_short() {
        let mut last = LastReason::default();
        let again = "the same error again";
        for (reason, text) in [
            ("a", "a"),
            ("a", again),
            ("b; look there; after 1 s", "b; look there; after 1 s"),
            (
                "b; look there; after 2 s",
                "the same error again; after 2 s",
            ),
            ("b; look there; after 2 s", again),
            ("a; look there", "a; look there"),
        ] {
            assert_eq!(last.text(reason), text, "{reason}");
        }
    }
}
