//! Summaries: their cards, the page of each, and compacting: numbers, then progress, then result.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::compaction::{
    Again, Anew, Checkpoint, CheckpointDetail, Estimate, NewCompaction, NewText, NextTurn,
    OnFailure, Restoring, TakeBack,
};
use unisono_api::service::Service;
use unisono_api::session::main_branch;
use unisono_api::turn::{Asked, Settings, Turn};
use unisono_api::{Code, Problem, short};

use crate::extract::{Form, Path, Query};
use crate::layout::layout;
use crate::parts::{dollars, encoded, many, number, when};
use crate::place::{On, Place};
use crate::trouble::Trouble;

/// The cards of all summaries, the newest first.
pub(crate) fn cards(place: &Place, all: &[Checkpoint]) -> Markup {
    html! {
        @for checkpoint in all.iter().rev() {
            details class="summary" {
                summary { (heading(checkpoint)) }
                (text(checkpoint))
                p { a data-dialog href=(place.at(&format!("/checkpoints/{}", checkpoint.number))) {
                    @if checkpoint.active { "View, edit, write anew, restore …" } @else { "View …" }
                } }
            }
        }
    }
}

fn heading(checkpoint: &Checkpoint) -> Markup {
    html! {
        span class="badge" { (many(checkpoint.messages.into(), "message")) }
        " Checkpoint " (checkpoint.number) ": #" (checkpoint.first) "–#" (checkpoint.last) " "
        @if checkpoint.retired { span class="tag" { "taken back" } }
        @else if !checkpoint.active { span class="tag" { "not in the context" } }
        @if checkpoint.tier != "conversation" { span class="tag" { (checkpoint.tier) } }
        @if checkpoint.degraded { span class="tag" { "without a model" } }
        @if checkpoint.tightened { span class="tag" { "less kept than asked for" } }
        span class="quiet" {
            (number(checkpoint.tokens_before)) " → " (number(checkpoint.tokens_after))
            " tokens"
            @if let Some(ratio) = short::compression(checkpoint.tokens_before, checkpoint.tokens_after) { " (" (ratio) ")" }
            ", " (checkpoint.model) ", " (when(&checkpoint.at))
        }
    }
}

fn text(checkpoint: &Checkpoint) -> Markup {
    html! {
        @match &checkpoint.text {
            Some(text) => pre class="text" { (text) },
            None => p { "These messages were left out; a note stands for them." },
        }
    }
}

/// One summary, and what can be done with it.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Query(on): Query<On>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &on.branch).await?;
    let detail = service.checkpoint(&id, &number, &on.branch).await?;
    let body = place.page(&html! { (whole(&place, &detail)) });
    Ok(layout(&format!("checkpoint {number}"), &body))
}

fn whole(place: &Place, detail: &CheckpointDetail) -> Markup {
    let checkpoint = &detail.checkpoint;
    let number = checkpoint.number;
    html! {
        section class="card dialog" aria-labelledby="checkpoint" {
            h2 id="checkpoint" { "Checkpoint " (number) }
            p { (heading(checkpoint)) }
            p class="quiet" { (checkpoint.kind) ", " (checkpoint.tier) ", preset " (checkpoint.preset)
                ", took " (self::number(detail.duration_ms)) " ms, cost " (dollars(detail.cost_usd)) }
            @if let Some(coverage) = checkpoint.coverage { p class="quiet" { "It gives " (coverage.to_string()) } }
            details class="summary" open { summary { "The summary as the model sees it" }
                pre class="text" { (detail.block) } }
            @if !detail.key_facts.is_empty() {
                details { summary { (many(detail.key_facts.len() as u64, "key fact")) }
                    ul { @for fact in &detail.key_facts { li { (fact.text) " " span class="quiet" { "#" (fact.ordinal) } } } } }
            }
            p { a href=(place.at(&format!("/history?from={}", checkpoint.first))) { "The messages it stands for" } }
            @if let Some(restoring) = &detail.restore { (changes(place, checkpoint, restoring)) }
            @else { p class="quiet" { "It is not in the context of this branch, so there is nothing to change." } }
        }
    }
}

