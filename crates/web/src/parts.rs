//! Common elements of several pages: numbers, instants, states.

use maud::{Markup, html};
use unisono_api::turn::{Run, Turn};
use unisono_api::usage::Amounts;

use unisono_api::fmt;
pub(crate) use unisono_api::fmt::{cache, number};

/// A count with its noun: `1 message`, `2 messages`.
pub(crate) fn counted(n: u64, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {what}{s}", number(n))
}

/// The name of a person, an agent or a file, on one line and cut if it is long.
pub(crate) fn name(text: &str) -> String {
    fmt::line(text, 80)
}

/// An instant, to the minute.
pub(crate) fn when(instant: &str) -> Markup {
    let shown = instant.get(..16).unwrap_or(instant).replace('T', " ");
    html! { time datetime=(instant) { (shown) } }
}

/// The same after another text; nothing for an unknown instant.
pub(crate) fn when_known(before: &str, instant: Option<&str>) -> Markup {
    html! { @if let Some(instant) = instant { (before) (when(instant)) } }
}

/// A table cell with the tokens from the provider's cache; the other counts are in its tooltip.
pub(crate) fn cached_tokens(used: &Amounts) -> Markup {
    html! {
        td class="number" data-label="Cached" title=[cache(used)] {
            (number(used.cache_read_tokens))
            @if used.cache_missed { " " span class="tag" { "missed" } }
        }
    }
}

pub(crate) fn dollars(cost: Option<f64>) -> String {
    match cost {
        Some(0.0) => "free".to_owned(),
        Some(cost) => fmt::dollars(cost),
        None => "unknown".to_owned(),
    }
}

/// The first digits of a digest; its tooltip has all of them.
pub(crate) fn digest(text: &str) -> Markup {
    html! { code title=(text) { (text.get(..12).unwrap_or(text)) } }
}

/// An address with a part that a person wrote.
pub(crate) fn encoded(text: &str) -> String {
    let each = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => (byte as char).to_string(),
        _ => format!("%{byte:02X}"),
    });
    each.collect()
}

/// The cost of a run. A run that failed before its first request has no cost, which differs from a
/// cost of zero. Of a cancelled one it is unknown: the budgets count interrupted calls with their worst
/// case, which the page of the run says.
pub(crate) fn cost(run: &Run) -> String {
    match (run.usage.cost_usd, run.state.as_str()) {
        (Some(0.0), "failed") if is_unused(run) => NOTHING.to_owned(),
        (Some(0.0), "cancelled") if is_unused(run) => dollars(None),
        (Some(0.0), _) if is_unused(run) => "–".to_owned(),
        (cost, _) => dollars(cost),
    }
}

pub(crate) fn turn_cost(turn: &Turn) -> String {
    let is_unused = turn.runs.iter().all(is_unused);
    match turn.state.as_str() {
        "failed" if is_unused => NOTHING.to_owned(),
        "cancelled" if is_unused => COST_UNKNOWN.to_owned(),
        _ if turn.cost_usd.is_none() => COST_UNKNOWN.to_owned(),
        _ => dollars(turn.cost_usd),
    }
}

/// The cost without any request.
const NOTHING: &str = "nothing used";
/// An unknown cost among other facts of a turn.
const COST_UNKNOWN: &str = "cost unknown";

fn is_unused(run: &Run) -> bool {
    run.usage.input_tokens == 0 && run.usage.output_tokens == 0
}

/// The duration of a run, and apart from it the time that it waited for people.
pub(crate) fn spent_time(run: &Run, duration_ms: u64) -> Markup {
    let waited = run.waited_ms.unwrap_or(0);
    html! {
        (length(duration_ms.saturating_sub(waited)))
        @if waited > 0 { " " span class="quiet" { "and " (length(waited)) " waiting for people" } }
    }
}

/// A length of time, as short as it can be read.
pub(crate) fn length(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => format!("{} min {} s", number(ms / 60_000), ms % 60_000 / 1_000),
    }
}

/// The beginning of a text within a limit of bytes, and the number of omitted bytes.
pub(crate) fn truncate(text: &str, most: usize) -> (&str, usize) {
    if text.len() <= most {
        return (text, 0);
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (&text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (ms, shown) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_500, "1.5 s"),
            (61_000, "1 min 1 s"),
        ] {
            assert_eq!(length(ms), shown);
        }
    }

    #[test]
    fn a_turn_without_usage_is_not_free_if_it_is_broken_and_waiting_is_not_working() {
        let turn = |state: &str, input: u64, cost: Option<f64>| -> Turn {
            let used = serde_json::json!({
                "input_tokens": input, "output_tokens": 0, "cache_expected_tokens": 0,
                "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": cost,
            });
            let run = serde_json::json!({
                "run": "r", "agent": "a", "model": null, "role": "lead", "stage": null, "parent": null,
                "task": null, "state": state, "attempt": 1, "snapshot": null, "prefix": "", "text": null,
                "error": null, "usage": used, "opened_at": "", "ended_at": null, "duration_ms": null,
                "waited_ms": 410_000,
            });
            serde_json::from_value(serde_json::json!({
                "session": "s", "turn": "t", "branch": "main", "task": "x", "state": state, "error": null,
                "answer": null, "snapshot": null, "snapshot_agents": 1, "checkpoints": [], "runs": [run],
                "cost_usd": cost, "accepted_at": "", "ended_at": null,
            }))
            .unwrap()
        };
        for (state, input, cost, shown) in [
            ("cancelled", 0, Some(0.0), "cost unknown"),
            ("failed", 0, Some(0.0), "nothing used"),
            ("answered", 0, Some(0.0), "free"),
            ("failed", 7, Some(0.0), "free"),
            ("failed", 7, None, "cost unknown"),
        ] {
            assert_eq!(
                turn_cost(&turn(state, input, cost)),
                shown,
                "{state} {input}"
            );
        }
        let shown = spent_time(&turn("done", 0, None).runs[0], 420_000).into_string();
        assert!(
            shown.starts_with("10.0 s ") && shown.contains("and 6 min 50 s waiting for people"),
            "{shown}"
        );
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(truncate("abc", 3), ("abc", 0));
        assert_eq!(truncate("aé", 2), ("a", 2));
        assert_eq!(truncate("", 0), ("", 0));
    }
}
