//! Summaries: their cards, the page of each, and compacting: numbers, then progress, then result.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::compaction::{
    Checkpoint, CheckpointDetail, Estimate, NextTurn, OnFailure, Restoring,
};
use unisono_api::service::Compactions as _;
use unisono_api::session::main_branch;
use unisono_api::turn::Turn;
use unisono_context::compaction::ContextPart;
use unisono_context::{Ordinal, TurnId};
use unisono_runtime::Handle;
use unisono_session::event::Writing;

use super::parts::{dollars, many, number, when};
use super::session::{On, Place};
use super::{Trouble, layout};
use crate::http::extract::{self, Form, Path, Query};
use crate::http::problem::ApiError;
use crate::http::{Shared, sessions};
use unisono::ask::Ask;
use unisono::history::{self, Lookup};
use unisono::service::asked;
use unisono::short;

/// The cards of all summaries, the newest first.
pub(super) fn cards(place: &Place, all: &[Checkpoint]) -> Markup {
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
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    Query(on): Query<On>,
) -> Result<Response, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let place = Place::of(&session, &on.branch).await?;
    let detail = shared.local.checkpoint(&id, &number, &on.branch).await?;
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
pub(super) fn offers(turn: &Turn, chosen: &str) -> Markup {
    let Turn {
        session,
        turn,
        branch,
        ..
    } = turn;
    let back = format!(
        "/sessions/{session}?branch={}",
        super::parts::encoded(branch)
    );
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
pub(super) struct Wanted {
    #[serde(default)]
    instructions: String,
    /// Who writes; nothing: those that are configured.
    #[serde(default)]
    summariser: String,
    #[serde(default)]
    on_failure: OnFailure,
}

impl Wanted {
    fn writing(self) -> Writing {
        let (instructions, summariser) = (said(self.instructions), said(self.summariser));
        asked::writing(instructions, summariser, self.on_failure)
    }
}

/// Asks for the same compaction, or the same summary anew, as a turn that could not do it.
pub(super) async fn again(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
    Form(wanted): Form<Wanted>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let turn: TurnId = extract::id("turn", &turn)?;
    let journal = shared.local.journal();
    let trace = history::turn(journal, &session, Lookup::Turn(turn)).await;
    let trace = trace.map_err(ApiError::from)?;
    let found = trace.as_ref().and_then(|trace| trace.turn(turn));
    let asked = found.map(|found| &found.accepted.1);
    let told = asked.and_then(|asked| asked.work.writing());
    let writing = Writing {
        instructions: told.and_then(|told| told.instructions.clone()),
        ..wanted.writing()
    };
    let ask = asked.and_then(|asked| Ask::again(asked, writing));
    let ask =
        ask.ok_or_else(|| ApiError::not_found("compaction to be asked for again in turn", turn))?;
    begun(&shared, &session, &ask).await
}

/// A change of a summary.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(default = "main_branch")]
    branch: String,
    #[serde(default)]
    text: String,
    #[serde(flatten)]
    wanted: Wanted,
}

/// Puts a text in place of a summary's.
pub(super) async fn edit(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    // A form sends line ends as CR LF.
    let text = change.text.replace("\r\n", "\n");
    let ask = asked::edited(&session, &number, text).await?;
    begun(&shared, &session, &ask.branch(change.branch)).await
}

/// Has a summary written anew.
pub(super) async fn regenerate(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let ask = asked::anew(&session, &number, change.wanted.writing()).await?;
    begun(&shared, &session, &ask.branch(change.branch)).await
}

/// Takes a summary back.
pub(super) async fn restore(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let ask = asked::taken_back(&session, &number).await?;
    begun(&shared, &session, &ask.branch(change.branch)).await
}

fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Begins a turn and goes to where it is looked at.
async fn begun(shared: &Shared, session: &Handle, ask: &Ask) -> Result<Redirect, Trouble> {
    let turn = shared.local.begin(session, ask).await?;
    let id = session.id();
    Ok(Redirect::to(&format!("/sessions/{id}/turns/{turn}")))
}

/// What is to stay.
#[derive(Debug, Deserialize)]
pub(super) struct Keeping {
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
    fn ask(self) -> Result<Ask, Trouble> {
        let part = match self.part.trim() {
            "" => None,
            "attention" => Some(ContextPart::Attention),
            "large" => Some(ContextPart::Large { over: None }),
            number => Some(ContextPart::Topic {
                message: Ordinal(extract::id("number of a message", number)?),
            }),
        };
        if let Some(part) = part {
            let ask = Ask::compaction_of(part, self.wanted.writing());
            return Ok(ask.branch(self.branch));
        }
        let keep = self.keep.trim();
        let newest = match keep {
            "" => None,
            number => Some(extract::id::<std::num::NonZeroU32>(
                "number of messages",
                number,
            )?),
        };
        let keep = asked::keep(newest.map(std::num::NonZeroU32::get), None);
        Ok(Ask::compaction(keep, self.wanted.writing()).branch(self.branch))
    }
}

/// What a compaction would do, before it is done.
pub(super) async fn confirm(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(keeping): Query<Keeping>,
) -> Result<Response, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let place = Place::of(&session, &keeping.branch).await?;
    let (keep, part) = (keeping.keep.clone(), keeping.part.clone());
    let new = keeping.ask()?.compaction_request();
    let estimate = shared.local.estimate(&id, &new).await?;
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
pub(super) async fn compact(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Form(keeping): Form<Keeping>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    begun(&shared, &session, &keeping.ask()?).await
}
