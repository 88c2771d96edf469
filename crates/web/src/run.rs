//! `/sessions/{session}/runs/{run}`: a run with the exact bytes of its request, compared with the
//! request of a sibling.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use unisono_api::run::{RequestBody, RunDetail, SiblingRequest, StepContent, Why, WhyQuery};
use unisono_api::service::{self, Service};
use unisono_api::turn::Turn;
use unisono_api::{Code, fmt};

use crate::branch_view::BranchView;
use crate::error::PageError;
use crate::extract::{Path, Query};
use crate::layout::layout;
use crate::parts::{cache, cost, counted, digest, dollars, number, spent_time, truncate, when};
use crate::pictures::bars::budgets;
use crate::text_limit::TextLimit;
use crate::waiting_calls::WaitingCalls;
use crate::{diff, markdown, message};

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path((id, run)): Path<(String, String)>,
    Query(query): Query<WhyQuery>,
) -> Result<Response, PageError> {
    let session = service.session(&id).await?;
    let detail = service.run(&id, &run).await?;
    let why = service.why(&id, &run, &query).await?;
    let turn = service.turn(&id, &detail.turn).await?;
    let beside = Sibling::read(&*service, &why).await?;
    let waits = WaitingCalls::read(&*service, &id)
        .await?
        .in_turn(&turn.turn);
    let place = BranchView::of_session(&*service, session, &turn.branch).await?;
    let room = TextLimit::new(ROOM);
    let body = place.page(&html! {
        h2 { "Run of " (detail.run.agent) }
        (about(&detail, &place, &waits, &room))
        @if !detail.run.budgets.is_empty() {
            section { h2 { "Budgets" } (budgets(&detail.run.budgets, None)) }
        }
        (request_sizes(&why, beside.as_ref(), &turn))
        (steps(&detail, &room))
        (causes(&why, &TextLimit::new(CAUSES_BYTES)))
        p { a href={ "/sessions/" (detail.session) "/turns/" (detail.turn) } { "Back to its turn" } }
    });
    Ok(layout(&format!("run of {}", detail.run.agent), &body))
}

/// The request of a sibling, for comparison.
struct Sibling {
    against: SiblingRequest,
    body: Option<RequestBody>,
}

impl Sibling {
    async fn read(service: &dyn Service, why: &Why) -> service::Result<Option<Sibling>> {
        let Some(against) = why.against.clone() else {
            return Ok(None);
        };
        let query = WhyQuery {
            number: u32::try_from(against.request).ok(),
            against: Some(why.run.run.clone()),
            bodies: false,
        };
        let theirs = service.why(&why.session, &against.run, &query).await?;
        let body = theirs.body;
        Ok(Some(Sibling { against, body }))
    }
}

/// Bytes of the answer and the steps that are shown as a whole, in this order.
const ROOM: usize = 12 * 1024;

/// The address of all details of a run, as JSON.
fn as_json(detail: &RunDetail) -> String {
    format!("/v1/sessions/{}/runs/{}", detail.session, detail.run.run)
}

fn about(detail: &RunDetail, place: &BranchView, waits: &WaitingCalls, room: &TextLimit) -> Markup {
    let (run, used) = (&detail.run, &detail.run.usage);
    let json = as_json(detail);
    let running = matches!(run.state.as_str(), "running" | "waiting");
    html! {
        section class="card" {
            dl class="facts" {
                dt { "State" } dd { (waits.state_of_run(run))
                    ", attempt " (run.attempt) }
                @if let Some(model) = &run.model { dt { "Model" } dd { (model) } }
                @if let Some(task) = &run.task { dt { "Task" } dd { (beginning(task, &json, room)) } }
                dt { "Tokens" } dd { (number(used.input_tokens)) " in, "
                    (number(used.output_tokens)) " out" }
                @if let Some(cache) = cache(used) { dt { "Provider's cache" } dd { (cache) } }
                dt { "Cost" } dd { (cost(run)) }
                @if let Some(charged) = &run.charged {
                    dt { "Charged to budgets" } dd { (number(charged.tokens)) " tokens, " (dollars(Some(charged.cost_usd)))
                        ": calls that nobody reported count as their worst case" }
                }
                @if let Some(ms) = run.duration_ms { dt { "Time" } dd { (spent_time(run, ms)) } }
                dt { "Opened" } dd { (when(&run.opened_at)) }
                @if let Some(snapshot) = &run.snapshot {
                    dt { "Snapshot" }
                    dd { a href={ "/sessions/" (detail.session) "/snapshots/" (snapshot) } { (digest(snapshot)) } }
                } @else { dt { "Context" } dd { "its task only" } }
                dt { "Definition" } dd { (digest(&detail.definition)) }
            }
            @if let Some(error) = &run.error { p class="trouble" { (error.code) ": " (beginning(&error.reason, &json, room)) } }
            @let attempts = &detail.attempts[detail.attempts.len().saturating_sub(LISTED)..];
            @for attempt in attempts {
                p class="quiet" { "Attempt " (attempt.attempt) " " (when(&attempt.at)) ", because: " (fmt::line(&attempt.reason, 200)) }
            }
            @if running {
                form method="post" action={ "/sessions/" (detail.session) "/runs/" (run.run) "/cancel" } {
                    button class="small" { "Cancel this run" }
                }
            }
            @if let Some(text) = &run.text { div class="answer" { (message::text(text, place, true, Some(&json), room)) } }
            @else if let Some(text) = &run.last_text {
                p class="quiet" { "No answer. The last text of its model:" }
                div class="answer" { (message::text(text, place, true, Some(&json), room)) }
            }
        }
    }
}

