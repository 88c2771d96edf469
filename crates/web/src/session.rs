//! `/sessions/{session}`: a conversation, its context and its running agents.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::agent::{Agent, AgentQuery};
use unisono_api::compaction::Checkpoint;
use unisono_api::context::Context;
use unisono_api::message::Message;
use unisono_api::service::{self, Service};
use unisono_api::session::{Session, main_branch};
use unisono_api::store::LostEvents;
use unisono_api::topic::Topic;
use unisono_api::turn::{Turn, TurnRequest};
use unisono_api::{Page, fmt};

use crate::branch_view::{BranchQuery, BranchView, back};
use crate::composer::{self, Draft};
use crate::error::{PageError, status};
use crate::extract::{FormFile, FormWithFiles, Path, Query};
use crate::layout::{layout, wide};
use crate::lists::NewestTopics;
use crate::parts::{counted, digest, encoded, when, when_known};
use crate::pictures::bars::budgets;
use crate::pictures::context::{Places, bar};
use crate::session_settings::SessionSettings;
use crate::text_limit::TextLimit;
use crate::turn::TurnView;
use crate::waiting_calls::WaitingCalls;
use crate::{lists, message, summaries, turn};

/// Maximum shown messages, newest first.
const MESSAGES: u32 = 30;
/// The number of newest messages that are never folded.
const OPEN: u32 = 2;
/// Turns next to the conversation, and on the page of turns.
const NEWEST: usize = 4;
const TURNS: usize = 20;
/// Maximum bytes of all uncut texts beside the messages: of waiting calls, turns and checkpoints, in
/// this order.
const BESIDE: usize = 10 * 1024;
/// Maximum bytes of all uncut messages.
const TALK: usize = 20 * 1024;
/// Maximum shown runs of a turn in a list of turns.
const MAX_RUNS: usize = 24;
/// Maximum shown waiting calls.
const CALLS: usize = 10;
/// Maximum shown checkpoints.
const FEW: Option<NonZeroUsize> = NonZeroUsize::new(8);
/// Maximum shown topics, newest first, and characters of their titles.
const TOPICS: usize = 8;
const TOPIC: usize = 100;

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(on): Query<BranchQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &on.branch).await?;
    let shown = SessionPage::read(&*service, &place).await?;
    let draft = Draft::new(&shown.settings);
    Ok(wide(&place.about.title, &shown.page(&place, &draft)))
}

/// Begins a turn. A rejected form is shown again with the reason.
pub(crate) async fn ask(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    form: FormWithFiles,
) -> Result<Response, PageError> {
    let mut draft = Draft::read(form.fields);
    draft.choose_named_agents(&*service, &id).await?;
    begin(&*service, &id, draft, form.files).await
}

/// Sends the task of a turn once more.
pub(crate) async fn ask_again(
    State(service): State<Arc<dyn Service>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let turn = service.turn(&id, &turn).await?;
    let settings = SessionSettings::read(&*service, &id).await?;
    begin(&*service, &id, Draft::again(&turn, &settings), Vec::new()).await
}

/// Begins the turn of a form, or shows the form again with the reason.
async fn begin(
    service: &dyn Service,
    id: &str,
    mut draft: Draft,
    files: Vec<FormFile>,
) -> Result<Response, PageError> {
    let begun = async {
        draft.store(service, files).await?;
        let asked = TurnRequest::Task(draft.turn());
        service.begin(id, &asked, draft.key.as_deref()).await
    };
    let problem = match begun.await {
        Ok(_) => return Ok(back(id, &draft.branch).into_response()),
        Err(service::Error::Problem(problem)) => problem,
        Err(error) => return Err(error.into()),
    };
    // Without the session or the branch there is no form.
    let place = BranchView::load(service, id, &draft.branch).await?;
    let shown = SessionPage::read(service, &place).await?;
    draft.error = Some(problem.detail.clone());
    let mut response = wide(&place.about.title, &shown.page(&place, &draft));
    *response.status_mut() = status(&problem);
    Ok(response)
}

/// Redirects from the address of the form to the conversation.
pub(crate) async fn redirect_to_conversation(Path(id): Path<String>) -> Redirect {
    back(&id, &main_branch())
}

