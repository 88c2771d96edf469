//! `/`: the sessions, and what was said in any of them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::search::Found as Hits;
use unisono_api::search::SearchQuery;
use unisono_api::service::Search;
use unisono_api::session::{Listed, NewSession, main_branch};

use super::parts::encoded;
use super::{Trouble, history, layout, parts};
use crate::http::Shared;
use crate::http::extract::{Form, Query};
use unisono::Local;
use unisono::labels::Label;
use unisono::service::sessions::Found;
use unisono::short;

/// Sessions that are shown at a time.
const SHOWN: usize = 50;

/// Which of them.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    /// How many newer ones are left out.
    #[serde(default)]
    after: usize,
    /// Words that are searched for.
    #[serde(default)]
    q: String,
    /// The label they have: `name=value`.
    #[serde(default)]
    label: String,
}

/// The sessions, the one that changed last first.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Which>,
) -> Result<Response, Trouble> {
    if !which.q.trim().is_empty() {
        let sought = SearchQuery {
            q: which.q.clone(),
            branch: main_branch(),
            cursor: None,
            limit: std::num::NonZeroUsize::new(SHOWN),
        };
        let hits = Search::search(&*shared.local, None, &sought).await?;
        return Ok(layout("Search", &results(&hits, &which.q)));
    }
    let mut all = newest_first(&shared.local).await?;
    let label = which.label.trim();
    if !label.is_empty() {
        all = labelled(&shared.local, all, label).await?;
    }
    let count = all.len();
    let part = all.into_iter().skip(which.after).take(SHOWN).collect();
    let shown = unisono::service::sessions::listed(&shared.local, part).await?;
    let body = html! {
        h1 { "Sessions" }
        @if count == 0 && label.is_empty() { (nothing()) } @else {
            (searching("")) (narrowing(label))
            @if shown.is_empty() { (none_here(label, count)) } @else { (table(&shown)) }
        }
        @if which.after + SHOWN < count {
            p { a href={ "/?after=" (which.after + SHOWN) "&label=" (encoded(label)) } { "Older sessions" } }
        }
        (form())
    };
    Ok(layout("Sessions", &body))
}

fn searching(q: &str) -> Markup {
    html! {
        form method="get" action="/" role="search" class="search" {
            label for="q" { "Search all that was said" }
            input id="q" name="q" type="search" value=(q);
            button { "Search" }
        }
    }
}

fn narrowing(label: &str) -> Markup {
    html! {
        form method="get" action="/" class="search" {
            label for="label" { "Only those with a label" }
            input id="label" name="label" value=(label) placeholder="team=shop";
            button { "Show" }
        }
    }
}

/// Why no session is shown, where some are stored.
fn none_here(label: &str, count: usize) -> Markup {
    html! {
        p role="status" {
            @if count > 0 { "There are no older sessions. " } @else {
                "No session has the label " code { (label) } ". "
            }
            a href="/" { "Show all sessions" }
        }
    }
}

/// Those of the sessions that have a label, in the same order.
async fn labelled(local: &Local, all: Vec<Found>, label: &str) -> Result<Vec<Found>, Trouble> {
    let label = unisono::service::sessions::label(label)?;
    let journal = local.journal();
    let mut fitting = Vec::new();
    let mut rest = all.into_iter().peekable();
    while rest.peek().is_some() {
        let part: Vec<Found> = rest.by_ref().take(1_024).collect();
        let ids: Vec<_> = part.iter().map(|found| found.id).collect();
        let firsts = journal.first_events(&ids).await?;
        let has = |first: &Option<_>| {
            let first = first.as_ref();
            first.is_some_and(|first| Label::all_of(std::slice::from_ref(&label), first))
        };
        let each = part.into_iter().zip(firsts);
        fitting.extend(each.filter(|(_, first)| has(first)).map(|(found, _)| found));
    }
    Ok(fitting)
}

fn results(found: &Hits, q: &str) -> Markup {
    html! {
        h1 { "Search" }
        (searching(q))
        p role="status" { (parts::number(found.hits.len() as u64)) " found" }
        @for note in &found.notes { p class="quiet" { (note) } }
        @if !found.complete { p class="quiet" { "Not all is taken in yet: search again in a moment." } }
        @for hit in &found.hits { (history::hit(hit, true)) }
        p { a href="/" { "Back to the sessions" } }
    }
}

async fn newest_first(local: &Local) -> Result<Vec<Found>, unisono_store::Error> {
    let mut all: Vec<Found> = Vec::new();
    loop {
        let after = all.last().map(|last| last.id);
        let page = unisono::service::sessions::page(local, after, 1_024).await?;
        if page.is_empty() {
            all.sort_by_key(|found| std::cmp::Reverse(found.info.updated_unix_ms));
            return Ok(all);
        }
        all.extend(page);
    }
}

fn nothing() -> Markup {
    html! {
        section class="card" {
            p { "There is no conversation yet. Start one below, or bring one along:" }
            pre { "unisono import talk.jsonl" }
        }
    }
}

fn table(sessions: &[Listed]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Sessions" {
            table {
                thead { tr { th scope="col" { "Title" } th scope="col" { "Labels" }
                    th scope="col" class="number" { "Events" } th scope="col" { "Updated (UTC)" } } }
                tbody {
                    @for session in sessions {
                        tr {
                            td { a href={ "/sessions/" (session.session) } { (session.title) } }
                            td class="quiet" {
                                @for (key, value) in session.labels.iter().filter(|(key, _)| !key.starts_with("source.")) {
                                    a class="tag" href={ "/?label=" (encoded(&format!("{key}={value}"))) } { (key) "=" (short::line(value, 24)) }
                                }
                            }
                            td class="number" { (session.events) }
                            td { (parts::when(&session.updated)) }
                        }
                    }
                }
            }
        }
    }
}

fn form() -> Markup {
    html! {
        section class="card" {
            h2 { "New conversation" }
            form method="post" action="/" {
                label for="title" { "Title" }
                input id="title" name="title" required maxlength="200";
                label for="system" { "What every agent is told first (may be left empty)" }
                textarea id="system" name="system" rows="2" {}
                button { "Start" }
            }
        }
    }
}

/// A conversation to be started.
#[derive(Debug, Deserialize)]
pub(super) struct New {
    title: String,
    system: String,
}

/// Starts a conversation.
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Form(new): Form<New>,
) -> Result<Redirect, Trouble> {
    let new = NewSession {
        title: Some(new.title),
        system: Some(new.system),
        ..NewSession::default()
    };
    let most = shared.local.setup().loaded.config.server.import_messages;
    let import = unisono::service::sessions::import(new, most)?;
    let session = shared.local.import(import).await?;
    Ok(Redirect::to(&format!("/sessions/{}", session.id())))
}
