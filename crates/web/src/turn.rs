//! `/sessions/{session}/turns/{turn}`: one turn with its runs, also while it runs.

mod standing;
mod texts;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use unisono_api::compaction::{Compaction, CompactionEffect};
use unisono_api::service::Service;
use unisono_api::session::Session;
use unisono_api::turn::{ErrorInfo, Run, RunPause, Turn};
use unisono_api::usage::Budget;
use unisono_api::{Code, fmt};

use crate::branch_view::{BranchView, back};
use crate::error::PageError;
use crate::extract::Path;
use crate::layout::layout;
use crate::parts::{cost, counted, digest, encoded, number, spent_time, truncate, turn_cost, when};
use crate::pictures::bars::budgets;
use crate::pictures::fan;
use crate::pictures::timeline::timeline;
use crate::session_settings::SessionSettings;
use crate::text_limit::TextLimit;
use crate::waiting_calls::WaitingCalls;
use crate::{markdown, message, summaries};

use texts::Texts;

/// Maximum indentation of the tree of runs.
const DEEPEST: usize = 4;
/// Maximum shown characters of a run's task, of a reason, and of a reason in one line.
const TASK: usize = 400;
const REASON: usize = 600;
const LINE: usize = 200;
/// Maximum shown waiting calls, calls for the client, and attachments.
const CALLS: usize = 10;
/// Maximum shown runs on the page of a turn.
const RUNS: usize = 60;
/// Bytes of texts on the page of a turn that are shown as a whole.
const ROOM: usize = 20 * 1024;
/// Maximum shown bytes of an answer that is not a message yet.
const UNFINISHED: usize = 8 * 1024;

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let about = service.session(&id).await?;
    let found = service.compaction(&id, &turn).await?;
    let place = BranchView::of_session(&*service, about, &found.turn.branch).await?;
    let settings = SessionSettings::read(&*service, &id).await?;
    let waits = WaitingCalls::read(&*service, &id).await?.in_turn(&turn);
    let times = service.timeline(&id, &turn).await?;
    let title = title(&found.turn);
    let turn = &found.turn;
    let room = TextLimit::new(ROOM);
    let view = TurnView {
        place: &place,
        waits: &waits,
        settings: &settings,
        room: &room,
        max_runs: RUNS,
    };
    // They have the room before the runs of the card.
    let texts = Texts::new(turn, &view);
    // What comes while the turn goes on stands below what is there, and moves nothing. The timeline above
    // it keeps its height.
    let body = place.page(&html! {
        @if turn.task.is_none() { (changed(&found)) }
        (texts.task)
        @if turn.task.is_some() || !times.runs.is_empty() {
            section { h2 { "Timeline" } (timeline(&times, turn.snapshot_agents))
                p class="quiet" { a href={ "/v1" (self::page(turn)) "/timeline" } { "Its times as JSON" } } }
        }
        (budgets_with_session(turn, &place.about))
        section {
            h2 { "Turn" }
            (view.card(turn, true))
        }
        (texts.error)
        (texts.answer)
        @if turn.ended_at.is_some() && turn.runs.len() > 1 {
            section { h2 { "Agents and their prompt prefixes" } (fan::graph(turn)) }
        }
        @if turn.ended_at.is_some() { p { a href=(place.path("")) { "Back to the conversation" } } }
        @if !waits.calls().is_empty() {
            section class="sheet" id="waiting" aria-label="Waiting for you" {
                h2 class="hidden" { "Waiting for you" }
                (texts.waiting)
            }
        }
    });
    Ok(layout(&title, &body))
}

/// The budgets of a turn and of its session: above what grows, each line from the beginning to the end.
fn budgets_with_session(turn: &Turn, session: &Session) -> Markup {
    let of_session = session.budgets.iter();
    let of_session = of_session.filter(|budget| budget.turn.is_none());
    let all: Vec<Budget> = turn.budgets.iter().chain(of_session).cloned().collect();
    html! {
        @if !all.is_empty() { section { h2 { "Budgets" } (budgets(&all, None)) } }
    }
}