struct SessionPage {
    /// The context, or why it cannot be built; `None` for an empty branch.
    context: Option<Result<Context, String>>,
    messages: Vec<Message>,
    checkpoints: Page<Checkpoint>,
    topics: NewestTopics,
    turns: Page<Turn>,
    settings: SessionSettings,
    agents: Vec<Agent>,
    waits: WaitingCalls,
}

impl SessionPage {
    async fn read(service: &dyn Service, place: &BranchView) -> service::Result<SessionPage> {
        let (id, branch) = (&place.about.session, &place.branch);
        let first = place.length.saturating_sub(MESSAGES - 1).max(1);
        let few = lists::first_of_branch(branch, FEW);
        let asked = AgentQuery {
            session: Some(id.clone()),
            ..AgentQuery::default()
        };
        Ok(SessionPage {
            context: place.context(service).await?,
            messages: lists::messages(service, place, first, MESSAGES).await?,
            checkpoints: service.checkpoints(id, &few).await?,
            topics: lists::newest_topics(service, place, TOPICS).await?,
            turns: newest_turns(service, place).await?,
            settings: SessionSettings::read(service, id).await?,
            // The context reports a wrong setting.
            agents: service.agents(&asked).await.unwrap_or_default(),
            waits: WaitingCalls::read(service, id).await?,
        })
    }

    fn page(&self, place: &BranchView, draft: &Draft) -> Markup {
        let view = TurnView {
            place,
            waits: &self.waits,
            settings: &self.settings,
            room: &TextLimit::new(BESIDE),
            max_runs: MAX_RUNS,
        };
        // It comes first in the order of the room.
        let waiting = self.waiting(&view);
        place.page(&html! {
            @if let Some(lost) = &place.about.lost { (self::lost(lost)) }
            @match &self.context {
                Some(Ok(context)) => (bar(context, &places(place, &self.messages))),
                Some(Err(wrong)) => p class="trouble" { "The context cannot be shown: " (wrong) },
                None => {},
            }
            div class="bench" {
                div class="talk" {
                    (self.conversation(place, &waiting))
                    (composer::form(place, &self.settings, &self.agents, draft))
                }
                div class="beside-talk" {
                    div class="pane" role="region" aria-label="Turns" tabindex="0" { (self.turns(&view)) }
                    div class="pane rest" role="region" aria-label="Checkpoints, topics, budgets" tabindex="0" {
                        (self.checkpoints(&view))
                        (sealing(place, &self.topics))
                        (self.earlier_turns(&view))
                        (session_budgets(&place.about))
                    }
                }
            }
        })
    }

    fn conversation(&self, place: &BranchView, waiting: &Markup) -> Markup {
        let open = self.turns.items.iter().rev();
        let open = open.filter(|turn| turn.ended_at.is_none());
        let earlier = place.length.saturating_sub(2 * MESSAGES - 1).max(1);
        let shown_first = self.messages.first().map_or(1, |first| first.ordinal);
        html! {
            section class="scroller" role="region" aria-label="Conversation" tabindex="0" {
                div class="messages" {
                    h2 { "Conversation" }
                    @if shown_first > 1 {
                        p { a class="older" href=(place.path(&format!("/history?from={earlier}"))) { "Earlier messages" } }
                    }
                    @if self.messages.is_empty() { p class="quiet" { "There are no messages yet." } }
                    (message::list(&self.messages, place, place.length.saturating_sub(OPEN), &TextLimit::new(TALK)))
                    @for turn in open { (turn::under_way(turn, &self.waits, place)) }
                    (waiting)
                    div id="newest" {}
                }
            }
        }
    }

    /// The calls that wait, at the end of the conversation, where they move nothing else.
    fn waiting(&self, view: &TurnView<'_>) -> Markup {
        html! {
            @if !self.waits.calls().is_empty() {
                section id="waiting" {
                    h2 { "Waiting for you" }
                    (self.waits.cards(CALLS, &view.place.path(""), view.room))
                }
            }
        }
    }

    /// The newest turn and open ones.
    fn turns(&self, view: &TurnView<'_>) -> Markup {
        let shown = self.turns.items.iter().enumerate();
        let shown = shown.filter(|(at, turn)| *at == 0 || turn.ended_at.is_none());
        html! {
            section {
                h2 { "Turns" }
                @if self.turns.items.is_empty() { p class="quiet" { (no_turns(&self.turns, "There are no turns yet.")) } }
                @for (_, turn) in shown { (view.card(turn, true)) }
            }
        }
    }

