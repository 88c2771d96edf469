//! `/sessions/{session}`: one conversation.

use std::sync::Arc;
use unisono::turn_view;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::compaction::Checkpoint;
use unisono_api::context::{Context, ContextQuery};
use unisono_api::service::{Compactions as _, Contexts as _};
use unisono_api::session::{Session, main_branch};
use unisono_api::topic::Topic;
use unisono_api::turn::Turn;
use unisono_api::{Code, Page};
use unisono_context::{MessageId, Ordinal};
use unisono_runtime::Handle;
use unisono_session::State as SessionState;

use super::parts::{Seen, bar, digest, encoded, when};
use super::{Trouble, approvals, history, layout, summaries, turn};
use crate::http::extract::{self, Form, Path, Query};
use crate::http::problem::ApiError;
use crate::http::{Shared, sessions};
use unisono::ask::Ask;
use unisono::context::topics;
use unisono::service::compactions::checkpoints;
use unisono::service::messages::{self, unknown_branch};
use unisono_config::setup::Setup;

/// Messages that are shown: the newest.
const MESSAGES: u32 = 20;
/// Turns that are shown.
const TURNS: usize = 20;

/// Which branch of a session is shown.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct On {
    /// The branch.
    #[serde(default = "main_branch")]
    pub(super) branch: String,
}

impl On {
    /// Its context, for the agents that are configured.
    fn context_query(&self) -> ContextQuery {
        ContextQuery {
            branch: self.branch.clone(),
            ..ContextQuery::default()
        }
    }
}

/// A session, and the branch of it that is looked at.
pub(super) struct Place {
    pub(super) about: Session,
    pub(super) branch: String,
    /// Messages on the branch; none: it is not there yet.
    pub(super) length: u32,
}

impl Place {
    pub(super) async fn of(session: &Handle, branch: &str) -> Result<Place, Trouble> {
        let name = session.id().to_string();
        let wanted = branch.to_owned();
        let look = move |state: &SessionState| {
            let head = state.tree().head(&wanted);
            let found = head.map(|head| unisono::service::sessions::branch(state, &wanted, head));
            (unisono::service::sessions::describe(&name, state), found)
        };
        let (about, found) = session.inspect(look).await?;
        if found.is_none() && branch != main_branch() {
            return Err(unknown_branch(branch).into());
        }
        Ok(Place {
            length: found.map_or(0, |found| found.messages),
            branch: branch.to_owned(),
            about,
        })
    }

    /// An address within the session, on this branch.
    pub(super) fn at(&self, rest: &str) -> String {
        let sign = if rest.contains('?') { '&' } else { '?' };
        let (id, branch) = (&self.about.session, encoded(&self.branch));
        format!("/sessions/{id}{rest}{sign}branch={branch}")
    }

    /// A page about the session: what is brought up to date while it is looked at.
    pub(super) fn page(&self, body: &Markup) -> Markup {
        let about = &self.about;
        html! {
            div id="live" data-session=(about.session) data-after=(about.events) {
                h1 { a href=(self.at("")) { (about.title) } }
                nav aria-label="Branches" class="tabs" {
                    @for other in &about.branches.items {
                        a href={ "/sessions/" (about.session) "?branch=" (encoded(&other.name)) }
                            aria-current=[(other.name == self.branch).then_some("true")] {
                            (other.name) " " span class="quiet" { (other.messages) }
                        }
                    }
                    @if about.branches.items.iter().all(|other| other.name != self.branch) && self.length > 0 {
                        a href=(self.at("")) aria-current="true" {
                            (self.branch) " " span class="quiet" { (self.length) }
                        }
                    }
                    @if about.branches.has_more {
                        a href=(self.at("/tree")) { "all " (about.branches.count) " branches" }
                    }
                }
                nav aria-label="Session" class="links" {
                    a href=(self.at("")) { "Conversation" }
                    a href=(self.at("/history")) { "Full history" }
                    a href=(self.at("/tree")) { "Branch tree" }
                    a href={ "/usage?session=" (about.session) } { "Usage" }
                    a href=(self.at("/settings")) { "Settings" }
                }
                (body)
            }
        }
    }
}

/// Back to a branch of a session.
pub(super) fn back(id: &str, branch: &str) -> Redirect {
    Redirect::to(&format!("/sessions/{id}?branch={}", encoded(branch)))
}