fn page(turn: &Turn) -> String {
    format!("/sessions/{}/turns/{}", turn.session, turn.turn)
}

fn title(turn: &Turn) -> String {
    markdown::line(turn.task.as_deref().unwrap_or("Compaction"), 120)
}

fn answer(turn: &Turn) -> Option<&str> {
    let answer = turn.answer.as_deref()?;
    (turn.calls.is_empty() || !answer.is_empty()).then_some(answer)
}

/// Whether a compaction had no effect.
fn is_unchanged(turn: &Turn) -> bool {
    let effect = turn.compacted.map(|done| done.effect);
    effect == Some(CompactionEffect::Nothing)
}

/// The result of a change of the context.
fn changed(found: &Compaction) -> Markup {
    let turn = &found.turn;
    let chosen = found.summariser.as_deref().unwrap_or_default();
    let amounts = found.tokens_before.zip(found.tokens_after);
    html! {
        section class="card changed" {
            h2 { @match turn.state.as_str() {
                "compacted" if is_unchanged(turn) => "Nothing was changed",
                "compacted" => "The context was compacted",
                "reverted" => "The checkpoint was reverted",
                "failed" => "Nothing was changed",
                "cancelled" => "Cancelled: nothing changed",
                _ => "The context is being compacted",
            } }
            @if turn.ended_at.is_none() {
                progress aria-label="The context is being compacted" {}
                p class="quiet" data-progress=(turn.turn) role="status" { "Counting and writing …" }
            }
            @if let Some((before, after)) = amounts {
                p { @if let Some(done) = &turn.compacted { (done.text()) ": " }
                    strong { (number(before)) " → " (number(after)) " tokens" }
                    @if before > after { ", " (number(before - after)) " saved" }
                    @if let Some(ratio) = fmt::compression(before, after) { ", " (ratio) } }
            }
            @if turn.compacted.is_some_and(|all| all.tightened) { (tightened()) }
            (unused_summary(turn))
            @if let Some(reason) = &found.no_change_reason { p { "Nothing changed: " (reason) "." } }
            @if let Some(preview) = &found.preview {
                p class="quiet" { "The summary begins:" }
                blockquote { (markdown::line(preview, 200)) }
            }
            @for number in &turn.checkpoints {
                p { a href={ "/sessions/" (turn.session) "/checkpoints/" (number)
                    "?branch=" (encoded(&turn.branch)) } { "Checkpoint " (number) }
                    @if turn.state == "compacted" {
                        " " a class="button small" data-dialog href={ "/sessions/" (turn.session) "/checkpoints/" (number) "/revert?branch=" (encoded(&turn.branch)) } { "Undo …" }
                    } }
            }
            @if !found.offers.is_empty() { (summaries::choices(turn, chosen)) }
            @else if turn.state == "failed" { p { "The conversation is as it was." } }
        }
    }
}

/// How turns of a branch are shown.
pub(crate) struct TurnView<'v> {
    pub(crate) place: &'v BranchView,
    pub(crate) waits: &'v WaitingCalls,
    /// The settings of the session: whether automatic compactions are shown, and the configured agents.
    pub(crate) settings: &'v SessionSettings,
    pub(crate) room: &'v TextLimit,
    /// Maximum shown runs of an unfolded turn. A folded one shows a third of them.
    pub(crate) max_runs: usize,
}

