//! `/sessions/{session}`: one conversation.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::approval::Approval;
use unisono_api::compaction::Checkpoint;
use unisono_api::context::Context;
use unisono_api::message::Message;
use unisono_api::pin::Pins;
use unisono_api::service::{self, Service};
use unisono_api::session::{NewBranch, main_branch};
use unisono_api::store::LostEvents;
use unisono_api::topic::Topic;
use unisono_api::turn::{Asked, NewTurn, Turn};
use unisono_api::{Code, Page, PageQuery, Problem};

use crate::configured::Configured;
use crate::extract::{Form, Path, Query};
use crate::layout::layout;
use crate::lists;
use crate::parts::{Seen, bar, digest, encoded, when};
use crate::place::{On, Place, back, branch_named, noted};
use crate::trouble::Trouble;
use crate::{approvals, history, summaries, turn};

/// Messages that are shown: the newest.
const MESSAGES: u32 = 20;
/// Turns that are shown.
const TURNS: usize = 20;

/// The newest turns that were accepted before that event.
fn turns_before(event: Option<u64>) -> PageQuery {
    PageQuery {
        cursor: event.map(|event| event.to_string()),
        limit: NonZeroUsize::new(TURNS),
    }
}

/// A session.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(on): Query<On>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &on.branch).await?;
    let shown = Shown::read(&*service, &place, &on).await?;
    let body = place.page(&shown.body(&place));
    Ok(layout(&place.about.title, &body))
}

/// The parts of a session's page.
struct Shown {
    /// None: nothing was said yet.
    context: Option<Context>,
    messages: Vec<Message>,
    /// The oldest first.
    checkpoints: Vec<Checkpoint>,
    topics: Vec<Topic>,
    turns: Page<Turn>,
    configured: Configured,
    calls: Vec<Approval>,
}

impl Shown {
    async fn read(service: &dyn Service, place: &Place, on: &On) -> service::Result<Shown> {
        let (id, branch) = (&place.about.session, &place.branch);
        let first = place.length.saturating_sub(MESSAGES - 1).max(1);
        let (context, topics) = match place.length {
            0 => (None, Vec::new()),
            _ => (
                Some(service.context(id, &on.context_query()).await?),
                lists::topics(service, id, branch).await?,
            ),
        };
        Ok(Shown {
            context,
            messages: history::messages(service, place, first, MESSAGES).await?,
            checkpoints: lists::checkpoints(service, id, branch).await?,
            topics,
            turns: service.turns(id, &turns_before(None)).await?,
            configured: Configured::read(service, id).await?,
            calls: lists::approvals(service, Some(id)).await?,
        })
    }

    /// The summaries that turns name as made for them.
    fn noted(&self) -> &[Checkpoint] {
        match self.configured.notifies {
            true => &self.checkpoints,
            false => &[],
        }
    }

    fn body(&self, place: &Place) -> Markup {
        html! {
            @if let Some(lost) = &place.about.lost { (self::lost(lost)) }
            @if let Some(context) = &self.context { (bar(context)) }
            @if !self.calls.is_empty() {
                section {
                    h2 { "Waiting for you" }
                    @for call in &self.calls { (approvals::card(call, &place.at(""))) }
                }
            }
            (asking(&self.configured, place))
            section {
                h2 { "Turns" }
                @if self.turns.items.is_empty() { p class="quiet" { "Nothing was asked yet." } }
                @for (at, turn) in self.turns.items.iter().enumerate() { (turn::card(turn, self.noted(), at == 0)) }
                (older(place, &self.turns))
            }
            @if let Some(context) = &self.context { (seen(context)) }
            section {
                h2 { "Summaries" }
                @if self.checkpoints.is_empty() { p class="quiet" { "Nothing is summarised yet." } }
                (summaries::cards(place, &self.checkpoints))
                @if place.length > 0 {
                    p { a class="button" data-dialog href=(place.at("/compact")) { "Compact …" } }
                }
                (sealing(place, &self.topics))
            }
            section {
                h2 { "Newest messages" }
                @if self.messages.is_empty() { p class="quiet" { "Nothing was said yet." } }
                @if place.length > MESSAGES { p { a href=(place.at("/history")) { "Full history" } } }
                @for message in &self.messages { (history::message(message, place)) }
            }
        }
    }
}

fn lost(lost: &LostEvents) -> Markup {
    html! {
        p class="trouble" role="alert" {
            "The store was damaged: events " (lost.first) " to " (lost.last) " of this session are \
             lost. The damaged files are in quarantine/" (lost.quarantine) "; unisono doctor \
             --acknowledge takes note of it."
        }
    }
}

/// A part of the turns of a session.
#[derive(Debug, Deserialize)]
pub(crate) struct Before {
    #[serde(default = "main_branch")]
    branch: String,
    before: Option<u64>,
}

/// The turns of a session, a part at a time.
pub(crate) async fn turns(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(which): Query<Before>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &which.branch).await?;
    let turns = service.turns(&id, &turns_before(which.before)).await?;
    let noted = noted(&*service, &place).await?;
    let body = place.page(&html! {
        section {
            h2 { "Turns" }
            @if turns.items.is_empty() { p class="quiet" { "There are no older ones." } }
            @for turn in &turns.items { (turn::card(turn, &noted, false)) }
            (older(&place, &turns))
        }
        p { a href=(place.at("")) { "Back to the conversation" } }
    });
    Ok(layout(&place.about.title, &body))
}