    /// The ended turns before the newest one. They have a pane of their own, where a turn that grows
    /// does not move them.
    fn earlier_turns(&self, view: &TurnView<'_>) -> Markup {
        let ended = self.turns.items.iter().skip(1);
        let ended: Vec<&Turn> = ended.filter(|turn| turn.ended_at.is_some()).collect();
        html! {
            @if !ended.is_empty() || self.turns.next.is_some() {
                section {
                    h2 { "Earlier turns" }
                    @for turn in ended { (view.card(turn, false)) }
                    (older(view.place, &self.turns))
                }
            }
        }
    }

    fn checkpoints(&self, view: &TurnView<'_>) -> Markup {
        let place = view.place;
        let snapshot = self.context.iter().flatten().next();
        html! {
            @if let Some(context) = snapshot {
                section {
                    h2 { "Context" }
                    p { a href=(place.path("/context")) { "All of it" }
                        " · snapshot " (digest(&context.snapshot)) ", counted with " (context.encoding) }
                }
            }
            section {
                h2 { "Checkpoints" }
                @if place.length > 0 {
                    p { a class="button" data-dialog href=(place.path("/compact")) { "Compact …" } }
                }
                @if self.checkpoints.items.is_empty() { p class="quiet" { "Nothing is summarised yet." } }
                (summaries::cards(place, &self.checkpoints.items, view.room))
                @if self.checkpoints.next.is_some() { p { a href=(place.path("/checkpoints")) { "All checkpoints" } } }
            }
        }
    }
}

/// The newest turns of a branch, and the one that is worked on: it is older than those that wait for it.
async fn newest_turns(service: &dyn Service, place: &BranchView) -> service::Result<Page<Turn>> {
    let mut turns = lists::turns(service, place, None, NEWEST).await?;
    let oldest = turns.items.last();
    if turns.next.is_none() || oldest.is_some_and(|turn| turn.ended_at.is_some()) {
        return Ok(turns);
    }
    // The oldest comes first.
    for id in &place.about.open_turns.items {
        let turn = lists::existing(service.turn(&place.about.session, id).await)?;
        let is_open = |turn: &Turn| turn.branch == place.branch && turn.ended_at.is_none();
        if let Some(turn) = turn.filter(is_open) {
            if turns.items.iter().all(|shown| shown.turn != turn.turn) {
                turns.items.push(turn);
            }
            break;
        }
    }
    Ok(turns)
}