/// A text as far as there is room.
fn beginning(text: &str, json: &str, room: &TextLimit) -> Markup {
    let (shown, left) = room.cut(text);
    html! { (shown) @if left > 0 { " … " a href=(json) { (counted(left as u64, "more byte")) } } }
}

fn request_sizes(why: &Why, beside: Option<&Sibling>, turn: &Turn) -> Markup {
    let wrong = why.checks.iter().filter(|check| !check.matches);
    let wrong: Vec<_> = wrong.collect();
    let of_body = |body: &RequestBody| why.requests.iter().find(|of| of.number == body.number);
    let shown = why.body.as_ref().and_then(of_body);
    html! {
        section {
            h2 { "Its request" }
            @if let Some(unknown) = &why.unknown { p class="trouble" { (unknown) } }
            @if why.requests.is_empty() && why.unknown.is_none() {
                p class="quiet" { "No request: the run ended before its first one, or its agent needs no model." }
            }
            @if let (Some(shown), true) = (shown, wrong.is_empty() && !why.checks.is_empty()) {
                p { span class="badge" { "exact" }
                    @if shown.sent { " These are the bytes that were sent: all " }
                    @else { " This request was not sent. These would be its bytes: all " }
                    (why.checks.len()) " digests are as recorded." }
            }
            @for check in &wrong {
                p class="trouble" { (check.check) " was recorded as " (check.recorded) " and is now " (check.rebuilt) }
            }
            @if !why.requests.is_empty() { (requests(why)) }
            @if let Some(body) = &why.body {
                details {
                    summary { "The part it shares with its siblings "
                        span class="quiet" { (number(body.head.len() as u64)) " bytes" } }
                    (bytes(&body.head, HEAD, why))
                }
                details open {
                    summary { "Its own part "
                        span class="quiet" { (number(body.tail.len() as u64)) " bytes" } }
                    (bytes(&body.tail, TAIL, why))
                }
            }
            (siblings(why, beside, turn))
        }
    }
}

/// Maximum shown bytes of each part of a request.
const HEAD: usize = 4 * 1024;
const TAIL: usize = 8 * 1024;

fn bytes(text: &str, most: usize, why: &Why) -> Markup {
    let (shown, left) = truncate(text, most);
    let number = why.body.as_ref().map_or(1, |body| body.number);
    let json = format!(
        "/v1/sessions/{}/runs/{}/request?number={number}",
        why.session, why.run.run
    );
    html! {
        pre { (shown) }
        (message::continuation(left, Some(&json)))
    }
}

/// The common part of two requests.
fn shared(bytes: u64, whole: u64) -> Markup {
    let width = bytes.saturating_mul(1000).checked_div(whole).unwrap_or(0);
    html! {
        svg class="occupancy" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect class="room" x="0" y="0" width="1000" height="8" {}
            rect class="used" x="0" y="0" width=(width) height="8" {}
        }
    }
}

