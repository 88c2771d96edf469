//! `/sessions/{session}/turns/{turn}`: one turn with its tree of runs, while it goes on and after.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use unisono_api::compaction::{Checkpoint, Compaction};
use unisono_api::service::Service;
use unisono_api::short;
use unisono_api::turn::{Run, Turn};

use crate::extract::Path;
use crate::layout::layout;
use crate::parts::{cached, digest, dollars, encoded, many, number, when};
use crate::place::{Place, back, noted};
use crate::summaries;
use crate::trouble::Trouble;

/// How deep the tree is drawn; what is deeper stands at that depth.
const DEEPEST: usize = 4;

/// One turn.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Response, Trouble> {
    let about = service.session(&id).await?;
    let found = service.compaction(&id, &turn).await?;
    let place = Place::within(&*service, about, &found.turn.branch).await?;
    let noted = noted(&*service, &place).await?;
    let title = title(&found.turn);
    let body = place.page(&html! {
        @if found.turn.task.is_none() { (changed(&found)) }
        section {
            h2 { "Turn" }
            (card(&found.turn, &noted, true))
        }
        p { a href=(place.at("")) { "Back to the conversation" } }
    });
    Ok(layout(&title, &body))
}

fn title(turn: &Turn) -> String {
    short::line(turn.task.as_deref().unwrap_or("Compaction"), 120)
}

/// What came of a change of the context.
fn changed(found: &Compaction) -> Markup {
    let turn = &found.turn;
    let chosen = found.summariser.as_deref().unwrap_or_default();
    let amounts = found.tokens_before.zip(found.tokens_after);
    html! {
        section class="card" {
            h2 { @match turn.state.as_str() {
                "compacted" => "The context was compacted",
                "restored" => "The summary was taken back",
                "failed" => "Nothing was changed",
                "cancelled" => "Cancelled: nothing was changed",
                _ => "The context is being compacted",
            } }
            @if turn.ended.is_none() {
                progress aria-label="The context is being compacted" {}
                p class="quiet" data-progress=(turn.turn) role="status" { "Counting and writing …" }
            }
            @if let Some((before, after)) = amounts {
                p { strong { (number(before)) " → " (number(after)) " tokens" }
                    @if before > after { ", " (number(before - after)) " saved" }
                    @if let Some(ratio) = short::compression(before, after) { ", " (ratio) } }
            }
            @if turn.compacted.is_some_and(|all| all.tightened) { (tightened()) }
            @if let Some(nothing) = &found.nothing { p { "Nothing was changed: " (nothing) "." } }
            @if let Some(preview) = &found.preview {
                p class="quiet" { "The summary begins:" }
                blockquote { (preview) }
            }
            @for number in &turn.checkpoints {
                p { a href={ "/sessions/" (turn.session) "/checkpoints/" (number)
                    "?branch=" (encoded(&turn.branch)) } { "Checkpoint " (number) } }
            }
            @if !found.offers.is_empty() { (summaries::offers(turn, chosen)) }
            @else if turn.state == "failed" { p { "The conversation is as it was." } }
        }
    }
}

/// A turn with its tree of runs; it says which of the `noted` summaries were made for it. `unfolded`:
/// its answer is shown whole.
pub(crate) fn card(turn: &Turn, noted: &[Checkpoint], unfolded: bool) -> Markup {
    let open = turn.ended.is_none();
    html! {
        article class="card turn" data-turn=(turn.turn) data-open[open] {
            header {
                h3 { a href={ "/sessions/" (turn.session) "/turns/" (turn.turn) } { (title(turn)) } }
                p class="quiet" {
                    span class={ "state " (turn.state) } { (turn.state) }
                    " " (when(&turn.accepted))
                    @if let Some(snapshot) = &turn.snapshot {
                        " · snapshot " a href={ "/sessions/" (turn.session) "/snapshots/" (snapshot) } { (digest(snapshot)) }
                        " " span class="badge" { "identical for " (many(turn.snapshot_agents.into(), "agent")) }
                    }
                    @if !open && !turn.runs.is_empty() { " · " (dollars(turn.cost_usd)) }
                }
                @if open {
                    form method="post" action={ "/sessions/" (turn.session) "/turns/" (turn.turn) "/cancel" } {
                        button class="small" { "Cancel" }
                    }
                }
            }
            @if turn.task.is_some() { (compacted(turn, noted)) }
            @if let Some(error) = &turn.error { p class="trouble" { (error.code) ": " (error.reason) } }
            @if !turn.runs.is_empty() { (runs(turn)) }
            @for call in &turn.calls {
                p { "Left to whoever asked: " code { (call.tool) } " "
                    span class="quiet" { (short::line(&call.arguments, 200)) } }
            }
            @if let Some(answer) = turn.answer.as_ref().filter(|answer| turn.calls.is_empty() || !answer.is_empty()) {
                details class="answer" open[unfolded] {
                    summary { "Answer " span class="quiet" { (short::line(answer, 90)) } }
                    pre class="text" { (answer) }
                }
            }
        }
    }
}

