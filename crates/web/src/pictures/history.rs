//! The size of a context at each turn, as columns.

use maud::{Markup, html};
use unisono_api::context::ContextSize;

use super::{attribute, scaled};
use crate::branch_view::BranchView;
use crate::parts::{number, when};

const HEIGHT: f64 = 120.0;

/// The sizes, the newest first as they are read; drawn from the oldest.
pub(crate) fn columns(sizes: &[ContextSize], place: &BranchView) -> Markup {
    let whole = |size: &ContextSize| size.tokens.max(size.tokens_before).unwrap_or(0);
    let most = sizes.iter().map(whole).max().unwrap_or(0);
    let turn =
        |size: &ContextSize| format!("/sessions/{}/turns/{}", place.about.session, size.turn);
    let changes = sizes.iter().any(|size| size.changed);
    html! {
        @if most > 0 {
            figure class="history" {
                (drawn(sizes, most, &turn))
                ul class="legend quiet" {
                    li { span class="swatch checkpoint" {} "checkpoints" }
                    li { span class="swatch user" {} "messages" }
                    @if sizes.iter().any(|size| size.summary_tokens.is_none()) { li { span class="swatch short" {} "after a compaction on request" } }
                    @if changes { li { span class="swatch before" {} "before a compaction" } }
                    li { "up to " (number(most)) " tokens, " (sizes.len()) " turns, the oldest on the left" }
                }
            }
            (table(sizes, &turn))
        }
    }
}

fn drawn(sizes: &[ContextSize], most: u64, turn: &dyn Fn(&ContextSize) -> String) -> Markup {
    let high = |tokens: u64| scaled(tokens as f64, most as f64) / 1000.0 * HEIGHT;
    let step = 1000.0 / sizes.len().max(1) as f64;
    let width = (step * 0.8).min(60.0);
    html! {
        svg class="columns" viewBox="0 0 1000 124" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect class="ground" x="0" y="120" width="1000" height="1" {}
            @for (at, size) in sizes.iter().rev().enumerate() {
                @let x = at as f64 * step + (step - width) / 2.0;
                @let all = high(size.tokens.unwrap_or(0));
                @let summaries = high(size.summary_tokens.unwrap_or(0).min(size.tokens.unwrap_or(0)));
                a href=(turn(size)) tabindex="-1" {
                    @if size.changed { @if let Some(before) = size.tokens_before {
                        rect class="before" x=(attribute(x)) y=(attribute(HEIGHT - high(before))) width=(attribute(width))
                            height=(attribute(high(before))) {}
                    } }
                    rect class=(if size.summary_tokens.is_some() { "user" } else { "short" }) x=(attribute(x)) y=(attribute(HEIGHT - all)) width=(attribute(width)) height=(attribute(all - summaries)) {
                        title { (number(size.tokens.unwrap_or(0))) " tokens" } }
                    rect class="checkpoint" x=(attribute(x)) y=(attribute(HEIGHT - summaries)) width=(attribute(width)) height=(attribute(summaries)) {}
                    @if size.changed { rect class="frozen" x=(attribute(x)) y="121" width=(attribute(width)) height="3" {} }
                }
            }
        }
    }
}

fn table(sizes: &[ContextSize], turn: &dyn Fn(&ContextSize) -> String) -> Markup {
    let known = |tokens: Option<u64>| tokens.map_or_else(|| "–".to_owned(), number);
    html! {
        details id="history-table" { summary { "As a table" }
            div class="scroll" tabindex="0" role="group" aria-label="Size of the context at each turn" { table {
                thead { tr { th scope="col" { "Turn (UTC)" } th scope="col" class="number" { "Tokens" }
                    th scope="col" class="number" { "Of these checkpoints" } th scope="col" class="number" { "Messages" }
                    th scope="col" { "Compaction" } th scope="col" class="number" { "Window" } } }
                tbody { @for size in sizes { tr {
                    th scope="row" { a href=(turn(size)) { (when(&size.at)) } " " span class="quiet" { (size.state) } }
                    td class="number" { (known(size.tokens)) }
                    td class="number" { (known(size.summary_tokens)) }
                    td class="number" { (known(size.messages.map(u64::from))) }
                    td { @if size.changed { (known(size.tokens_before)) " → " (known(size.tokens)) " tokens"
                        @for number in &size.checkpoints { ", checkpoint " (number) } } }
                    td class="number" { (number(size.window_tokens)) }
                } } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;

    #[test]
    fn columns_are_as_high_as_their_tokens_and_a_compaction_is_marked() {
        let size = |tokens: u64, summaries: u64, before: Option<u64>| ContextSize {
            turn: "t".to_owned(),
            state: "answered".to_owned(),
            at: "2026-03-06T10:00:00Z".to_owned(),
            encoding: "o200k".to_owned(),
            tokens: Some(tokens),
            summary_tokens: Some(summaries),
            messages: Some(3),
            window_tokens: 1_000,
            changed: before.is_some(),
            tokens_before: before,
            checkpoints: Vec::new(),
        };
        let turn = |_: &ContextSize| "/t".to_owned();
        let shown = drawn(&[size(50, 25, Some(100)), size(100, 0, None)], 100, &turn).into_string();
        shown.has_all(&["class=\"user\" x=\"220\" y=\"0\" width=\"60\" height=\"120\""]);
        shown.has_all(&["class=\"checkpoint\" x=\"720\" y=\"90\" width=\"60\" height=\"30\""]);
        shown.has_all(&["class=\"before\" x=\"720\" y=\"0\""]);
        assert_eq!(shown.matches("class=\"frozen\"").count(), 1);
    }
}