fn requests(why: &Why) -> Markup {
    let shown = why.body.as_ref().map(|body| body.number);
    let first = why.requests.len().saturating_sub(REQUESTS);
    let json = format!("/v1/sessions/{}/runs/{}/request", why.session, why.run.run);
    html! {
        @if first > 0 { p class="quiet" { (counted(first as u64, "earlier request")) ": "
            a href=(json) { "all of them, as JSON" } } }
        div class="scroll" tabindex="0" role="group" aria-label="Requests" {
            table {
                thead { tr { th scope="col" { "Request" } th scope="col" { "To" }
                    th scope="col" class="number" { "Bytes" } th scope="col" class="number" { "Shared" }
                    th scope="col" { "Digest" } } }
                tbody { @for request in &why.requests[first..] {
                    tr {
                        td { a href={ "?number=" (request.number) }
                            aria-current=[(shown == Some(request.number)).then_some("true")] { (request.number) } }
                        td { (request.to)
                            @if let Some(prefix) = &request.fallback_prefix {
                                " (fallback, prefix " (digest(prefix)) ")"
                            }
                            @if !request.sent { " (was not sent)" } }
                        td class="number" { (number(request.bytes)) }
                        td class="number" { (number(request.head_bytes)) }
                        td { (digest(&request.digest)) }
                    }
                } }
            }
        }
    }
}

fn siblings(why: &Why, beside: Option<&Sibling>, turn: &Turn) -> Markup {
    let others = turn.runs.iter().filter(|run| run.run != why.run.run);
    let more = turn.runs.len().saturating_sub(LISTED + 1);
    let number = why.body.as_ref().map_or(1, |body| body.number);
    let against = why.against.as_ref().map(|against| against.run.as_str());
    html! {
        @if turn.runs.len() > 1 && why.body.is_some() {
            h2 { "Compare with a sibling" }
            nav class="tabs" aria-label="Siblings" {
                @for run in others.take(LISTED) {
                    a href={ "?number=" (number) "&against=" (run.run) }
                        aria-current=[(against == Some(&run.run)).then_some("true")] { (run.agent) }
                }
                @if more > 0 { a href={ "/v1/sessions/" (turn.session) "/turns/" (turn.turn) } {
                    (counted(more as u64, "more run")) ", as JSON" } }
            }
            @if let Some(beside) = beside { (difference(why, beside)) (answers(why, beside, turn)) }
            @else { p class="quiet" { "One of the two runs had no request." } }
        }
    }
}

fn difference(why: &Why, beside: &Sibling) -> Markup {
    let against = &beside.against;
    let number_of = against.request;
    let own = why.body.as_ref();
    let request = why
        .requests
        .iter()
        .find(|request| own.is_some_and(|body| body.number == request.number));
    let whole = request.map_or(against.shared_bytes, |request| request.bytes);
    html! {
        p { "The first " strong { (number(against.shared_bytes)) " of " (number(whole)) }
            " bytes are the same as of " (against.agent) "'s request " (number_of) "." }
        (shared(against.shared_bytes, whole))
        @match (own, &beside.body) {
            (Some(own), Some(theirs)) => (diff::show((&why.run.agent, &whole_of(own)), (&against.agent, &whole_of(theirs)))),
            _ => p class="quiet" { "The other parts of the two requests are not known." },
        }
        @if !against.differing_keys.is_empty() {
            p class="quiet" { "Their definitions differ in " (against.differing_keys.join(", ")) "." }
        }
    }
}

/// The differences between two answers.
fn answers(why: &Why, beside: &Sibling, turn: &Turn) -> Markup {
    let text_of = |id: &str| {
        let run = turn.runs.iter().find(|run| run.run == id);
        run.and_then(|run| run.text.as_deref())
    };
    let (own, theirs) = (text_of(&why.run.run), text_of(&beside.against.run));
    html! {
        @if let Some((own, theirs)) = own.zip(theirs) {
            h3 { "Their answers" }
            @if own == theirs { p class="quiet" { "Both answers are equal." } }
            @else { (diff::texts((&why.run.agent, own), (&beside.against.agent, theirs))) }
        }
    }
}

fn whole_of(body: &RequestBody) -> String {
    format!("{}{}", body.head, body.tail)
}

/// Maximum shown steps, newest first.
const STEPS: usize = 60;
/// Maximum shown calls or results of a step, and files of a result.
const CALLS: usize = 24;
const FILES: usize = 4;
/// Maximum shown attempts and siblings of a run, and requests.
const LISTED: usize = 40;
const REQUESTS: usize = 100;

