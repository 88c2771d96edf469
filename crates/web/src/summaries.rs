//! Checkpoints: their cards, pages and forms.

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
use unisono_api::fmt;
use unisono_api::service::Service;
use unisono_api::session::{BranchPageQuery, main_branch};
use unisono_api::turn::{Settings, Turn, TurnRequest};

use crate::branch_view::{BranchQuery, BranchView, PartQuery};
use crate::error::PageError;
use crate::extract::{Form, Path, Query};
use crate::layout::layout;
use crate::message;
use crate::parts::{counted, dollars, encoded, number, when};
use crate::text_limit::TextLimit;

pub(crate) fn cards(place: &BranchView, all: &[Checkpoint], room: &TextLimit) -> Markup {
    let at = |checkpoint: &Checkpoint, rest: &str| {
        place.path(&format!("/checkpoints/{}{rest}", checkpoint.number))
    };
    html! {
        @for checkpoint in all {
            div class="made" id={ "checkpoint-" (checkpoint.number) } {
                details class="summary" id={ "summary-" (checkpoint.number) } {
                    summary { (heading(checkpoint)) }
                    (text(checkpoint, place, room))
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

/// Checkpoints per page.
const LISTED: Option<NonZeroUsize> = NonZeroUsize::new(50);

/// The checkpoints of a branch, a part at a time.
pub(crate) async fn list(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(part): Query<PartQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &part.branch).await?;
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
            (cards(&place, &found.items, &TextLimit::new(message::ROOM)))
            @if let Some(next) = &found.next {
                p { a href={ (place.path("/checkpoints")) "&cursor=" (encoded(next)) } { "Older checkpoints" } }
            }
        }
    });
    Ok(layout("Checkpoints", &body))
}

/// Previews a revert.
pub(crate) async fn undo(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Query(on): Query<BranchQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &on.branch).await?;
    let detail = service.checkpoint(&id, &number, &on.branch).await?;
    let checkpoint = &detail.checkpoint;
    let body = place.page(&html! {
        section class="card dialog" aria-labelledby="undo" {
            h2 id="undo" { (undo_heading(&detail)) }
            p { (heading(checkpoint)) }
            @match &detail.revert {
                Some(effect) => (revert_form(&place, checkpoint, effect)),
                None => (why_inactive(&detail)),
            }
            p { a data-close href=(place.path("")) { "Leave it as it is" } }
        }
    });
    Ok(layout("Restore", &body))
}

/// What a revert returns to: the messages of a checkpoint, or an older summary of them.
fn undo_heading(detail: &CheckpointDetail) -> String {
    let number = detail.checkpoint.number;
    match detail.revert.as_ref().map(|effect| &effect.checkpoints[..]) {
        None | Some([]) => format!("Undo: restore the messages of checkpoint {number}"),
        Some(older) => format!("Undo checkpoint {number}: return to {}", named(older)),
    }
}

/// Checkpoints by their numbers.
fn named(numbers: &[u32]) -> String {
    let all: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match &all[..] {
        [one] => format!("checkpoint {one}"),
        all => format!("checkpoints {}", all.join(", ")),
    }
}

/// The label of the button that reverts.
fn restores(effect: &RevertEffect) -> String {
    let messages = counted(effect.messages.into(), "message");
    match (&effect.checkpoints[..], effect.messages) {
        ([], _) => format!("Restore {messages}"),
        (older, 0) => format!("Return to {}", named(older)),
        (older, _) => format!("Return to {} and restore {messages}", named(older)),
    }
}

fn why_inactive(detail: &CheckpointDetail) -> Markup {
    html! {
        p class="quiet" {
            @match &detail.inactive {
                Some(inactive) => (inactive.reason),
                None => "It is not in the context of this branch: there is nothing to revert.",
            }
        }
    }
}

fn revert_form(place: &BranchView, checkpoint: &Checkpoint, effect: &RevertEffect) -> Markup {
    let (id, n) = (&place.about.session, checkpoint.number);
    html! {
        p { @match &effect.checkpoints[..] {
                [] => "This restores the context before this compaction, with all later messages: ",
                older => { "This returns to the context before it, with " (named(older)) " and all later messages: " },
            }
            strong { (number(effect.tokens_before)) " → " (number(effect.tokens_after)) }
            " of " (number(effect.usable_tokens)) " usable tokens. Nothing is compacted by itself then until the context is nearly full." }
        @if effect.fits {
            form method="post" action={ "/sessions/" (id) "/checkpoints/" (n) "/revert" } {
                input type="hidden" name="branch" value=(place.branch);
                button { (restores(effect)) }
            }
        } @else { p class="trouble" { "That does not fit. Edit the summary instead." } }
    }
}

