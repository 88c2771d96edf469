//! Checkpoints: their cards, the page of each, and what is done with one.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::compaction::{
    Checkpoint, CheckpointDetail, EditSummary, OnFailure, RegenerateSummary, RetryCompaction,
    RevertCheckpoint, RevertEffect,
};
use unisono_api::service::Service;
use unisono_api::session::{BranchPageQuery, main_branch};
use unisono_api::short;
use unisono_api::turn::{Settings, Turn, TurnRequest};

use crate::extract::{Form, Path, Query};
use crate::layout::layout;
use crate::message;
use crate::parts::{dollars, encoded, many, number, when};
use crate::place::{On, Place};
use crate::trouble::Trouble;

/// The cards of checkpoints, in their order.
pub(crate) fn cards(place: &Place, all: &[Checkpoint]) -> Markup {
    let at = |checkpoint: &Checkpoint, rest: &str| {
        place.at(&format!("/checkpoints/{}{rest}", checkpoint.number))
    };
    html! {
        @for checkpoint in all {
            div class="made" id={ "checkpoint-" (checkpoint.number) } {
                details class="summary" id={ "summary-" (checkpoint.number) } {
                    summary { (heading(checkpoint)) }
                    (text(checkpoint, place))
                }
                p class="links" {
                    a data-dialog href=(at(checkpoint, "")) { @if checkpoint.active { "View, edit …" } @else { "View …" } }
                    a href=(at(checkpoint, "/compare")) { "Before and after" }
                    @if checkpoint.active { a data-dialog href=(at(checkpoint, "/revert")) { "Undo …" } }
                }
            }
        }
    }
}

/// How many checkpoints are listed at a time.
const LISTED: Option<NonZeroUsize> = NonZeroUsize::new(50);

/// Which part of the checkpoints.
#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    #[serde(default = "main_branch")]
    branch: String,
    cursor: Option<String>,
}

/// The checkpoints of a branch, a part at a time.
pub(crate) async fn list(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(part): Query<Part>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &part.branch).await?;
    let query = BranchPageQuery {
        branch: part.branch.clone(),
        cursor: part.cursor,
        limit: LISTED,
    };
    let found = service.checkpoints(&id, &query).await?;
    let body = place.page(&html! {
        section {
            h2 { "Checkpoints" }
            @if found.items.is_empty() { p class="quiet" { "Nothing is summarised yet." } }
            (cards(&place, &found.items))
            @if let Some(next) = &found.next {
                p { a href={ (place.at("/checkpoints")) "&cursor=" (encoded(next)) } { "Older checkpoints" } }
            }
        }
    });
    Ok(layout("Checkpoints", &body))
}

/// What undoing a compaction would do, before it is done.
pub(crate) async fn undo(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Query(on): Query<On>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &on.branch).await?;
    let detail = service.checkpoint(&id, &number, &on.branch).await?;
    let checkpoint = &detail.checkpoint;
    let body = place.page(&html! {
        section class="card dialog" aria-labelledby="undo" {
            h2 id="undo" { "Undo: restore the messages of checkpoint " (checkpoint.number) }
            p { (heading(checkpoint)) }
            @match &detail.revert {
                Some(effect) => (revert_form(&place, checkpoint, effect)),
                None => (why_inactive(&detail)),
            }
            p { a data-close href=(place.at("")) { "Leave it as it is" } }
        }
    });
    Ok(layout("Restore", &body))
}

/// Why a checkpoint is not in the context.
fn why_inactive(detail: &CheckpointDetail) -> Markup {
    html! {
        p class="quiet" {
            @match &detail.inactive {
                Some(inactive) => (inactive.reason),
                None => "It is not in the context of this branch, so there is nothing to change.",
            }
        }
    }
}

/// What restoring does, and the button for it.
fn revert_form(place: &Place, checkpoint: &Checkpoint, effect: &RevertEffect) -> Markup {
    let (id, n) = (&place.about.session, checkpoint.number);
    html! {
        p { "The context becomes what it was before this compaction, with all that was said since: "
            strong { (number(effect.tokens_before)) " → " (number(effect.tokens_after)) }
            " of " (number(effect.usable_tokens)) " usable tokens. Nothing is compacted by itself then until the context is nearly full." }
        @if effect.fits {
            form method="post" action={ "/sessions/" (id) "/checkpoints/" (n) "/revert" } {
                input type="hidden" name="branch" value=(place.branch);
                button { "Restore " (many(checkpoint.messages.into(), "message")) }
            }
        } @else { p class="trouble" { "That does not fit. Edit the summary instead." } }
    }
}