fn steps(detail: &RunDetail, room: &TextLimit) -> Markup {
    let json = as_json(detail);
    let cut = |text: &str, class: &str| {
        let (shown, left) = room.cut(text);
        html! { pre class=(class) { (shown) } (message::continuation(left, Some(&json))) }
    };
    let left_out = detail.steps.len().saturating_sub(STEPS);
    let steps = &detail.steps[left_out..];
    html! {
        @if !steps.is_empty() {
            section {
                h2 { "Steps" }
                @if left_out > 0 { p class="quiet" { (counted(left_out as u64, "earlier step")) ": "
                    a href=(json) { "all of them, as JSON" } } }
                ol class="steps" start=(left_out + 1) { @for step in steps { li {
                    @match &step.done {
                        StepContent::Model { text, calls, fallback, fallback_prefix, input_tokens, output_tokens, .. } => {
                            span class="quiet" { "the model, " (number(*input_tokens)) " in, "
                                (number(*output_tokens)) " out"
                                (fallback_note(fallback.as_deref(), fallback_prefix.as_deref())) }
                            @if !text.is_empty() { (cut(text, "text")) }
                            @for call in calls.iter().take(CALLS) { (cut(&format!("{}({})", call.name, call.arguments), "tool")) }
                            (more_calls(calls.len(), &json))
                        },
                        StepContent::Tools { results } => { @for result in results.iter().take(CALLS) {
                            details { summary {
                                @if result.is_error { "Failed: " } @else { "Result: " }
                                (room.line(&markdown::line(&result.content, 80), 80)) }
                                (cut(&result.content, "tool")) }
                            @for file in result.files.iter().take(FILES) {
                                @let size = format!("{} bytes{}", number(file.blob.size_bytes), file.blob.extent);
                                (message::attachment(&file.filename, &file.blob.mime, &size, &file.blob.digest, file.blob.extent))
                            }
                        } (more_calls(results.len(), &json)) },
                        StepContent::Named { name, result } => {
                            span class="quiet" { (name) } (cut(result, "text"))
                        },
                        StepContent::Narrowed { room_tokens, output_tokens } => {
                            span class="quiet" { "too large for the provider: its exchange may have "
                                (number(*room_tokens)) " tokens from here"
                                @if let Some(output) = output_tokens {
                                    ", a reply " (number(*output))
                                }
                            }
                        },
                        StepContent::Summarised { steps, text } => details {
                            summary { "Its first " (steps) " steps are summarised" }
                            (cut(text, "text"))
                        },
                        StepContent::Spent { fallback, input_tokens, output_tokens, .. } => {
                            span class="quiet" { "further usage: "
                                (number(*input_tokens)) " in, " (number(*output_tokens)) " out"
                                (fallback_note(fallback.as_deref(), None)) }
                        },
                    }
                } } }
            }
        }
    }
}

fn more_calls(all: usize, json: &str) -> Markup {
    html! {
        @if all > CALLS { p class="warn" { a href=(json) { (counted((all - CALLS) as u64, "more call")) } } }
    }
}

/// The fallback model that answered, and its prefix.
fn fallback_note(model: Option<&str>, prefix: Option<&str>) -> Markup {
    html! {
        @if let Some(model) = model {
            ", fallback " (model)
            @if let Some(prefix) = prefix { ", prefix " (digest(prefix)) }
        }
    }
}

/// Maximum shown causes, newest first, and their bytes.
const CAUSES: usize = 100;
const CAUSES_BYTES: usize = 4 * 1024;

fn causes(why: &Why, room: &TextLimit) -> Markup {
    let causes = &why.causes[why.causes.len().saturating_sub(CAUSES)..];
    html! {
        section {
            h2 { "Why" }
            ol class="steps" { @for cause in causes {
                li { span class="quiet" { (when(&cause.at)) " event " (cause.event) " " } (room.line(&cause.text, 200)) }
            } }
        }
    }
}

/// Stops a run. The page of one that has ended meanwhile shows how.
pub(crate) async fn cancel(
    State(service): State<Arc<dyn Service>>,
    Path((id, run)): Path<(String, String)>,
) -> Result<Redirect, PageError> {
    match service.cancel_run(&id, &run).await {
        Ok(_) => {}
        Err(error) if error.code() == Code::NotFound => {
            let ended = service.run(&id, &run).await?.run.ended_at;
            if ended.is_none() {
                return Err(error.into());
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Redirect::to(&format!("/sessions/{id}/runs/{run}")))
}
