//! `/sessions/{session}`: one conversation, what the model sees of it, and who works on it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::agent::{Agent, AgentQuery};
use unisono_api::compaction::Checkpoint;
use unisono_api::context::Context;
use unisono_api::message::Message;
use unisono_api::service::{self, Service};
use unisono_api::session::main_branch;
use unisono_api::store::LostEvents;
use unisono_api::topic::Topic;
use unisono_api::turn::{Turn, TurnRequest};
use unisono_api::{Code, Page};

use crate::composer::{self, Draft};
use crate::configured::Configured;
use crate::extract::{FormWithFiles, Path, Query};
use crate::layout::{layout, wide};
use crate::parts::{digest, when, when_known};
use crate::pictures::bars::budgets;
use crate::pictures::context::{Places, bar};
use crate::place::{On, Place, back};
use crate::trouble::Trouble;
use crate::waits::Waits;
use crate::{approvals, lists, message, summaries, turn};

/// Messages that are shown: the newest.
const MESSAGES: u32 = 30;
/// Of these, the newest that are not folded however long they are.
const OPEN: u32 = 2;
/// Turns that are shown beside the conversation, and on the page of turns.
const NEWEST: usize = 4;
const TURNS: usize = 20;
/// Calls that are shown of those that wait.
const CALLS: usize = 10;
/// Checkpoints and topics that are shown.
const FEW: Option<NonZeroUsize> = NonZeroUsize::new(8);

/// A session.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(on): Query<On>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &on.branch).await?;
    let shown = Shown::read(&*service, &place).await?;
    let draft = Draft::new(&shown.configured);
    Ok(wide(&place.about.title, &shown.page(&place, &draft)))
}

/// Gives a session a task. A form that is refused is shown again, with the reason beside it.
pub(crate) async fn ask(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    form: FormWithFiles,
) -> Result<Response, Trouble> {
    let mut draft = Draft::read(form.fields);
    let begun = async {
        draft.store(&*service, form.files).await?;
        let asked = TurnRequest::Task(draft.turn());
        service.begin(&id, &asked, draft.key.as_deref()).await
    };
    let problem = match begun.await {
        Ok(_) => return Ok(back(&id, &draft.branch).into_response()),
        Err(service::Error::Problem(problem)) if problem.code != Code::NotFound => problem,
        Err(error) => return Err(error.into()),
    };
    let place = Place::of(&*service, &id, &draft.branch).await?;
    let shown = Shown::read(&*service, &place).await?;
    draft.error = Some(problem.detail.clone());
    let mut response = wide(&place.about.title, &shown.page(&place, &draft));
    let status = StatusCode::from_u16(problem.status);
    *response.status_mut() = status.unwrap_or(StatusCode::BAD_REQUEST);
    Ok(response)
}

/// The address of the form, looked at: the conversation.
pub(crate) async fn asked_before(Path(id): Path<String>) -> Redirect {
    back(&id, &main_branch())
}

/// The parts of a session's page.
struct Shown {
    /// The context, or why it cannot be built; `None` for an empty branch.
    context: Option<Result<Context, String>>,
    messages: Vec<Message>,
    checkpoints: Page<Checkpoint>,
    topics: Page<Topic>,
    turns: Page<Turn>,
    configured: Configured,
    agents: Vec<Agent>,
    waits: Waits,
}

impl Shown {
    async fn read(service: &dyn Service, place: &Place) -> service::Result<Shown> {
        let (id, branch) = (&place.about.session, &place.branch);
        let first = place.length.saturating_sub(MESSAGES - 1).max(1);
        let few = lists::first_of_branch(branch, FEW);
        let topics = match place.length {
            0 => Page {
                items: Vec::new(),
                next: None,
            },
            _ => service.topics(id, &few).await?,
        };
        let asked = AgentQuery {
            session: Some(id.clone()),
            ..AgentQuery::default()
        };
        Ok(Shown {
            context: place.context(service).await?,
            messages: lists::messages(service, place, first, MESSAGES).await?,
            checkpoints: service.checkpoints(id, &few).await?,
            topics,
            turns: lists::turns(service, place, None, NEWEST).await?,
            configured: Configured::read(service, id).await?,
            // Where a setting is wrong, that is said by the context.
            agents: service.agents(&asked).await.unwrap_or_default(),
            waits: Waits::read(service, id).await?,
        })
    }

    fn page(&self, place: &Place, draft: &Draft) -> Markup {
        place.page(&html! {
            @if let Some(lost) = &place.about.lost { (self::lost(lost)) }
            @if !self.waits.calls().is_empty() {
                section id="waiting" {
                    h2 { "Waiting for you" }
                    @for call in self.waits.calls().iter().take(CALLS) { (approvals::card(call, &place.at(""))) }
                    @if self.waits.calls().len() > CALLS {
                        p { a href="/approvals" { "All " (self.waits.calls().len()) " calls that wait" } }
                    }
                }
            }
            @match &self.context {
                Some(Ok(context)) => (bar(context, &places(place, &self.messages))),
                Some(Err(wrong)) => p class="trouble" { "The context cannot be shown: " (wrong) },
                None => {},
            }
            div class="bench" {
                div class="talk" {
                    (self.conversation(place))
                    (composer::form(place, &self.configured, &self.agents, draft))
                }
                div class="beside-talk" {
                    div class="pane" role="region" aria-label="Turns" tabindex="0" { (self.turns(place)) }
                    div class="pane rest" role="region" aria-label="Checkpoints, topics, budgets" tabindex="0" {
                        (self.checkpoints(place))
                        (sealing(place, &self.topics))
                        @if !place.about.budgets.is_empty() {
                            section { h2 { "Budgets" } (budgets(&place.about.budgets)) }
                        }
                    }
                }
            }
        })
    }

