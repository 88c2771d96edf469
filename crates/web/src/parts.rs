//! What several pages show: numbers, the bar, what a model sees.

use maud::{Markup, html};
use unisono_api::context::{Context, Entry, Summary, Tool};
use unisono_api::short;
use unisono_api::usage::Amounts;

pub(crate) use unisono_api::short::{cache, number};

/// Occupancy from which the bar warns, and from which it alarms, in percent.
const WARN: u64 = 80;
const ALARM: u64 = 95;

/// As many messages are listed at once; more are folded.
const FEW: usize = 20;

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

/// The tokens that were read from the provider's cache, in a cell of a table; the rest where one points at it.
pub(crate) fn cached(used: &Amounts) -> Markup {
    html! {
        td class="number" title=[cache(used)] {
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

/// How full the window is.
pub(crate) fn bar(context: &Context) -> Markup {
    let percent = context.occupancy_percent;
    let (class, says) = match percent {
        ALARM.. => ("alarm", ": nearly full"),
        WARN.. => ("warn", ": filling up"),
        _ => ("calm", ""),
    };
    let (used, usable) = (number(context.used_tokens), number(context.usable_tokens));
    html! {
        div class={ "bar " (class) } {
            label for="bar" { (used) " of " (usable) " tokens, " (percent) " %"
                @if context.approximate { " (estimated)" } (says) }
            progress id="bar" max="100" value=(percent.min(100)) { (percent) " %" }
            @for usable in &context.usable { p class="quiet" { "Usable: " (short::usable(usable).join(" ")) } }
        }
    }
}

/// What a model sees, by section.
pub(crate) struct Seen<'c> {
    pub(crate) system: &'c str,
    pub(crate) tools: &'c [Tool],
    pub(crate) summaries: &'c [Summary],
    pub(crate) messages: &'c [Entry],
}

impl Seen<'_> {
    pub(crate) fn sections(&self) -> Markup {
        html! {
            @if !self.system.is_empty() {
                details { summary { "System" } pre class="text" { (self.system) } }
            }
            @if !self.tools.is_empty() {
                details { summary { (many(self.tools.len() as u64, "tool")) }
                    ul { @for tool in self.tools { li { code { (tool.name) } " " (tool.description) } } } }
            }
            @for summary in self.summaries {
                details class="summary" {
                    summary {
                        span class="badge" { (many(summary.messages.into(), "message")) }
                        " Summary of #" (summary.first) "–#" (summary.last) " "
                        @if summary.tier != "conversation" { span class="tag" { (summary.tier) } }
                        @if summary.tightened { span class="tag" { "less kept than asked for" } }
                        span class="quiet" { (number(summary.tokens)) " tokens"
                            @if let Some(ratio) = short::compression(summary.tokens_before, summary.tokens) { " (" (ratio) ")" }
                            ", " (summary.model) }
                    }
                    pre class="text" { (summary.text) }
                }
            }
            @if self.messages.len() > FEW {
                details { summary { (many(self.messages.len() as u64, "message")) }
                    div class="within" { (self.entries()) } }
            } @else { (self.entries()) }
        }
    }

    fn entries(&self) -> Markup {
        html! {
            @for entry in self.messages {
                details {
                    summary {
                        "#" (entry.ordinal) " " (entry.author.as_deref().unwrap_or(&entry.role)) " "
                        @if let Some(form) = &entry.form { span class="tag" { (form) } }
                        span class="quiet" { (number(entry.tokens)) " tokens · " (short::line(&entry.text, 80)) }
                    }
                    pre class="text" { (entry.text) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unisono_api::session::Few;

    fn context(occupancy_percent: u64) -> Context {
        Context {
            session: String::new(),
            branch: "main".to_owned(),
            snapshot: String::new(),
            encoding: "o200k_base".to_owned(),
            window_tokens: 2_000,
            usable_tokens: 1_000,
            usable: Vec::new(),
            used_tokens: occupancy_percent * 10,
            occupancy_percent,
            approximate: false,
            system: String::new(),
            system_tokens: 0,
            tools: Vec::new(),
            tools_tokens: 0,
            unasked_servers: Vec::new(),
            topics: Few::of(0, Vec::new(), String::new()),
            tiers: Vec::new(),
            summaries: Vec::new(),
            messages: Vec::new(),
            exact_tokens: None,
            not_exact: None,
        }
    }

    #[test]
    fn the_bar_warns_from_80_percent_and_alarms_from_95() {
        for (percent, class, says) in [
            (0, "calm", "0 %"),
            (79, "calm", "79 %"),
            (80, "warn", "80 %: filling up"),
            (94, "warn", "94 %: filling up"),
            (95, "alarm", "95 %: nearly full"),
            (130, "alarm", "130 %: nearly full"),
        ] {
            let shown = bar(&context(percent)).into_string();
            assert!(shown.contains(&format!("class=\"bar {class}\"")), "{shown}");
            assert!(shown.contains(says), "{shown}");
            assert!(
                shown.contains(&format!("value=\"{}\"", percent.min(100))),
                "{shown}"
            );
        }
    }
}