impl TurnView<'_> {
    /// A turn with its runs. Its answer is a message of the conversation. `unfolded` shows the runs at
    /// once.
    pub(crate) fn card(&self, turn: &Turn, unfolded: bool) -> Markup {
        let open = turn.ended_at.is_none();
        // A folded card is short: a new turn pushes it down.
        let folds = !unfolded && !turn.runs.is_empty();
        let notice = turn.task.is_some() && self.settings.notifies;
        let has_line = !turn.runs.is_empty() && (unfolded || open);
        html! {
            article class="card turn" id={ "turn-" (turn.turn) } data-turn=(turn.turn) data-open[open] {
                header {
                    h3 { a href=(page(turn)) { (title(turn)) } }
                    p class="quiet" {
                        (self.waits.state_of_turn(turn))
                        " " (when(&turn.accepted_at))
                        @if !folds && turn.snapshot.is_some() { " · " (frozen(turn)) }
                        @if !open && !turn.runs.is_empty() { " · " (turn_cost(turn)) }
                    }
                    @if open {
                        form method="post" action={ (page(turn)) "/cancel" } {
                            button class="small plain" { "Cancel" }
                        }
                    }
                }
                @if has_line || standing::is_unanswered(turn) { (self.status_line(turn)) }
                @if notice && !folds { (compacted(turn)) }
                @if !turn.runs.is_empty() {
                    @if unfolded { (self.runs(turn, self.max_runs)) }
                    @else {
                        details id={ "runs-" (turn.turn) } {
                            summary { (counted(turn.runs.len() as u64, "run")) }
                            @if notice { (compacted(turn)) }
                            @if turn.snapshot.is_some() { p class="quiet" { (frozen(turn)) } }
                            (self.runs(turn, self.max_runs / 3))
                        }
                    }
                }
                @for call in turn.calls.iter().take(CALLS) {
                    p { "For the client to call: " code { (call.tool) } " "
                        span class="quiet" { (self.room.line(&call.arguments, 200)) } }
                }
                (more(turn.calls.len(), "call", &format!("/v1{}", page(turn))))
            }
        }
    }

    fn status_line(&self, turn: &Turn) -> Markup {
        let partial = standing::partial(turn).map(|(lead, text)| {
            let whole = format!("/sessions/{}/runs/{}", turn.session, lead.run);
            html! {
                div class="output" tabindex="0" role="group" aria-label={ "Output of " (lead.agent) } {
                    (message::text(text, self.place, true, Some(&whole), self.room))
                }
            }
        });
        standing::line(turn, partial.as_ref())
    }

    fn runs(&self, turn: &Turn, most: usize) -> Markup {
        let shown = &turn.runs[..turn.runs.len().min(most)];
        let top = shown.iter().filter(|run| run.parent.is_none());
        html! {
            ul class="runs" aria-label="Runs of the turn" {
                @for run in top { (self.run(run, turn, shown, 0)) }
            }
            @if shown.len() < turn.runs.len() {
                @let all = counted(turn.runs.len() as u64, "run");
                p { @if most < RUNS { a href=(page(turn)) { "All " (all) } }
                    @else { a href={ "/v1" (page(turn)) } { "All " (all) ", as JSON" } } }
            }
        }
    }

    fn run(&self, run: &Run, turn: &Turn, shown: &[Run], depth: usize) -> Markup {
        let below = shown
            .iter()
            .filter(|child| child.parent.as_deref() == Some(&run.run));
        html! {
            li id={ "run-" (run.run) } class={ "depth" (depth.min(DEEPEST)) } {
                p class="who" {
                    a href={ "/sessions/" (turn.session) "/runs/" (run.run) } { (run.agent) }
                    @if run.role == "lead" { " " span class="tag" { "lead" } }
                    @if let Some(stage) = run.stage { " " span class="tag" { "stage " (stage) } }
                    " " (self.waits.state_of_run(run))
                    @if run.attempt > 1 { " " span class="quiet" { "attempt " (run.attempt) } }
                    @if let Some(model) = &run.model { " " span class="quiet" { (model) } }
                }
                (numbers(run, turn))
                (budgets(&run.budgets, None))
                (self.outcome(run, turn))
            }
            @for child in below { (self.run(child, turn, shown, depth + 1)) }
        }
    }

    /// Why a run failed, as far as there is room.
    fn trouble(&self, error: &ErrorInfo, most: usize) -> Markup {
        html! { (error.code) ": " (self.room.line(&error.reason, most)) }
    }

    /// The task and the result of a run. The box of the output has the same height during and after the
    /// run, and a pause or an error is a line that is there before: neither moves anything. What the lead
    /// wrote is the answer of the turn, or beside the reason why there is none: a line of its own at the
    /// end would move the runs below it.
    fn outcome(&self, run: &Run, turn: &Turn) -> Markup {
        let text = standing::text_of(run).unwrap_or("");
        let running = run.ended_at.is_none();
        let error = run.error.as_ref();
        let empty = if running { "output" } else { "no output" };
        let whole = format!("/sessions/{}/runs/{}", turn.session, run.run);
        html! {
            @if run.role != "lead" {
                details class="run" id={ "said-" (run.run) } open[running] {
                    @if let Some(error) = error { summary class="quiet trouble" { (self.trouble(error, LINE)) } }
                    @else if let Some(pause) = &run.pause { summary class="quiet warn" { (paused(pause)) } }
                    @else { summary class="quiet" { (self.room.line(&markdown::line(if text.is_empty() { empty } else { text }, 90), 90)) } }
                    div class="output" tabindex="0" role="group" aria-label={ "Output of " (run.agent) } {
                        @if let Some(error) = error { p class="trouble" { (self.trouble(error, REASON)) } }
                        @if let Some(task) = &run.task { p { "Task: " (self.room.line(task, TASK)) } }
                        @if running { pre class="text" data-run=(run.run) { (self.room.cut(text).0) } }
                        @else { (message::text(text, self.place, true, Some(&whole), self.room)) }
                    }
                }
            }
        }
    }
}

