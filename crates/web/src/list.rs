//! `/`: the sessions, and a search in all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::fmt;
use unisono_api::search::{SearchQuery, SearchResults};
use unisono_api::service::{self, Service};
use unisono_api::session::{MAIN_BRANCH, NewSession, SessionListItem, SessionQuery, main_branch};

use crate::error::{self, PageError};
use crate::extract::{Form, Query};
use crate::layout::{cut_title, layout};
use crate::parts::encoded;
use crate::text_limit::{TextLimit, written};
use crate::{history, importing, lists, parts, waiting_calls};

/// The refresh interval of the list in seconds.
const EVERY: u32 = 5;
/// Sessions per page.
const SHOWN: usize = 50;
/// Labels of a session that are shown and their bytes, the characters of a key and of a value, and the
/// bytes of a label that has a link.
const LABELS: usize = 8;
const LABELS_BYTES: usize = 560;
const KEY: usize = 40;
const VALUE: usize = 24;
const LINKED: usize = 200;
/// Room for the links of the labels, in bytes.
const LINKS: usize = 10 * 1024;

#[derive(Debug, Deserialize)]
pub(crate) struct ListQuery {
    /// The number of newer sessions to skip.
    #[serde(default)]
    after: usize,
    /// The search query.
    #[serde(default)]
    q: String,
    /// The label they have: `name=value`.
    #[serde(default)]
    label: String,
}

/// The sessions, most recently changed first.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Query(which): Query<ListQuery>,
) -> Result<Response, PageError> {
    if !which.q.trim().is_empty() {
        return search(&*service, &which.q).await;
    }
    // Blanks around a label may belong to it.
    let label = match which.label.trim() {
        "" => "",
        _ => which.label.as_str(),
    };
    let shown = SessionList::read(&*service, which.after, label).await?;
    let body = html! { div id="live" data-every=(EVERY) {
        h1 { "Sessions" }
        @if !shown.any && label.is_empty() { (nothing()) } @else {
            (searching("")) (narrowing(label))
            p class="links" { a href="/import" { "Import a conversation" } a href="#new" { "New conversation" } }
            @if shown.sessions.is_empty() { (none_here(label, shown.any)) } @else { (table(&shown)) }
        }
        @if shown.more {
            p { a href={ "/?after=" (which.after + SHOWN) "&label=" (encoded(label)) } { "Older sessions" } }
        }
        (form())
    }
    (importing::short_form()) };
    Ok(layout("Sessions", &body))
}

