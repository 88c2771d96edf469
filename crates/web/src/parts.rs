//! What several pages show: numbers, instants, states.

use maud::{Markup, html};
use unisono_api::turn::Run;
use unisono_api::usage::Amounts;

pub(crate) use unisono_api::short::{cache, number};

/// How many there are: `1 message`, `2 messages`.
pub(crate) fn many(n: u64, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {what}{s}", number(n))
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

/// The tokens that were read from the provider's cache, in a cell of a table; the rest where one points at it.
pub(crate) fn cached(used: &Amounts) -> Markup {
    html! {
        td class="number" data-label="Cached" title=[cache(used)] {
            (number(used.cache_read_tokens))
            @if used.cache_missed { " " span class="tag" { "missed" } }
        }
    }
}

/// What something cost.
pub(crate) fn dollars(cost: Option<f64>) -> String {
    match cost {
        Some(0.0) => "free".to_owned(),
        Some(cost) => format!("${cost:.4}"),
        None => "unknown".to_owned(),
    }
}

/// The first digits of a digest; all of them where one points at it.
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

/// What a run cost. One that was sent nothing before it failed was not free: there is no cost.
pub(crate) fn cost(run: &Run) -> String {
    let used = &run.usage;
    let nothing = used.input_tokens == 0 && used.output_tokens == 0;
    let broken = matches!(run.state.as_str(), "failed" | "cancelled");
    match run.usage.cost_usd {
        Some(0.0) if nothing && broken => "nothing used".to_owned(),
        Some(0.0) if nothing => "–".to_owned(),
        cost => dollars(cost),
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

/// A text on a page, up to so many bytes; what is left out follows at `whole`.
pub(crate) fn bounded(text: &str, most: usize) -> (&str, usize) {
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
    fn a_text_is_cut_between_characters() {
        assert_eq!(bounded("abc", 3), ("abc", 0));
        assert_eq!(bounded("aé", 2), ("a", 2));
        assert_eq!(bounded("", 0), ("", 0));
    }
}
