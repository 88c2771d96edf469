//! `/sessions/{session}/compact`: previews a compaction in numbers, and carries it out.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::compaction::{Estimate, NewCompaction, NextTurn};
use unisono_api::service::Service;
use unisono_api::session::main_branch;
use unisono_api::turn::{Settings, TurnRequest};
use unisono_api::{Code, Problem, fmt};

use crate::branch_view::BranchView;
use crate::error::PageError;
use crate::extract::{Form, Path, Query};
use crate::layout::layout;
use crate::parts::{dollars, number};
use crate::summaries::{SummaryForm, non_empty, redirect_to_turn, writer};

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CompactionForm {
    #[serde(default = "main_branch")]
    branch: String,
    /// The newest messages that stay; nothing: all from the newest user message on.
    #[serde(default)]
    keep: String,
    /// `attention`, `large`, or the number of a message whose topic is compacted; empty: all older
    /// messages.
    #[serde(default)]
    part: String,
    #[serde(flatten)]
    wanted: SummaryForm,
}

impl CompactionForm {
    fn compaction(self) -> Result<NewCompaction, PageError> {
        let (keep, part) = (self.keep.trim(), self.part.trim());
        let large_messages = part == "large";
        let attention = part == "attention";
        let topic: Option<u32> = match part {
            "" | "attention" | "large" => None,
            number => Some(read("number of a message", number)?),
        };
        let keep_messages: Option<NonZeroU32> = match keep {
            "" => None,
            _ if !part.is_empty() => {
                let detail =
                    "a part is compacted whole: leave the number of messages that stay empty";
                return Err(Problem::new(Code::InvalidRequest, detail).into());
            }
            number => Some(read("number of messages", number)?),
        };
        Ok(NewCompaction {
            instructions: non_empty(self.wanted.instructions),
            summariser: non_empty(self.wanted.summariser),
            on_failure: self.wanted.on_failure,
            keep_messages: keep_messages.map(NonZeroU32::get),
            keep_tokens: None,
            topic,
            attention,
            large_messages,
            over_tokens: None,
            settings: Settings::new(),
            branch: self.branch,
            wait: false,
        })
    }
}

fn read<T: FromStr>(what: &str, text: &str) -> Result<T, PageError> {
    let wrong = |_| {
        let detail = format!("{text:?} is not a {what}");
        Problem::new(Code::InvalidRequest, detail).into()
    };
    text.parse().map_err(wrong)
}

pub(crate) async fn confirm(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(form): Query<CompactionForm>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &form.branch).await?;
    let new = form.clone().compaction()?;
    let estimate = service.estimate(&id, &new).await?;
    let body = place.page(&html! { (numbers(&place, &estimate, &form)) });
    Ok(layout("Compact", &body))
}

fn numbers(place: &BranchView, estimate: &Estimate, written: &CompactionForm) -> Markup {
    let action = format!("/sessions/{}/compact", place.about.session);
    let cut = estimate.messages_to_shorten > 0;
    html! {
        section class="card dialog" aria-labelledby="compact" {
            h2 id="compact" { "Compact branch " (place.branch) }
            @match &estimate.step {
                Some(_) => (amounts(estimate)),
                None => p { "There is nothing to do: " (estimate.no_change_reason.as_deref().unwrap_or_default()) "." },
            }
            // One form: both buttons send what is written in it.
            form method="post" action=(action) {
                input type="hidden" name="branch" value=(place.branch);
                (range(&written.keep, &written.part))
                @if estimate.step.is_some() && !cut { (writer(&written.wanted)) }
                @if estimate.step.is_some() { button { "Compact" } }
                button class="small plain" formmethod="get" { "Show the numbers for that" }
            }
            p class="quiet" { (by_itself(&estimate.next_turn)) }
            p { a data-close href=(place.path("")) { "Leave it as it is" } }
        }
    }
}

/// The sizes before and after, and the cost.
fn amounts(estimate: &Estimate) -> Markup {
    html! {
        dl class="facts" {
            dt { "Messages" } dd { (number(estimate.total_messages.into())) }
            @if estimate.messages_to_shorten > 0 { dt { "To cut" } dd { (number(estimate.messages_to_shorten)) } }
            @else { dt { "To summarise" } dd { (number(estimate.messages_to_summarise)) } }
            dt { "Tokens now" } dd { (number(estimate.tokens_before)) }
            dt { "Tokens after" } dd { "at most " (number(estimate.estimated_tokens_after))
                @if let Some(ratio) = fmt::compression(estimate.tokens_before, estimate.estimated_tokens_after) { " (" (ratio) ")" } }
            dt { "Cost" } dd { (dollars(estimate.estimated_cost_usd)) }
        }
        @if estimate.tokens_before < SHORT {
            p class="warn" { "The conversation is short: little is saved." }
        }
        p class="quiet" { "No message is lost: the full history always has them, and “Undo” restores the context." }
    }
}

/// The fields that choose the messages to compact.
fn range(keep: &str, part: &str) -> Markup {
    html! {
        label for="part" { "Part to compact" }
        select id="part" name="part" {
            option value="" { "all that is older, into one summary" }
            @if part.parse::<u32>().is_ok() {
                option value=(part) selected { "the topic of message " (part) }
            }
            option value="attention" selected[part == "attention"] { "the middle of the current topic" }
            option value="large" selected[part == "large"] { "large messages: their middle is cut out" }
        }
        label for="keep" { "Newest messages that stay, if all that is older is compacted; empty: from the newest user message on" }
        input id="keep" name="keep" value=(keep) inputmode="numeric" pattern="[0-9]*";
    }
}

/// Describes the compaction that the next turn would start automatically.
fn by_itself(next: &NextTurn) -> Markup {
    html! {
        "By itself: preset " (next.preset) " keeps " (next.keeps)
        @if let Some(starts) = next.starts_above_tokens { ", and compacts above " (number(starts)) " tokens" }
        ". "
        @if let Some(problem) = &next.problem { "The next turn would fail: " (problem) "." }
        @else if next.steps.is_empty() { "The next turn would compact nothing." }
        @else {
            "Steps of the next turn: " (next.steps.join("; ")) ". They make "
            (number(next.tokens_before)) " tokens at most "
            (number(next.estimated_tokens_after))
            @if let Some(ratio) = fmt::compression(next.tokens_before, next.estimated_tokens_after) {
                " (" (ratio) ")"
            }
            @if next.tightened { ", less kept than requested" }
            "."
        }
    }
}

/// Conversations below this number of tokens are short: their summary may lose more than it saves.
const SHORT: u64 = 2_000;

pub(crate) async fn compact(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(form): Form<CompactionForm>,
) -> Result<Redirect, PageError> {
    let new = form.compaction()?;
    redirect_to_turn(&*service, &id, TurnRequest::Compact(new)).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_next_turn_says_if_it_keeps_less_than_requested() {
        for tightened in [false, true] {
            let next = json!({"preset": "retention", "starts_above_tokens": 3_000,
                "keeps": "the newest messages of up to 2,900 tokens", "tokens_before": 4_000,
                "estimated_tokens_after": 2_000, "estimated_compression_ratio": 2.0,
                "steps": ["summarise #1–#9"], "tightened": tightened});
            let shown = by_itself(&serde_json::from_value(next).unwrap()).into_string();
            assert_eq!(
                shown.contains("less kept than requested"),
                tightened,
                "{shown}"
            );
        }
    }
}