fn changes(place: &Place, checkpoint: &Checkpoint, restoring: &Restoring) -> Markup {
    let number = checkpoint.number;
    let at = |what: &str| {
        let id = &place.about.session;
        format!("/sessions/{id}/checkpoints/{number}/{what}")
    };
    html! {
        details {
            summary { "Edit" }
            form method="post" action=(at("edit")) {
                input type="hidden" name="branch" value=(place.branch);
                label for="text" { "The text in its place; the old one is kept" }
                textarea id="text" name="text" rows="12" required { "\n" (checkpoint.text.as_deref().unwrap_or("")) }
                button { "Save" }
            }
        }
        details {
            summary { "Write anew" }
            form method="post" action=(at("regenerate")) {
                input type="hidden" name="branch" value=(place.branch);
                (writer())
                button { "Write anew" }
            }
        }
        details {
            summary { "Restore" }
            p { "The context becomes what it was before this summary, with all that was said since: "
                strong { (self::number(restoring.tokens_before)) " → " (self::number(restoring.tokens_after)) }
                " of " (self::number(restoring.usable_tokens)) " usable tokens. Nothing is compacted by itself then until the context is nearly full." }
            @if restoring.fits {
                form method="post" action=(at("restore")) {
                    input type="hidden" name="branch" value=(place.branch);
                    button { "Restore " (many(checkpoint.messages.into(), "message")) }
                }
            } @else { p class="trouble" { "That does not fit. Edit the summary instead." } }
        }
    }
}

/// How a summary is to be written.
fn writer() -> Markup {
    html! {
        label for="what" { "What the summary must keep (may be left empty)" }
        input id="what" name="instructions" maxlength="500";
        (who(""))
        label for="unwritten" { "If no model writes one that can be taken" }
        select id="unwritten" name="on_failure" {
            option value="leave" { "leave everything as it is" }
            option value="retry" { "ask again" }
            option value="extractive" { "take quotes" }
        }
    }
}

fn who(chosen: &str) -> Markup {
    html! {
        label for="writer" { "Who writes it: provider/model, or extractive (may be left empty)" }
        input id="writer" name="summariser" maxlength="200" value=(chosen);
    }
}

/// What can be done where no model wrote a summary: nothing was changed yet.
pub(crate) fn offers(turn: &Turn, chosen: &str) -> Markup {
    let Turn {
        session,
        turn,
        branch,
        ..
    } = turn;
    let back = format!("/sessions/{session}?branch={}", encoded(branch));
    html! {
        form method="post" action={ "/sessions/" (session) "/turns/" (turn) "/again" } {
            p { "The conversation is as it was. The same can be asked for again:" }
            (who(chosen))
            p { button name="on_failure" value="retry" { "Try again" } " "
                button class="plain" name="on_failure" value="extractive" { "Take quotes" } " "
                a href=(back) { "Leave it as it is" } }
        }
    }
}

/// How a form wants a summary written.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    instructions: String,
    /// Who writes; nothing: those that are configured.
    #[serde(default)]
    summariser: String,
    #[serde(default)]
    on_failure: OnFailure,
}

/// Asks for the same compaction, or the same summary anew, as a turn that could not do it.
pub(crate) async fn again(
    State(service): State<Arc<dyn Service>>,
    Path((id, turn)): Path<(String, String)>,
    Form(wanted): Form<Wanted>,
) -> Result<Redirect, Trouble> {
    let new = Again {
        summariser: said(wanted.summariser),
        on_failure: wanted.on_failure,
        wait: false,
    };
    begun(&*service, &id, Asked::Again { turn, new }).await
}

/// A change of a summary.
#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    #[serde(default = "main_branch")]
    branch: String,
    #[serde(default)]
    text: String,
    #[serde(flatten)]
    wanted: Wanted,
}

