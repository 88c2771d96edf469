//! Usage and budgets as bars.

use maud::{Markup, html};
use unisono_api::fmt;
use unisono_api::usage::{Amounts, Budget};

use super::{attribute, scaled};
use crate::parts::{counted, number};

const MAX_BARS: usize = 30;

pub(crate) struct UsageBar<'u> {
    pub(crate) name: String,
    pub(crate) to: Option<String>,
    pub(crate) amounts: &'u Amounts,
}

/// Draws tokens on one scale: cached input, other input, output. The table next to it has the same
/// numbers, also of the bars that are too many.
pub(crate) fn usage(all: &[UsageBar<'_>]) -> Markup {
    drawn_usage(&all[..all.len().min(MAX_BARS)], all.len())
}

/// The same of bars in the order of time: the newest ones are drawn.
pub(crate) fn usage_over_time(all: &[UsageBar<'_>]) -> Markup {
    drawn_usage(&all[all.len().saturating_sub(MAX_BARS)..], all.len())
}

fn drawn_usage(shown: &[UsageBar<'_>], all: usize) -> Markup {
    let whole = |used: &UsageBar<'_>| used.amounts.input_tokens + used.amounts.output_tokens;
    let most = shown.iter().map(whole).max().unwrap_or(0);
    html! {
        @if most > 0 {
            ol class="lanes usage" {
                @for used in shown { li {
                    span class="name" { @match &used.to { Some(to) => a href=(to) { (used.name) }, None => (used.name) } }
                    (bar(used.amounts, most))
                    span class="number quiet" { (number(whole(used))) }
                } }
            }
            ul class="legend quiet" {
                li { span class="swatch cached" {} "in, from the provider's cache" }
                li { span class="swatch fresh" {} "in" } li { span class="swatch out" {} "out" }
                @if all > shown.len() { li { (all - shown.len()) " more in the table alone" } }
            }
        }
    }
}

fn bar(amounts: &Amounts, most: u64) -> Markup {
    let cached = amounts.cache_read_tokens.min(amounts.input_tokens);
    let pieces = [
        ("cached", cached),
        ("fresh", amounts.input_tokens - cached),
        ("out", amounts.output_tokens),
    ];
    let mut at = 0.0;
    let placed = pieces.map(|(class, tokens)| {
        let (x, width) = (at, scaled(tokens as f64, most as f64));
        at += width;
        (class, tokens, x, width)
    });
    html! {
        svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for (class, tokens, x, width) in placed { @if tokens > 0 {
                rect class=(class) x=(attribute(x)) y="3" width=(attribute(width.max(2.0))) height="14" {
                    title { (counted(tokens, "token")) }
                }
            } }
        }
    }
}

/// Draws budgets: spent, reserved and remaining amounts. Those of a turn lead to its page, if `session` is
/// their session.
pub(crate) fn budgets(all: &[Budget], session: Option<&str>) -> Markup {
    html! {
        @if !all.is_empty() {
            ul class="lanes budgets" {
                @for budget in all { li {
                    span class="name" {
                        @match session.zip(budget.turn.as_deref()) {
                            Some((session, turn)) => a href={ "/sessions/" (session) "/turns/" (turn) } { (budget.name()) },
                            None => (budget.name()),
                        }
                        ", " (budget.resource)
                    }
                    (drawn(budget))
                    (left(budget))
                } }
            }
        }
    }
}

/// What is left, and what is reserved: a line breaks between the two.
fn left(budget: &Budget) -> Markup {
    let reserves = budget.reserved > 0.0;
    html! {
        span class="number quiet" {
            span { (amount(budget, budget.remaining)) " of " (amount(budget, budget.cap)) " left" @if reserves { "," } }
            @if reserves { " " span { (amount(budget, budget.reserved)) " reserved" } }
        }
    }
}

fn drawn(budget: &Budget) -> Markup {
    let spent = scaled(budget.spent, budget.cap);
    let reserved = scaled(budget.spent + budget.reserved, budget.cap) - spent;
    html! {
        svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect class="room" x="0" y="3" width="1000" height="14" {}
            rect class={ "spent" @if budget.remaining <= 0.0 { " over" } } x="0" y="3" width=(attribute(spent)) height="14" {}
            rect class="reserved" x=(attribute(spent)) y="3" width=(attribute(reserved)) height="14" {}
        }
    }
}

fn amount(budget: &Budget, amount: f64) -> String {
    match budget.resource.as_str() {
        "cost" => fmt::dollars(amount),
        "time" => format!("{amount:.0} s"),
        _ => number(amount.max(0.0) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;

    #[test]
    fn what_was_cached_is_told_apart_and_nothing_is_wider_than_the_widest() {
        let used = |input, read, output| Amounts {
            input_tokens: input,
            cache_read_tokens: read,
            output_tokens: output,
            ..Amounts::default()
        };
        let (all, half) = (used(90, 30, 10), used(40, 60, 10));
        let named = |name: &str, amounts| UsageBar {
            name: name.to_owned(),
            to: None,
            amounts,
        };
        let shown = usage(&[named("a", &all), named("<b>", &half)]).into_string();
        shown.has_all(&[
            "class=\"cached\" x=\"0\" y=\"3\" width=\"300\"",
            "class=\"fresh\" x=\"300\" y=\"3\" width=\"600\"",
            "class=\"out\" x=\"900\" y=\"3\" width=\"100\"",
            "class=\"cached\" x=\"0\" y=\"3\" width=\"400\"",
        ]);
        assert!(!shown.contains("<b>"));
        assert_eq!(usage(&[named("a", &Amounts::default())]).into_string(), "");
    }

    #[test]
    fn of_many_bars_the_first_ones_are_drawn_and_over_time_the_newest() {
        let amounts = Amounts {
            input_tokens: 1,
            ..Amounts::default()
        };
        let bars = (0..=MAX_BARS).map(|n| UsageBar {
            name: format!("bar-{n}."),
            to: None,
            amounts: &amounts,
        });
        let bars: Vec<UsageBar<'_>> = bars.collect();
        let (first, last) = ("bar-0.".to_owned(), format!("bar-{MAX_BARS}."));
        for (drawn, seen, omitted) in [
            (usage(&bars), &first, &last),
            (usage_over_time(&bars), &last, &first),
        ] {
            let drawn = drawn.into_string();
            drawn.has_all(&[seen.as_str(), "1 more in the table alone"]);
            assert!(!drawn.contains(omitted.as_str()), "{drawn}");
        }
    }

    #[test]
    fn a_budget_says_what_is_left() {
        let budget = Budget {
            level: "turn".to_owned(),
            owner: None,
            turn: Some("t".to_owned()),
            resource: "cost".to_owned(),
            cap: 2.0,
            spent: 0.5,
            reserved: 0.25,
            remaining: 1.25,
        };
        let plain = budgets(std::slice::from_ref(&budget), None).into_string();
        assert!(!plain.contains("href"), "{plain}");
        let idle = Budget {
            reserved: 0.0,
            ..budget.clone()
        };
        let idle = budgets(&[idle], None).into_string();
        idle.has_all(&["<span>$1.2500 of $2.0000 left</span></span>"]);
        let shown = budgets(&[budget], Some("s")).into_string();
        shown.has_all(&["<a href=\"/sessions/s/turns/t\">turn</a>, cost"]);
        let numbers = "<span>$1.2500 of $2.0000 left,</span> <span>$0.2500 reserved</span>";
        assert!(shown.contains(numbers), "{shown}");
        shown.has_all(&["class=\"spent\" x=\"0\" y=\"3\" width=\"250\""]);
        assert!(shown.contains("x=\"250\" y=\"3\" width=\"125\""), "{shown}");
    }
}