fn heading(checkpoint: &Checkpoint) -> Markup {
    html! {
        span class="badge" { (counted(checkpoint.messages.into(), "message")) }
        " Checkpoint " (checkpoint.number) ": #" (checkpoint.first) "–#" (checkpoint.last) " "
        @if checkpoint.retired { span class="tag" { "reverted" } }
        @else if !checkpoint.active { span class="tag" { "not in the context" } }
        @if checkpoint.tier != "conversation" { span class="tag" { (checkpoint.tier) } }
        @if checkpoint.degraded { span class="tag" { "without a model" } }
        @if checkpoint.tightened { span class="tag" { "less kept than requested" } }
        span class="quiet" {
            (number(checkpoint.tokens_before)) " → " (number(checkpoint.tokens_after))
            " tokens"
            @if let Some(ratio) = fmt::compression(checkpoint.tokens_before, checkpoint.tokens_after) { " (" (ratio) ")" }
            ", " (checkpoint.model) ", " (when(&checkpoint.at))
        }
    }
}

fn text(checkpoint: &Checkpoint, place: &BranchView, room: &TextLimit) -> Markup {
    let whole = place.path(&format!("/checkpoints/{}", checkpoint.number));
    html! {
        @match &checkpoint.text {
            Some(text) => (message::text(text, place, true, Some(&whole), room)),
            None => p { "A note replaces these messages in the context." },
        }
    }
}

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Query(on): Query<BranchQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &on.branch).await?;
    let detail = service.checkpoint(&id, &number, &on.branch).await?;
    let body = place.page(&html! { (whole(&place, &detail)) });
    Ok(layout(&format!("checkpoint {number}"), &body))
}

fn whole(place: &BranchView, detail: &CheckpointDetail) -> Markup {
    let checkpoint = &detail.checkpoint;
    let number = checkpoint.number;
    html! {
        section class="card dialog" aria-labelledby="checkpoint" {
            h2 id="checkpoint" { "Checkpoint " (number) }
            p { (heading(checkpoint)) }
            p class="quiet" { (checkpoint.kind) ", " (checkpoint.tier) ", preset " (checkpoint.preset)
                ", took " (self::number(detail.duration_ms)) " ms, cost " (dollars(detail.cost_usd))
                @if let Some(used) = &detail.usage { ", " (self::number(used.input_tokens)) " tokens in, "
                    (self::number(used.output_tokens)) " out" } }
            @if let Some(coverage) = checkpoint.coverage { p class="quiet" { "It gives " (coverage.to_string()) } }
            details class="summary" open { summary { "The summary as the model sees it" }
                pre class="text" { (detail.block) } }
            @if !detail.key_facts.is_empty() {
                details { summary { (counted(detail.key_facts.len() as u64, "key fact")) }
                    ul { @for fact in &detail.key_facts { li { (fact.text) " " span class="quiet" { "#" (fact.ordinal) } } } } }
            }
            p class="links" { a href=(place.path(&format!("/history?from={}", checkpoint.first))) { "Original messages" }
                a href=(place.path(&format!("/checkpoints/{number}/compare"))) { "Kept and dropped sentences" } }
            @if let Some(effect) = &detail.revert { (changes(place, checkpoint, effect)) }
            @else { (why_inactive(detail)) }
        }
    }
}

fn changes(place: &BranchView, checkpoint: &Checkpoint, effect: &RevertEffect) -> Markup {
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
            summary { "Regenerate" }
            form method="post" action=(at("regenerate")) {
                input type="hidden" name="branch" value=(place.branch);
                (writer(&SummaryForm::default()))
                button { "Regenerate" }
            }
        }
        details {
            summary { "Restore" }
            (revert_form(place, checkpoint, effect))
        }
    }
}

/// The fields for the instructions and the model of a summary, with what was written in them.
pub(crate) fn writer(written: &SummaryForm) -> Markup {
    let failures = [
        ("leave", OnFailure::Leave, "leave everything as it is"),
        ("retry", OnFailure::Retry, "ask again"),
        ("extractive", OnFailure::Extractive, "take quotes"),
    ];
    html! {
        label for="what" { "What the summary must keep (may be left empty)" }
        input id="what" name="instructions" maxlength="500" value=(written.instructions);
        (who(&written.summariser))
        label for="unwritten" { "If no model writes a usable summary" }
        select id="unwritten" name="on_failure" {
            @for (value, failure, says) in failures {
                option value=(value) selected[failure == written.on_failure] { (says) }
            }
        }
    }
}

fn who(chosen: &str) -> Markup {
    html! {
        label for="writer" { "Model: provider/model, or extractive (may be left empty)" }
        input id="writer" name="summariser" maxlength="200" value=(chosen);
    }
}