/// Puts a text in place of a summary's.
pub(crate) async fn edit(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    // A form sends line ends as CR LF.
    let text = change.text.replace("\r\n", "\n");
    let new = NewText {
        text,
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    begun(&*service, &id, Asked::Edit { checkpoint, new }).await
}

/// Has a summary written anew.
pub(crate) async fn regenerate(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    let new = Anew {
        instructions: said(change.wanted.instructions),
        summariser: said(change.wanted.summariser),
        on_failure: change.wanted.on_failure,
        settings: Settings::new(),
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    begun(&*service, &id, Asked::Regenerate { checkpoint, new }).await
}

/// Takes a summary back.
pub(crate) async fn restore(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    let new = TakeBack {
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    begun(&*service, &id, Asked::Restore { checkpoint, new }).await
}

fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Begins a turn and goes to where it is looked at.
async fn begun(service: &dyn Service, session: &str, asked: Asked) -> Result<Redirect, Trouble> {
    let Turn { session, turn, .. } = service.begin(session, &asked, None).await?;
    Ok(Redirect::to(&format!("/sessions/{session}/turns/{turn}")))
}

/// What is to stay.
#[derive(Debug, Deserialize)]
pub(crate) struct Keeping {
    #[serde(default = "main_branch")]
    branch: String,
    /// The newest messages that stay; nothing: all from the newest user message on.
    #[serde(default)]
    keep: String,
    /// `attention`, `large`, or the number of a message whose topic is meant; nothing: all that is
    /// older than what stays.
    #[serde(default)]
    part: String,
    #[serde(flatten)]
    wanted: Wanted,
}

impl Keeping {
    fn compaction(self) -> Result<NewCompaction, Trouble> {
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
            instructions: said(self.wanted.instructions),
            summariser: said(self.wanted.summariser),
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
fn read<T: FromStr>(what: &str, text: &str) -> Result<T, Trouble> {
    let wrong = |_| {
        let detail = format!("{text:?} is no id of a {what}");
        Problem::new(Code::InvalidRequest, detail).into()
    };
    text.parse().map_err(wrong)
}

/// What a compaction would do, before it is done.
pub(crate) async fn confirm(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(keeping): Query<Keeping>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &keeping.branch).await?;
    let (keep, part) = (keeping.keep.clone(), keeping.part.clone());
    let new = keeping.compaction()?;
    let estimate = service.estimate(&id, &new).await?;
    let body = place.page(&html! { (numbers(&place, &estimate, &keep, &part)) });
    Ok(layout("Compact", &body))
}

fn numbers(place: &Place, estimate: &Estimate, keep: &str, part: &str) -> Markup {
    let action = format!("/sessions/{}/compact", place.about.session);
    let cut = estimate.messages_to_shorten > 0;
    html! {
        section class="card dialog" aria-labelledby="compact" {
            h2 id="compact" { "Compact branch " (place.branch) }
            @if estimate.step.is_none() {
                p { "There is nothing to do: " (estimate.nothing.as_deref().unwrap_or_default()) "." }
            } @else {
                dl class="facts" {
                    dt { "Messages" } dd { (number(estimate.total_messages.into())) }
                    @if cut { dt { "To cut" } dd { (number(estimate.messages_to_shorten)) } }
                    @else { dt { "To summarise" } dd { (number(estimate.messages_to_summarise)) } }
                    dt { "Tokens now" } dd { (number(estimate.tokens_before)) }
                    dt { "Tokens after" } dd { "at most " (number(estimate.estimated_tokens_after))
                        @if let Some(ratio) = short::compression(estimate.tokens_before, estimate.estimated_tokens_after) { " (" (ratio) ")" } }
                    dt { "Cost" } dd { (dollars(estimate.estimated_cost_usd)) }
                }
                @if estimate.tokens_before < SHORT {
                    p class="warn" { "The conversation is short: little is saved." }
                }
                p class="quiet" { "No message is lost: the full history and “Restore” always have them." }
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
                label for="part" { "What is made smaller" }
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
            p { a data-close href=(place.at("")) { "Leave it as it is" } }
        }
    }
}

/// What the next turn would compact without being asked.
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
            @if let Some(ratio) = short::compression(next.tokens_before, next.estimated_tokens_after) {
                " (" (ratio) ")"
            } "."
        }
    }
}

/// A conversation below this many tokens is short: a summary of it may lose more than it saves.
const SHORT: u64 = 2_000;

/// Compacts a branch.
pub(crate) async fn compact(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(keeping): Form<Keeping>,
) -> Result<Redirect, Trouble> {
    let new = keeping.compaction()?;
    begun(&*service, &id, Asked::Compact(new)).await
}