/// A session.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(on): Query<On>,
) -> Result<Response, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let place = Place::of(&session, &on.branch).await?;
    let context = match place.length {
        0 => None,
        _ => Some(shared.local.context(&id, &on.context_query()).await?),
    };
    let first = place.length.saturating_sub(MESSAGES - 1);
    let branch = on.branch;
    let look = move |state: &SessionState| {
        let said = messages::read(state, &branch, first, MESSAGES).map(|page| page.items);
        let stored = checkpoints(state, &branch);
        let about = topics::to_api(state, &branch).unwrap_or_default();
        let pins = history::pinned(state, &branch);
        (said.unwrap_or_default(), stored, about, pins)
    };
    let (said, stored, about, pins) = session.inspect(look).await?;
    let journal = shared.local.journal();
    let turns = turn_view::turns(journal, &session, None, TURNS).await?;
    let noted = noted(&shared, &session, &place.branch).await?;
    let setup = shared.local.setup_of(&session).await?;
    let calls = shared.local.waiting_calls(Some(&id)).await?;
    let lost = unisono::service::sessions::lost(&shared.local, session.id());
    let body = place.page(&html! {
        @if let Some(lost) = &lost {
            p class="trouble" role="alert" {
                "The store was damaged: events " (lost.first) " to " (lost.last) " of this session are \
                 lost. The damaged files are in quarantine/" (lost.quarantine) "; unisono doctor \
                 --acknowledge takes note of it."
            }
        }
        @if let Some(context) = &context { (bar(context)) }
        @if !calls.is_empty() {
            section {
                h2 { "Waiting for you" }
                @for call in &calls { (approvals::card(call, &place.at(""))) }
            }
        }
        (asking(&setup, &place))
        section {
            h2 { "Turns" }
            @if turns.items.is_empty() { p class="quiet" { "Nothing was asked yet." } }
            @for (at, turn) in turns.items.iter().enumerate() { (turn::card(turn, &noted, at == 0)) }
            (older(&place, &turns))
        }
        @if let Some(context) = &context { (seen(context)) }
        section {
            h2 { "Summaries" }
            @if stored.is_empty() { p class="quiet" { "Nothing is summarised yet." } }
            (summaries::cards(&place, &stored))
            @if place.length > 0 {
                p { a class="button" data-dialog href=(place.at("/compact")) { "Compact …" } }
            }
            (sealing(&place, &about))
        }
        section {
            h2 { "Newest messages" }
            @if said.is_empty() { p class="quiet" { "Nothing was said yet." } }
            @if place.length > MESSAGES { p { a href=(place.at("/history")) { "Full history" } } }
            @for message in &said { (history::message(message, &place, &pins)) }
        }
    });
    Ok(layout(&place.about.title, &body))
}

/// A part of the turns of a session.
#[derive(Debug, Deserialize)]
pub(super) struct Before {
    #[serde(default = "main_branch")]
    branch: String,
    before: Option<u64>,
}

/// The turns of a session, a part at a time.
pub(super) async fn turns(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(which): Query<Before>,
) -> Result<Response, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let place = Place::of(&session, &which.branch).await?;
    let journal = shared.local.journal();
    let turns = turn_view::turns(journal, &session, which.before, TURNS).await?;
    let noted = noted(&shared, &session, &place.branch).await?;
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

/// The summaries of which a turn says that they were made for it; none where that is switched off.
pub(super) async fn noted(
    shared: &Shared,
    session: &Handle,
    branch: &str,
) -> Result<Vec<Checkpoint>, Trouble> {
    let setup = shared.local.setup_of(session).await?;
    if !setup.loaded.config.compaction.notifies() {
        return Ok(Vec::new());
    }
    let branch = branch.to_owned();
    let look = move |state: &SessionState| checkpoints(state, &branch);
    Ok(session.inspect(look).await?)
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

fn asking(setup: &Setup, place: &Place) -> Markup {
    let run = &setup.loaded.config.run;
    html! {
        section class="card" {
            h2 { "Ask" }
            form method="post" action={ "/sessions/" (place.about.session) "/ask" } {
                input type="hidden" name="branch" value=(place.branch);
                label for="task" { "Task" }
                textarea id="task" name="task" rows="3" required {}
                label for="agents" { "Agents, separated by commas; empty: the lead alone" }
                input id="agents" name="agents" value=(run.agents.join(", "));
                button { "Ask " (run.lead) }
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
pub(super) struct Task {
    branch: String,
    task: String,
    agents: String,
}

/// Gives a session a task.
pub(super) async fn ask(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Form(form): Form<Task>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let agents = form.agents.split(',').map(str::trim);
    let agents: Vec<&str> = agents.filter(|agent| !agent.is_empty()).collect();
    let ask = Ask::new(form.task)
        .branch(form.branch.as_str())
        .agents(agents);
    shared.local.begin(&session, &ask).await?;
    Ok(back(&id, &form.branch))
}

/// A branch.
#[derive(Debug, Deserialize)]
pub(super) struct Fork {
    name: String,
    at: String,
}

/// Starts a branch at a message.
pub(super) async fn fork(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Form(form): Form<Fork>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let at: MessageId = extract::id("message", &form.at)?;
    let name = form.name.trim();
    let (wanted, why) = (name.to_owned(), "a branch needs a name");
    let taken = session.inspect(move |state| state.tree().head(&wanted).is_some());
    if name.is_empty() {
        return Err(ApiError::new(Code::Refused, why).into());
    }
    if taken.await? {
        let detail = format!("there is a branch {name:?} already: take another name");
        return Err(ApiError::new(Code::Conflict, detail).into());
    }
    session.fork(name, at).await?;
    Ok(back(&id, name))
}

/// Lets the current topic of a branch end.
pub(super) async fn seal(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Form(on): Form<On>,
) -> Result<Redirect, Trouble> {
    shared.local.seal(&id, &on.branch).await?;
    Ok(back(&id, &on.branch))
}

/// A message that is to be pinned, or not any more.
#[derive(Debug, Deserialize)]
pub(super) struct Pin {
    branch: String,
    message: String,
    pinned: bool,
}

/// Pins a message, or takes its pin away.
pub(super) async fn pin(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Form(form): Form<Pin>,
) -> Result<Redirect, Trouble> {
    let (branch, message, pinned) = (&form.branch, &form.message, form.pinned);
    shared.local.pin(&id, branch, message, pinned).await?;
    let session = sessions::open(&shared, &id).await?;
    let message: MessageId = extract::id("message", &form.message)?;
    let look = move |state: &SessionState| state.tree().get(message).map(|node| node.ordinal());
    let at = session.inspect(look).await?.unwrap_or(Ordinal::FIRST);
    let (branch, at) = (encoded(&form.branch), at.0);
    let there = format!("/sessions/{id}/history?branch={branch}&from={at}#m{at}");
    Ok(Redirect::to(&there))
}