/// The choices after a failed compaction, which has changed nothing.
pub(crate) fn choices(turn: &Turn, chosen: &str) -> Markup {
    let Turn {
        session,
        turn,
        branch,
        ..
    } = turn;
    let back = format!("/sessions/{session}?branch={}", encoded(branch));
    html! {
        form method="post" action={ "/sessions/" (session) "/turns/" (turn) "/retry" } {
            p { "The conversation is unchanged. You can retry:" }
            (who(chosen))
            p { button name="on_failure" value="retry" { "Try again" } " "
                button class="plain" name="on_failure" value="extractive" { "Take quotes" } " "
                a href=(back) { "Leave it as it is" } }
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct SummaryForm {
    #[serde(default)]
    pub(crate) instructions: String,
    /// The model; empty: the configured ones.
    #[serde(default)]
    pub(crate) summariser: String,
    #[serde(default)]
    pub(crate) on_failure: OnFailure,
}

/// Retries a compaction or a regeneration whose turn failed.
pub(crate) async fn retry(
    State(service): State<Arc<dyn Service>>,
    Path((id, turn)): Path<(String, String)>,
    Form(wanted): Form<SummaryForm>,
) -> Result<Redirect, PageError> {
    let new = RetryCompaction {
        summariser: non_empty(wanted.summariser),
        on_failure: wanted.on_failure,
        wait: false,
    };
    redirect_to_turn(&*service, &id, TurnRequest::RetryCompaction { turn, new }).await
}

#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    #[serde(default = "main_branch")]
    branch: String,
    #[serde(default)]
    text: String,
    #[serde(flatten)]
    wanted: SummaryForm,
}

/// Replaces the text of a summary. After a concurrent change, the text is kept and shown next to
/// the current one.
pub(crate) async fn edit(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Response, PageError> {
    // A form sends line ends as CR LF.
    let text = change.text.replace("\r\n", "\n");
    let detail = service.checkpoint(&id, &number, &change.branch).await?;
    if detail.revert.is_none() {
        let place = BranchView::load(&*service, &id, &change.branch).await?;
        let body = place.page(&conflict_page(&*service, &place, &detail, &text).await?);
        let page = layout(&format!("checkpoint {number}"), &body);
        return Ok((StatusCode::CONFLICT, page).into_response());
    }
    let new = EditSummary {
        text,
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    let begun = redirect_to_turn(&*service, &id, TurnRequest::Edit { checkpoint, new }).await?;
    Ok(begun.into_response())
}

/// The page for an edit of a checkpoint that has left the context.
async fn conflict_page(
    service: &dyn Service,
    place: &BranchView,
    detail: &CheckpointDetail,
    text: &str,
) -> Result<Markup, PageError> {
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
                h3 { "Checkpoint " (newer.checkpoint.number) ", the current one" }
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

pub(crate) async fn regenerate(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, PageError> {
    let new = RegenerateSummary {
        instructions: non_empty(change.wanted.instructions),
        summariser: non_empty(change.wanted.summariser),
        on_failure: change.wanted.on_failure,
        settings: Settings::new(),
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    redirect_to_turn(&*service, &id, TurnRequest::Regenerate { checkpoint, new }).await
}

pub(crate) async fn revert(
    State(service): State<Arc<dyn Service>>,
    Path((id, number)): Path<(String, String)>,
    Form(change): Form<Change>,
) -> Result<Redirect, PageError> {
    let new = RevertCheckpoint {
        branch: change.branch,
        wait: false,
    };
    let checkpoint = number;
    redirect_to_turn(&*service, &id, TurnRequest::Revert { checkpoint, new }).await
}

pub(crate) fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Begins a turn and redirects to its page.
pub(crate) async fn redirect_to_turn(
    service: &dyn Service,
    session: &str,
    asked: TurnRequest,
) -> Result<Redirect, PageError> {
    let Turn { session, turn, .. } = service.begin(session, &asked, None).await?;
    Ok(Redirect::to(&format!("/sessions/{session}/turns/{turn}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revert_names_the_summary_to_which_it_returns() {
        let effect = |checkpoints: &[u32], messages| RevertEffect {
            tokens_before: 346,
            tokens_after: 510,
            usable_tokens: 1_000,
            fits: true,
            checkpoints: checkpoints.to_vec(),
            messages,
        };
        let rows = rows! {
            (effect(&[], 28), "Restore 28 messages"),
            (effect(&[1], 0), "Return to checkpoint 1"),
            (effect(&[1, 2], 1), "Return to checkpoints 1, 2 and restore 1 message"),
        };
        for (effect, expected) in rows {
            assert_eq!(restores(&effect), expected);
        }
    }
}