/// What was summarised by itself before the agents were asked.
fn compacted(turn: &Turn, noted: &[Checkpoint]) -> Markup {
    let made = noted
        .iter()
        .filter(|made| turn.checkpoints.contains(&made.number));
    let branch = encoded(&turn.branch);
    let context = turn.compacted.filter(|_| !noted.is_empty());
    let sizes = context.and_then(|all| Some((all.tokens_before, all.tokens_after?)));
    html! {
        @if let Some((before, after)) = sizes {
            p { "The context was compacted first: "
                strong { (number(before)) " → " (number(after)) " tokens" }
                @if let Some(ratio) = short::compression(before, after) { ", " (ratio) } }
        }
        @if turn.compacted.is_some_and(|all| all.tightened) { (tightened()) }
        @for made in made {
            p class="quiet" {
                (many(made.messages.into(), "message")) " summarised, "
                (number(made.tokens_before)) " → " (number(made.tokens_after)) " of these tokens, "
                a href={ "/sessions/" (turn.session) "/checkpoints/" (made.number) "?branch=" (branch) } {
                    "summary " (made.number)
                }
            }
        }
    }
}

/// The warning that less stands verbatim than was asked for.
pub(crate) fn tightened() -> Markup {
    html! {
        p class="warn" { "Less was kept than was asked for: otherwise the context would not have fitted." }
    }
}

fn runs(turn: &Turn) -> Markup {
    let top = turn.runs.iter().filter(|run| run.parent.is_none());
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Runs of the turn" {
            table class="runs" {
                thead { tr {
                    th scope="col" { "Agent" } th scope="col" { "Model" } th scope="col" { "State" }
                    th scope="col" class="number" { "In" } th scope="col" class="number" { "Cached" }
                    th scope="col" class="number" { "Out" } th scope="col" class="number" { "Cost" }
                    th scope="col" class="number" { "Time" }
                } }
                tbody { @for run in top { (row(run, turn, 0)) } }
            }
        }
        @for run in &turn.runs {
            details class="run" open[run.state == "running"] {
                summary { (run.agent) " " span class="quiet" { (short::line(run.text.as_deref().unwrap_or(""), 90)) } }
                @if let Some(task) = &run.task { p { "Task: " (task) } }
                @if let Some(error) = &run.error { p class="trouble" { (error.code) ": " (error.reason) } }
                pre class="text" data-run=(run.run) { (run.text.as_deref().unwrap_or("")) }
            }
        }
    }
}

fn row(run: &Run, turn: &Turn, depth: usize) -> Markup {
    let below = turn
        .runs
        .iter()
        .filter(|child| child.parent.as_deref() == Some(&run.run));
    let used = &run.usage;
    html! {
        tr {
            td class={ "depth" (depth.min(DEEPEST)) } {
                a href={ "/sessions/" (turn.session) "/runs/" (run.run) } { (run.agent) }
                @if run.role == "lead" { " " span class="tag" { "lead" } }
                @if let Some(stage) = run.stage { " " span class="tag" { "stage " (stage) } }
            }
            td class="quiet" { (run.model.as_deref().unwrap_or("")) }
            td { span class={ "state " (run.state) } { (run.state) }
                @if run.attempt > 1 { " " span class="quiet" { "attempt " (run.attempt) } } }
            td class="number" { (number(used.input_tokens)) }
            (cached(used))
            td class="number" { (number(used.output_tokens)) }
            td class="number" { (dollars(used.cost_usd)) }
            td class="number" { @match run.duration_ms {
                Some(ms) => { (number(ms)) " ms" },
                None if turn.ended.is_none() => { span data-since=(run.opened) { (so_far(&run.opened)) } },
                None => {},
            } }
        }
        @for child in below { (row(child, turn, depth + 1)) }
    }
}

/// How long something has gone on that began then.
fn so_far(began: &str) -> String {
    let began: Option<Timestamp> = began.parse().ok();
    let went = began.map(|began| Timestamp::now().duration_since(began).as_secs().max(0));
    went.map_or_else(String::new, |seconds| format!("{seconds} s"))
}

/// Stops a turn.
pub(crate) async fn cancel(
    State(service): State<Arc<dyn Service>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Redirect, Trouble> {
    let cancelled = service.cancel_turn(&id, &turn).await?;
    Ok(back(&id, &cancelled.branch))
}