/// The messages of all sessions that match. A refused search is shown again with the reason.
async fn search(service: &dyn Service, q: &str) -> Result<Response, PageError> {
    let sought = SearchQuery {
        q: q.to_owned(),
        branch: main_branch(),
        cursor: None,
        limit: NonZeroUsize::new(SHOWN),
    };
    match service.search(None, &sought).await {
        Ok(found) => Ok(layout("Search", &results(&found, q))),
        Err(service::Error::Problem(problem)) => {
            let page = layout("Search", &searched(q, &history::refused(&problem)));
            Ok((error::status(&problem), page).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

struct SessionList {
    sessions: Vec<SessionListItem>,
    /// Whether there are sessions, also on other pages.
    any: bool,
    /// Whether there are older sessions.
    more: bool,
    /// The number of waiting calls of the shown sessions, by session.
    waits: BTreeMap<String, usize>,
    /// The sessions with open turns.
    open: BTreeSet<String>,
}

impl SessionList {
    /// The state of a session with open work.
    fn state(&self, session: &str) -> Markup {
        let calls = self.waits.get(session).copied().unwrap_or(0);
        html! {
            @if calls > 0 { (waiting_calls::badge(calls, session)) }
            @else if self.open.contains(session) { span class="state working" { "working" } }
        }
    }

    /// Reads a page of the sessions with a label, or of all sessions, after the skipped ones.
    async fn read(
        service: &dyn Service,
        after: usize,
        label: &str,
    ) -> service::Result<SessionList> {
        let mut query = SessionQuery {
            label: (!label.is_empty()).then(|| label.to_owned()),
            by_change: true,
            ..SessionQuery::default()
        };
        let (mut any, mut left_out) = (false, 0);
        loop {
            let skip = after.saturating_sub(left_out);
            // Skipped sessions are read page by page, followed by the shown ones.
            query.limit = NonZeroUsize::new(if skip > 0 { skip } else { SHOWN });
            let part = service.sessions(&query).await?;
            any |= !part.items.is_empty();
            let more = part.next.is_some();
            if skip == 0 || !more {
                let sessions = if skip == 0 { part.items } else { Vec::new() };
                let shown: Vec<String> = (sessions.iter())
                    .map(|session| session.session.clone())
                    .collect();
                return Ok(SessionList {
                    sessions,
                    any,
                    more,
                    // The list is there also if a session does not respond.
                    waits: service.count_approvals_of(&shown).await.unwrap_or_default(),
                    open: open(service).await?,
                });
            }
            left_out += part.items.len();
            query.cursor = part.next;
        }
    }
}

/// The sessions with open turns that changed last.
async fn open(service: &dyn Service) -> service::Result<BTreeSet<String>> {
    let query = SessionQuery {
        open: true,
        by_change: true,
        limit: lists::PART,
        ..SessionQuery::default()
    };
    let found = service.sessions(&query).await?.items.into_iter();
    Ok(found.map(|session| session.session).collect())
}

fn searching(q: &str) -> Markup {
    html! {
        form method="get" action="/" role="search" class="search" {
            label for="q" { "Search all messages" }
            input id="q" name="q" type="search" value=(q);
            button { "Search" }
        }
    }
}

fn narrowing(label: &str) -> Markup {
    html! {
        form method="get" action="/" class="search" {
            label for="label" { "Only sessions with this label" }
            input id="label" name="label" value=(label) placeholder="team=shop";
            button { "Show" }
        }
    }
}

/// The reason why the page is empty although there are sessions.
fn none_here(label: &str, any: bool) -> Markup {
    html! {
        p role="status" {
            @if any { "There are no older sessions. " } @else {
                "No session has the label " code { (label) } ". "
            }
            a href="/" { "Show all sessions" }
        }
    }
}

fn results(found: &SearchResults, q: &str) -> Markup {
    let found = html! {
        p role="status" { (history::found_count(found)) }
        @for note in &found.notes { p class="quiet" { (note) } }
        @if !found.complete { p class="quiet" { "The newest messages are not indexed yet: search again in a moment." } }
        @for hit in &found.hits { (history::hit(hit, MAIN_BRANCH, true)) }
    };
    searched(q, &found)
}

/// The page of a search, with what came of it.
fn searched(q: &str, found: &Markup) -> Markup {
    html! {
        h1 { "Search" }
        (searching(q))
        (found)
        p { a href="/" { "Back to the sessions" } }
    }
}

fn nothing() -> Markup {
    html! {
        section class="card" {
            h2 { "Begin here" }
            p { "There is no conversation yet." }
            ol class="steps" {
                li {
                    form method="post" action="/examples" {
                        p { "Start from an example: a conversation of 159 messages about a migration." }
                        button class="small" { "Start from the example" }
                    }
                }
                li { "Ask its agents something. Without a provider's key they answer with quotes, offline and free; "
                    a href="/doctor" { "Doctor" } " checks whether a model can answer." }
                li { a href="/import" { "Import a conversation of your own" } ", or start a new one below." }
            }
        }
    }
}

/// The sessions. The roles say that it is a table where the style shows its rows as blocks.
fn table(shown: &SessionList) -> Markup {
    let room = TextLimit::new(LINKS);
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Sessions" {
            table class="stacked" role="table" {
                thead role="rowgroup" { tr role="row" { th scope="col" role="columnheader" { "Title" }
                    th scope="col" role="columnheader" class="number" { "Events" }
                    th scope="col" role="columnheader" { "Updated (UTC)" } } }
                tbody role="rowgroup" {
                    @for session in &shown.sessions {
                        tr role="row" id={ "session-" (session.session) } {
                            td role="cell" class="whole" {
                                a class="title" href={ "/sessions/" (session.session) } { (cut_title(&session.title)) }
                                " " (shown.state(&session.session)) " "
                                (labels(session, &room))
                            }
                            td role="cell" class="number" data-label="Events" { (session.events) }
                            td role="cell" data-label="Updated" { (parts::when(&session.updated_at)) }
                        }
                    }
                }
            }
        }
    }
}

/// The first labels of a session, each as a link to the sessions that have it, as long as there is
/// room for links.
fn labels(session: &SessionListItem, room: &TextLimit) -> Markup {
    let labels = session.labels.iter();
    let labels: Vec<_> = labels
        .filter(|(key, _)| !key.starts_with("source."))
        .collect();
    let mut left = LABELS_BYTES;
    let texts = labels.iter().take(LABELS).map_while(|(key, value)| {
        let text = format!("{}={}", fmt::line(key, KEY), fmt::line(value, VALUE));
        left = left.checked_sub(text.chars().map(written).sum())?;
        Some(text)
    });
    let texts: Vec<String> = texts.collect();
    let more = labels.len() - texts.len();
    html! {
        @for ((key, value), text) in labels.iter().zip(&texts) {
            @match link(key, value).filter(|link| room.cut(link).1 == 0) {
                Some(link) => a class="tag" href=(link) { (text) },
                None => span class="tag" { (text) },
            }
        }
        @if more > 0 { " and " (more) " more" }
    }
}

/// The address of the sessions with a label; none if it is long, or no filter can name it.
fn link(key: &str, value: &str) -> Option<String> {
    let begin = key.trim_start();
    let is_named = !begin.is_empty() && !begin.starts_with('=');
    let label = format!("{key}={value}");
    (is_named && label.len() <= LINKED).then(|| format!("/?label={}", encoded(&label)))
}

fn form() -> Markup {
    html! {
        section class="card" id="new" {
            h2 { "New conversation" }
            form method="post" action="/" {
                label for="title" { "Title" }
                input id="title" name="title" required maxlength="200";
                label for="system" { "System text for every agent (optional)" }
                textarea id="system" name="system" rows="2" {}
                button { "Start" }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct NewConversation {
    title: String,
    system: String,
}

pub(crate) async fn create(
    State(service): State<Arc<dyn Service>>,
    Form(new): Form<NewConversation>,
) -> Result<Redirect, PageError> {
    let new = NewSession {
        title: Some(new.title),
        system: Some(new.system),
        ..NewSession::default()
    };
    let made = service.create_session(new).await?;
    Ok(Redirect::to(&format!("/sessions/{}", made.session)))
}