/// What stands in place of turns: those of a branch may be older than many of other branches.
fn no_turns(turns: &Page<Turn>, complete: &'static str) -> &'static str {
    match turns.next {
        Some(_) => "The newest turns are of other branches.",
        None => complete,
    }
}

/// The links of messages and checkpoints; for those on this page, anchors.
fn places<'p>(place: &'p BranchView, messages: &'p [Message]) -> Places<'p> {
    let first = messages.first().map_or(u32::MAX, |first| first.ordinal);
    Places {
        message: Box::new(move |number| match number >= first {
            true => format!("#m{number}"),
            false => place.message(number).unwrap_or_default(),
        }),
        checkpoint: Box::new(|number| place.path(&format!("/checkpoints/{number}"))),
    }
}

/// The budgets of a session and of its open turns. Those of a turn come and go with it: they are last,
/// where they move nothing.
fn session_budgets(about: &Session) -> Markup {
    let mut all = about.budgets.clone();
    all.sort_by_key(|budget| budget.turn.is_some());
    html! {
        @if !all.is_empty() {
            section { h2 { "Budgets" } (budgets(&all, Some(&about.session))) }
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

#[derive(Debug, Deserialize)]
pub(crate) struct TurnsQuery {
    #[serde(default = "main_branch")]
    branch: String,
    before: Option<u64>,
}

/// The turns of a branch, a part at a time.
pub(crate) async fn turns(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(which): Query<TurnsQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &which.branch).await?;
    let turns = lists::turns(&*service, &place, which.before, TURNS).await?;
    let settings = SessionSettings::read(&*service, &id).await?;
    let waits = WaitingCalls::read(&*service, &id).await?;
    let view = TurnView {
        place: &place,
        waits: &waits,
        settings: &settings,
        room: &TextLimit::new(2 * BESIDE),
        max_runs: MAX_RUNS,
    };
    let body = place.page(&html! {
        section {
            h2 { "Turns" }
            @if turns.items.is_empty() { p class="quiet" { (no_turns(&turns, "There are no older ones.")) } }
            @for turn in &turns.items { (view.card(turn, false)) }
            (older(&place, &turns))
        }
        p { a href=(place.path("")) { "Back to the conversation" } }
    });
    Ok(layout(&place.about.title, &body))
}

fn older(place: &BranchView, turns: &Page<Turn>) -> Markup {
    html! {
        @if let Some(before) = &turns.next {
            p { a href={ (place.path("/turns")) "&before=" (before) } { "Older turns" } }
        }
    }
}

fn sealing(place: &BranchView, topics: &NewestTopics) -> Markup {
    let all = format!("/v1/sessions/{}/topics?branch=", place.about.session);
    html! {
        @if !topics.items.is_empty() {
            h3 { "Topics" }
            @if topics.earlier > 0 {
                p { a href={ (all) (encoded(&place.branch)) } { (counted(topics.earlier as u64, "earlier topic")) ", as JSON" } }
            }
            ul { @for topic in &topics.items {
                li { "#" (topic.first) "–#" (topic.last) " "
                    @if let Some(title) = &topic.title { (fmt::line(title, TOPIC)) " " }
                    @match topic.summary {
                        Some(number) => a class="tag" data-dialog href=(place.path(&format!("/checkpoints/{number}"))) { (topic.status) },
                        None => span class="tag" { (topic.status) },
                    }
                    " " span class="quiet" { (when_known("", topic.started_at.as_deref())) @if topic.started_at.is_some() { ", " } @match topic.ended_by.as_ref().zip(topic.sealed_at.as_ref()) {
                        Some((by, at)) => { "ended by " (by) ", sealed " (when(at)) },
                        None => "current",
                    } }
                    @if topic.ended_by.is_some() && topic.status != "summarised" {
                        " " a data-dialog href=(place.path(&format!("/compact?part={}", topic.first))) { "Summarise …" }
                    } }
            } }
        }
        @if can_seal(place.length, &topics.items) {
            form method="post" action={ "/sessions/" (place.about.session) "/seal" } {
                input type="hidden" name="branch" value=(place.branch);
                button class="small" { "Seal the current topic" }
            }
        }
    }
}

/// Whether the current topic of a branch of that length can be sealed: it has at least two messages.
fn can_seal(length: u32, topics: &[Topic]) -> bool {
    let sealed = topics.iter().filter(|topic| topic.sealed_at.is_some());
    let last = sealed.map(|topic| topic.last).max().unwrap_or(0);
    length.saturating_sub(last) > 1
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_branch_whose_turns_are_older_is_not_called_empty() {
        let mut turns = Page {
            items: Vec::new(),
            next: None,
        };
        assert_eq!(no_turns(&turns, "none"), "none");
        turns.next = Some("7".to_owned());
        assert!(no_turns(&turns, "none").contains("other branches"));
    }

    #[test]
    fn only_a_topic_of_two_messages_can_be_sealed() {
        let topic = |first: u32, last: u32, sealed: &Value| -> Topic {
            serde_json::from_value(json!({
                "first": first, "last": last, "messages": last - first + 1, "title": null,
                "started_at": null, "last_at": null, "sealed_at": sealed, "summary": null,
                "ended_by": null, "status": "verbatim",
            }))
            .unwrap()
        };
        let at = json!("2026-03-06T10:00:00Z");
        let sealed = topic(1, 4, &at);
        for (length, topics, expected) in [
            (0, vec![], false),
            (1, vec![], false),
            (2, vec![], true),
            (4, vec![sealed.clone()], false),
            (5, vec![sealed.clone(), topic(5, 5, &Value::Null)], false),
            (6, vec![sealed, topic(5, 6, &Value::Null)], true),
        ] {
            assert_eq!(can_seal(length, &topics), expected, "{length}");
        }
    }
}