fn heading(checkpoint: &Checkpoint) -> Markup {
    html! {
        span class="badge" { (many(checkpoint.messages.into(), "message")) }
        " Checkpoint " (checkpoint.number) ": #" (checkpoint.first) "–#" (checkpoint.last) " "
        @if checkpoint.retired { span class="tag" { "reverted" } }
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

fn text(checkpoint: &Checkpoint, place: &Place) -> Markup {
    html! {
        @match &checkpoint.text {
            Some(text) => (message::text(text, place, true, None)),
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
            p class="links" { a href=(place.at(&format!("/history?from={}", checkpoint.first))) { "The messages it stands for" }
                a href=(place.at(&format!("/checkpoints/{number}/compare"))) { "What was kept and dropped" } }
            @if let Some(effect) = &detail.revert { (changes(place, checkpoint, effect)) }
            @else { (why_inactive(detail)) }
        }
    }
}

fn changes(place: &Place, checkpoint: &Checkpoint, effect: &RevertEffect) -> Markup {
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
            (revert_form(place, checkpoint, effect))
        }
    }
}

/// How a summary is to be written.
pub(crate) fn writer() -> Markup {
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
    pub(crate) instructions: String,
    /// Who writes; nothing: those that are configured.
    #[serde(default)]
    pub(crate) summariser: String,
    #[serde(default)]
    pub(crate) on_failure: OnFailure,
}

/// Asks for the same compaction, or the same summary anew, as a turn that could not do it.
pub(crate) async fn again(
    State(service): State<Arc<dyn Service>>,
    Path((id, turn)): Path<(String, String)>,
    Form(wanted): Form<Wanted>,
) -> Result<Redirect, Trouble> {
    let new = RetryCompaction {
        summariser: said(wanted.summariser),
        on_failure: wanted.on_failure,
        wait: false,
    };
    begun(&*service, &id, TurnRequest::RetryCompaction { turn, new }).await
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

/// Puts a text in place of a summary's. Where somebody else was faster, the text is kept, beside what
/// stands now.
pub(crate) async fn edit(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Response, Trouble> {
    // A form sends line ends as CR LF.
    let text = change.text.replace("\r\n", "\n");
    let detail = service.checkpoint(&id, &number, &change.branch).await?;
    if detail.revert.is_none() {
        let place = Place::of(&*service, &id, &change.branch).await?;
        let body = place.page(&overtaken(&*service, &place, &detail, &text).await?);
        let page = layout(&format!("checkpoint {number}"), &body);
        return Ok((StatusCode::CONFLICT, page).into_response());
    }
    let new = EditSummary {
        text,
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    let begun = begun(&*service, &id, TurnRequest::Edit { checkpoint, new }).await?;
    Ok(begun.into_response())
}

/// A text for a checkpoint that is not in the context any more.
async fn overtaken(
    service: &dyn Service,
    place: &Place,
    detail: &CheckpointDetail,
    text: &str,
) -> Result<Markup, Trouble> {
    let id = &place.about.session;
    let replaced_by = detail.inactive.as_ref().and_then(|of| of.revert_first);
    let newer = match replaced_by {
        Some(number) => {
            let number = number.to_string();
            let newer = service.checkpoint(id, &number, &place.branch).await?;
            Some(newer).filter(|newer| newer.revert.is_some())
        }
        None => None,
    };
    Ok(html! {
        section class="card" {
            h2 { "Checkpoint " (detail.checkpoint.number) " was changed meanwhile" }
            div role="alert" { (why_inactive(detail)) }
            @if let Some(newer) = &newer {
                h3 { "Checkpoint " (newer.checkpoint.number) ", which stands now" }
                pre class="text" { (newer.checkpoint.text.as_deref().unwrap_or("")) }
                form method="post" action={ "/sessions/" (id) "/checkpoints/" (newer.checkpoint.number) "/edit" } {
                    input type="hidden" name="branch" value=(place.branch);
                    label for="text" { "Your text, which was not saved" }
                    textarea id="text" name="text" rows="12" required { "\n" (text) }
                    button { "Save it in place of checkpoint " (newer.checkpoint.number) }
                }
            } @else {
                label for="text" { "Your text, which was not saved" }
                textarea id="text" rows="12" readonly { "\n" (text) }
            }
        }
    })
}

/// Has a summary written anew.
pub(crate) async fn regenerate(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    let new = RegenerateSummary {
        instructions: said(change.wanted.instructions),
        summariser: said(change.wanted.summariser),
        on_failure: change.wanted.on_failure,
        settings: Settings::new(),
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    begun(&*service, &id, TurnRequest::Regenerate { checkpoint, new }).await
}

/// Takes a summary back.
pub(crate) async fn revert(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, Trouble> {
    let new = RevertCheckpoint {
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    begun(&*service, &id, TurnRequest::Revert { checkpoint, new }).await
}

pub(crate) fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Begins a turn and goes to where it is looked at.
pub(crate) async fn begun(
    service: &dyn Service,
    session: &str,
    asked: TurnRequest,
) -> Result<Redirect, Trouble> {
    let Turn { session, turn, .. } = service.begin(session, &asked, None).await?;
    Ok(Redirect::to(&format!("/sessions/{session}/turns/{turn}")))
}