/// That there are more items than [`CALLS`], with a link to all of them.
fn more(all: usize, what: &str, json: &str) -> Markup {
    html! {
        @if all > CALLS {
            p { a href=(json) { (counted((all - CALLS) as u64, &format!("more {what}"))) ", as JSON" } }
        }
    }
}

/// Why a turn or a run failed.
fn trouble(error: &ErrorInfo, most: usize) -> Markup {
    html! { (error.code) ": " (fmt::line(&error.reason, most)) }
}

/// The snapshot of the turn.
fn frozen(turn: &Turn) -> Markup {
    html! {
        @if let Some(snapshot) = &turn.snapshot {
            "snapshot " a href={ "/sessions/" (turn.session) "/snapshots/" (snapshot) } { (digest(snapshot)) }
            " " span class="badge" { "identical for " (counted(turn.snapshot_agents.into(), "agent")) }
        }
    }
}

/// The automatic compactions before the agents began.
fn compacted(turn: &Turn) -> Markup {
    let branch = encoded(&turn.branch);
    let sizes = turn
        .compacted
        .and_then(|all| Some((all.text(), all.tokens_before, all.tokens_after?)));
    html! {
        @if let Some((effect, before, after)) = sizes {
            p { "The context was compacted first: " (effect) ", "
                strong { (number(before)) " → " (number(after)) " tokens" }
                @if let Some(ratio) = fmt::compression(before, after) { ", " (ratio) }
                @for number in &turn.checkpoints {
                    ", " a href={ "/sessions/" (turn.session) "/checkpoints/" (number) "?branch=" (branch) } { "checkpoint " (number) }
                } }
        }
        @if turn.compacted.is_some_and(|all| all.tightened) { (tightened()) }
        (unused_summary(turn))
    }
}

/// That a summary was tried and not used.
fn unused_summary(turn: &Turn) -> Markup {
    let unused = turn.summaries.as_ref().and_then(fmt::unused_summary);
    html! { @if let Some(unused) = unused { p class="quiet" { "In this turn " (unused) "." } } }
}

/// The warning that the context keeps fewer messages verbatim than configured.
pub(crate) fn tightened() -> Markup {
    html! {
        p class="warn" { "Less was kept than requested: otherwise the context would not have fitted." }
    }
}