fn older(place: &Place, turns: &Page<Turn>) -> Markup {
    html! {
        @if let Some(before) = &turns.next {
            p { a href={ (place.at("/turns")) "&before=" (before) } { "Older turns" } }
        }
    }
}

fn seen(context: &Context) -> Markup {
    let seen = Seen {
        system: &context.system,
        tools: &context.tools,
        summaries: &context.summaries,
        messages: &context.messages,
    };
    html! {
        section {
            h2 { "What the model sees" }
            p { "Snapshot " (digest(&context.snapshot)) ", counted with " (context.encoding) }
            (seen.sections())
        }
    }
}

fn asking(configured: &Configured, place: &Place) -> Markup {
    html! {
        section class="card" {
            h2 { "Ask" }
            form method="post" action={ "/sessions/" (place.about.session) "/ask" } {
                input type="hidden" name="branch" value=(place.branch);
                label for="task" { "Task" }
                textarea id="task" name="task" rows="3" required {}
                label for="agents" { "Agents, separated by commas; empty: the lead alone" }
                input id="agents" name="agents" value=(configured.agents.join(", "));
                button { "Ask " (configured.lead) }
            }
        }
    }
}

fn sealing(place: &Place, topics: &[Topic]) -> Markup {
    html! {
        @if !topics.is_empty() {
            h3 { "Topics" }
            ul { @for topic in topics {
                li { "#" (topic.first) "–#" (topic.last) " "
                    @if let Some(title) = &topic.title { (title) " " }
                    @match topic.summary {
                        Some(number) => a class="tag" data-dialog href=(place.at(&format!("/checkpoints/{number}"))) { (topic.status) },
                        None => span class="tag" { (topic.status) },
                    }
                    " " span class="quiet" { (when(&topic.started_at)) ", " @match topic.ended_by.as_ref().zip(topic.sealed_at.as_ref()) {
                        Some((by, at)) => { "ended by " (by) ", sealed " (when(at)) },
                        None => "goes on",
                    } }
                    @if topic.ended_by.is_some() && topic.status != "summarised" {
                        " " a data-dialog href=(place.at(&format!("/compact?part={}", topic.first))) { "Summarise …" }
                    } }
            } }
        }
        @if place.length > 1 {
            form method="post" action={ "/sessions/" (place.about.session) "/seal" } {
                input type="hidden" name="branch" value=(place.branch);
                button class="small" { "Seal the current topic" }
            }
        }
    }
}

/// A task.
#[derive(Debug, Deserialize)]
pub(crate) struct Task {
    branch: String,
    task: String,
    agents: String,
}

/// Gives a session a task.
pub(crate) async fn ask(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(form): Form<Task>,
) -> Result<Redirect, Trouble> {
    let agents = form.agents.split(',').map(str::trim);
    let agents = agents.filter(|agent| !agent.is_empty());
    let new = NewTurn {
        branch: form.branch.clone(),
        agents: Some(agents.map(str::to_owned).collect()),
        ..NewTurn::new(form.task)
    };
    service.begin(&id, &Asked::Task(new), None).await?;
    Ok(back(&id, &form.branch))
}

/// A branch.
#[derive(Debug, Deserialize)]
pub(crate) struct Fork {
    name: String,
    at: String,
}

/// Starts a branch at a message.
pub(crate) async fn fork(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(form): Form<Fork>,
) -> Result<Redirect, Trouble> {
    let about = service.session(&id).await?;
    let name = form.name.trim();
    if name.is_empty() {
        return Err(Problem::new(Code::Refused, "a branch needs a name").into());
    }
    if branch_named(&*service, &about, name).await?.is_some() {
        let detail = format!("there is a branch {name:?} already: take another name");
        return Err(Problem::new(Code::Conflict, detail).into());
    }
    let new = NewBranch {
        name: name.to_owned(),
        at: form.at,
        from: main_branch(),
    };
    service.fork(&id, &new).await?;
    Ok(back(&id, name))
}

/// Lets the current topic of a branch end.
pub(crate) async fn seal(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(on): Form<On>,
) -> Result<Redirect, Trouble> {
    service.seal(&id, &on.branch).await?;
    Ok(back(&id, &on.branch))
}

/// A message that is to be pinned, or not any more.
#[derive(Debug, Deserialize)]
pub(crate) struct Pin {
    branch: String,
    message: String,
    pinned: bool,
}

/// Pins a message, or takes its pin away.
pub(crate) async fn pin(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(form): Form<Pin>,
) -> Result<Redirect, Trouble> {
    let (branch, message, pinned) = (&form.branch, &form.message, form.pinned);
    // A message is among the pinned ones before its pin is taken away, or once it has one.
    let before = match pinned {
        true => None,
        false => ordinal(&*service, &id, branch, message).await?,
    };
    service.pin(&id, branch, message, pinned).await?;
    let at = match pinned {
        true => ordinal(&*service, &id, branch, message).await?,
        false => before,
    };
    let (branch, at) = (encoded(branch), at.unwrap_or(1));
    let there = format!("/sessions/{id}/history?branch={branch}&from={at}#m{at}");
    Ok(Redirect::to(&there))
}

/// The place of a pinned message on a branch.
async fn ordinal(
    service: &dyn Service,
    session: &str,
    branch: &str,
    message: &str,
) -> service::Result<Option<u32>> {
    let mut query = lists::of_branch(branch);
    loop {
        let Pins { pinned, next, .. } = service.pins(session, &query).await?;
        let found = pinned.iter().find(|pin| pin.message == message);
        if found.is_some() || next.is_none() {
            return Ok(found.map(|pin| pin.ordinal));
        }
        query.cursor = next;
    }
}