    fn conversation(&self, place: &Place) -> Markup {
        let open = self.turns.items.iter().rev();
        let open = open.filter(|turn| turn.ended.is_none());
        let earlier = place.length.saturating_sub(2 * MESSAGES - 1).max(1);
        let shown_first = self.messages.first().map_or(1, |first| first.ordinal);
        html! {
            section class="scroller" role="region" aria-label="Conversation" tabindex="0" {
                div class="messages" {
                    h2 { "Conversation" }
                    @if shown_first > 1 {
                        p class="links" { a href=(place.at(&format!("/history?from={earlier}"))) { "Earlier messages" }
                            a class="narrow" href="#newest" { "To the newest" } }
                    }
                    @if self.messages.is_empty() { p class="quiet" { "Nothing was said yet." } }
                    @for one in &self.messages {
                        (message::show(one, place, one.ordinal + OPEN > place.length))
                    }
                    @for turn in open { (turn::under_way(turn, &self.waits)) }
                    div id="newest" {}
                }
            }
        }
    }

    fn turns(&self, place: &Place) -> Markup {
        html! {
            section {
                h2 { "Turns" }
                @if self.turns.items.is_empty() { p class="quiet" { "Nothing was asked yet." } }
                @for (at, turn) in self.turns.items.iter().enumerate() {
                    (turn::card(turn, &self.waits, place, self.configured.notifies, at == 0 || turn.ended.is_none()))
                }
                (older(place, &self.turns))
            }
        }
    }

    fn checkpoints(&self, place: &Place) -> Markup {
        let snapshot = self.context.iter().flatten().next();
        html! {
            @if let Some(context) = snapshot {
                section {
                    h2 { "What the model sees" }
                    p { a href=(place.at("/context")) { "All of it" }
                        " · snapshot " (digest(&context.snapshot)) ", counted with " (context.encoding) }
                }
            }
            // A new checkpoint moves nothing else: it is below.
            section {
                h2 { "Checkpoints" }
                @if place.length > 0 {
                    p { a class="button" data-dialog href=(place.at("/compact")) { "Compact …" } }
                }
                @if self.checkpoints.items.is_empty() { p class="quiet" { "Nothing is summarised yet." } }
                (summaries::cards(place, &self.checkpoints.items))
                @if self.checkpoints.next.is_some() { p { a href=(place.at("/checkpoints")) { "All checkpoints" } } }
            }
        }
    }
}

/// Where messages and checkpoints are shown: those on this page, here.
fn places<'p>(place: &'p Place, messages: &'p [Message]) -> Places<'p> {
    let first = messages.first().map_or(u32::MAX, |first| first.ordinal);
    Places {
        message: Box::new(move |number| match number >= first {
            true => format!("#m{number}"),
            false => place.message(number).unwrap_or_default(),
        }),
        checkpoint: Box::new(|number| place.at(&format!("/checkpoints/{number}"))),
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

/// A part of the turns of a branch.
#[derive(Debug, Deserialize)]
pub(crate) struct Before {
    #[serde(default = "main_branch")]
    branch: String,
    before: Option<u64>,
}

/// The turns of a branch, a part at a time.
pub(crate) async fn turns(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(which): Query<Before>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &which.branch).await?;
    let turns = lists::turns(&*service, &place, which.before, TURNS).await?;
    let notifies = Configured::read(&*service, &id).await?.notifies;
    let waits = Waits::read(&*service, &id).await?;
    let body = place.page(&html! {
        section {
            h2 { "Turns" }
            @if turns.items.is_empty() { p class="quiet" { "There are no older ones." } }
            @for turn in &turns.items { (turn::card(turn, &waits, &place, notifies, false)) }
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

fn sealing(place: &Place, topics: &Page<Topic>) -> Markup {
    html! {
        @if !topics.items.is_empty() {
            h3 { "Topics" }
            ul { @for topic in &topics.items {
                li { "#" (topic.first) "–#" (topic.last) " "
                    @if let Some(title) = &topic.title { (title) " " }
                    @match topic.summary {
                        Some(number) => a class="tag" data-dialog href=(place.at(&format!("/checkpoints/{number}"))) { (topic.status) },
                        None => span class="tag" { (topic.status) },
                    }
                    " " span class="quiet" { (when_known("", topic.started_at.as_deref())) @if topic.started_at.is_some() { ", " } @match topic.ended_by.as_ref().zip(topic.sealed_at.as_ref()) {
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