/// An open turn at the end of the conversation, with the streamed text of the lead.
pub(crate) fn under_way(turn: &Turn, waits: &WaitingCalls, place: &BranchView) -> Markup {
    let lead = turn.runs.iter().find(|run| run.role == "lead");
    let busy = turn.runs.iter();
    let busy = busy.filter(|run| run.state == "running");
    let busy: Vec<&str> = busy.map(|run| run.agent.as_str()).collect();
    html! {
        @if turn.state == "queued" { @if let Some(task) = &turn.task {
            article class="message user gone" { header class="quiet" { strong { "queued" } } (message::text(task, place, true, Some(&page(turn)), &TextLimit::new(4 * TASK))) }
        } }
        article class="message assistant under-way" id={ "under-way-" (turn.turn) } {
            header class="quiet" {
                strong { (lead.map_or("", |lead| lead.agent.as_str())) } " " (waits.state_of_turn(turn))
                @if !busy.is_empty() { " · " (busy.join(", ")) " at work" }
            }
            @if turn.task.is_none() { p class="quiet" data-progress=(turn.turn) role="status" { "Counting and writing …" } }
            @if let Some(lead) = lead { pre class="text" data-run=(lead.run) { (truncate(lead.text.as_deref().unwrap_or(""), UNFINISHED).0) } }
        }
    }
}

fn paused(pause: &RunPause) -> Markup {
    html! { "Pauses until " (when(&pause.until)) " UTC: " (fmt::line(&pause.reason, LINE)) }
}

/// The usage and the duration of a run.
fn numbers(run: &Run, turn: &Turn) -> Markup {
    let used = &run.usage;
    html! {
        dl class="nums" {
            div { dt { "In" } dd { (number(used.input_tokens)) } }
            div { dt { "Cached" } dd title=[fmt::cache(used)] { (number(used.cache_read_tokens))
                @if used.cache_missed { " " span class="tag" { "missed" } } } }
            div { dt { "Out" } dd { (number(used.output_tokens)) } }
            div { dt { "Cost" } dd { (cost(run)) } }
            div { dt { "Time" } dd { @match run.duration_ms {
                Some(ms) => (spent_time(run, ms)),
                None if run.waits_for.is_some() => "waits",
                None if turn.ended_at.is_none() => {
                    @let since = busy_since(run);
                    span data-since=(since) { (so_far(&since)) }
                },
                None => "–",
            } } }
        }
    }
}

/// The opening of a run, later by the time that it waited for people.
fn busy_since(run: &Run) -> String {
    let opened: Option<Timestamp> = run.opened_at.parse().ok();
    let waited = run.waited_ms.and_then(|ms| i64::try_from(ms).ok());
    let since = opened.zip(waited).and_then(|(opened, ms)| {
        let later = opened.as_millisecond().checked_add(ms)?;
        Timestamp::from_millisecond(later).ok()
    });
    since.map_or_else(|| run.opened_at.clone(), |since| since.to_string())
}

/// The time since an instant.
fn so_far(began: &str) -> String {
    let began: Option<Timestamp> = began.parse().ok();
    let went = began.map(|began| Timestamp::now().duration_since(began).as_secs().max(0));
    went.map_or_else(String::new, |seconds| format!("{seconds} s"))
}

/// The form that sends the task of a failed turn once more.
fn again(turn: &Turn) -> Markup {
    html! {
        @if turn.task.is_some() {
            form method="post" action={ (page(turn)) "/again" } { button class="small plain" { "Ask again" } }
        }
    }
}

/// Cancels a turn. The page of one that has ended meanwhile shows how.
pub(crate) async fn cancel(
    State(service): State<Arc<dyn Service>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Redirect, PageError> {
    match service.cancel_turn(&id, &turn).await {
        Ok(cancelled) => Ok(back(&id, &cancelled.branch)),
        Err(error) if error.code() == Code::NotFound => {
            let turn = service.turn(&id, &turn).await?;
            match turn.ended_at {
                Some(_) => Ok(Redirect::to(&page(&turn))),
                None => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}
