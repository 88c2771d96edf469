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

/// The form of a compaction.
#[derive(Debug, Deserialize)]
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
        // A part is compacted whole.
        let keep_messages: Option<NonZeroU32> = match keep {
            number if part.is_empty() && !number.is_empty() => {
                Some(read("number of messages", number)?)
            }
            _ => None,
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

/// A number of a form.
fn read<T: FromStr>(what: &str, text: &str) -> Result<T, PageError> {
    let wrong = |_| {
        let detail = format!("{text:?} is not the id of a {what}");
        Problem::new(Code::InvalidRequest, detail).into()
    };
    text.parse().map_err(wrong)
}

/// Previews a compaction.
pub(crate) async fn confirm(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(keeping): Query<CompactionForm>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &keeping.branch).await?;
    let (keep, part) = (keeping.keep.clone(), keeping.part.clone());
    let new = keeping.compaction()?;
    let estimate = service.estimate(&id, &new).await?;
    let body = place.page(&html! { (numbers(&place, &estimate, &keep, &part)) });
    Ok(layout("Compact", &body))
}

fn numbers(place: &BranchView, estimate: &Estimate, keep: &str, part: &str) -> Markup {
    let action = format!("/sessions/{}/compact", place.about.session);
    let cut = estimate.messages_to_shorten > 0;
    html! {
        section class="card dialog" aria-labelledby="compact" {
            h2 id="compact" { "Compact branch " (place.branch) }
            @if estimate.step.is_none() {
                p { "There is nothing to do: " (estimate.no_change_reason.as_deref().unwrap_or_default()) "." }
            } @else {
                dl class="facts" {
                    dt { "Messages" } dd { (number(estimate.total_messages.into())) }
                    @if cut { dt { "To cut" } dd { (number(estimate.messages_to_shorten)) } }
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
                form method="post" action=(action) {
                    input type="hidden" name="branch" value=(place.branch);
                    input type="hidden" name="keep" value=(keep);
                    input type="hidden" name="part" value=(part);
                    @if !cut { (writer()) }
                    button { "Compact" }
                }
            }
            form method="get" action=(action) {
                input type="hidden" name="branch" value=(place.branch);
                label for="keep" { "Newest messages that stay; empty: from the newest user message on" }
                input id="keep" name="keep" value=(keep) inputmode="numeric" pattern="[0-9]*";
                label for="part" { "Part to compact" }
                select id="part" name="part" {
                    option value="" { "all that is older, into one summary" }
                    @if part.parse::<u32>().is_ok() {
                        option value=(part) selected { "the topic of message " (part) }
                    }
                    option value="attention" selected[part == "attention"] { "the middle of the current topic" }
                    option value="large" selected[part == "large"] { "large messages: their middle is cut out" }
                }
                button class="small plain" { "Show the numbers for that" }
            }
            p class="quiet" { (by_itself(&estimate.next_turn)) }
            p { a data-close href=(place.path("")) { "Leave it as it is" } }
        }
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
            "The next turn would make " (number(next.tokens_before)) " tokens at most "
            (number(next.estimated_tokens_after))
            @if let Some(ratio) = fmt::compression(next.tokens_before, next.estimated_tokens_after) {
                " (" (ratio) ")"
            } "."
        }
    }
}

/// Conversations below this number of tokens are short: their summary may lose more than it saves.
const SHORT: u64 = 2_000;

/// Compacts a branch.
pub(crate) async fn compact(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(keeping): Form<CompactionForm>,
) -> Result<Redirect, PageError> {
    let new = keeping.compaction()?;
    redirect_to_turn(&*service, &id, TurnRequest::Compact(new)).await
}
