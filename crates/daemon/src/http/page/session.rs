//! `/sessions/{session}`: one conversation.

use std::sync::Arc;

use axum::Form;
use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::context::Context;
use unisono_api::session::{Session, main_branch};
use unisono_context::TurnId;

use super::{Trouble, layout, parts};
use crate::ask::Ask;
use crate::http::extract::{self, Path, Query};
use crate::http::{Shared, checkpoints, context, messages, record, sessions, turns};

/// Messages that are shown at a time.
const MESSAGES: u32 = 100;
/// Turns that are shown.
const TURNS: usize = 20;

/// What of a session is shown.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    /// The branch.
    #[serde(default = "main_branch")]
    branch: String,
    /// The first message; none: the newest ones.
    from: Option<u32>,
}

/// A session.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Result<Response, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let name = id.clone();
    let about = session
        .inspect(move |state| sessions::describe(&name, state))
        .await?;
    let branch = about
        .branches
        .iter()
        .find(|branch| branch.name == which.branch);
    let length = branch.map_or(0, |branch| branch.messages);
    let context = match branch {
        Some(_) => Some(context::of_branch(&shared, &session, &which.branch).await?),
        None => None,
    };
    let first = which
        .from
        .unwrap_or(length.saturating_sub(MESSAGES - 1))
        .max(1);
    let shown = messages::Which {
        branch: which.branch.clone(),
        cursor: Some(first),
        limit: Some(MESSAGES),
    };
    let page = session
        .inspect(move |state| messages::read(state, &shown))
        .await?;
    let said = page.map(|page| page.items).unwrap_or_default();
    let on = which.branch.clone();
    let checkpoints = session
        .inspect(move |state| checkpoints::checkpoints(state, &on))
        .await?;
    let turns = record::turns(shared.daemon.runtime().journal(), session.id()).await?;
    let body = html! {
        div id="live" data-session=(id) data-after=(about.events) {
            (head(&about, &which.branch, context.as_ref()))
            (asking(&shared, &id, &which.branch))
            section {
                h2 { "Turns" }
                @if turns.is_empty() { p class="quiet" { "Nothing was asked yet." } }
                @for turn in turns.iter().rev().take(TURNS) { (parts::turn(turn)) }
            }
            @if let Some(context) = &context {
                section { h2 { "What the model sees" } (parts::sections(context)) }
            }
            section {
                h2 { "Summaries" }
                @if checkpoints.is_empty() { p class="quiet" { "Nothing is summarised yet." } }
                (parts::checkpoints(&checkpoints))
                @if length > 0 { (compacting(&id, &which.branch, context.as_ref())) }
            }
            section {
                h2 { "Full history" }
                @if first > 1 {
                    p { a href={ "?branch=" (which.branch) "&from=" (first.saturating_sub(MESSAGES).max(1)) } { "Older messages" } }
                }
                @for message in &said { (parts::message(message, &id)) }
                @if said.last().is_some_and(|last| last.ordinal < length) {
                    p { a href={ "?branch=" (which.branch) "&from=" (first + MESSAGES) } { "Newer messages" } }
                }
            }
        }
    };
    Ok(layout(&about.title, &body))
}

fn head(about: &Session, branch: &str, context: Option<&Context>) -> Markup {
    html! {
        h1 { (about.title) }
        nav aria-label="Branches" class="tabs" {
            @for other in &about.branches {
                a href={ "/sessions/" (about.session) "?branch=" (other.name) }
                    aria-current=[(other.name == branch).then_some("page")] {
                    (other.name) span class="quiet" { " " (other.messages) }
                }
            }
        }
        @if let Some(context) = context { (parts::bar(context)) }
    }
}

fn asking(shared: &Shared, id: &str, branch: &str) -> Markup {
    let setup = shared.daemon.setup();
    let run = &setup.loaded.config.run;
    html! {
        section class="card" {
            h2 { "Ask" }
            form method="post" action={ "/sessions/" (id) "/ask" } {
                input type="hidden" name="branch" value=(branch);
                label for="task" { "Task" }
                textarea id="task" name="task" rows="3" required {}
                label for="agents" { "Agents, separated by commas; empty: the lead alone" }
                input id="agents" name="agents" value=(run.agents.join(", "));
                button { "Ask " (run.lead) }
            }
        }
    }
}

fn compacting(id: &str, branch: &str, context: Option<&Context>) -> Markup {
    html! {
        details class="card" {
            summary { "Compact now" }
            @if let Some(context) = context {
                p { "The context has " (parts::number(context.used_tokens)) " tokens in "
                    (context.messages.len()) " messages and " (context.summaries.len())
                    " summaries. All before the newest user message is summarised; no message is lost." }
            }
            form method="post" action={ "/sessions/" (id) "/compact" } {
                input type="hidden" name="branch" value=(branch);
                label for="instructions" { "What the summary must keep (may be left empty)" }
                input id="instructions" name="instructions" maxlength="500";
                button { "Compact" }
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
    turns::begin(&shared, &session, &ask).await?;
    Ok(back(&id, &form.branch))
}

/// What a summary is to keep.
#[derive(Debug, Deserialize)]
pub(super) struct Compaction {
    branch: String,
    instructions: String,
}

/// Compacts a branch.
pub(super) async fn compact(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Form(form): Form<Compaction>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let instructions = Some(form.instructions).filter(|text| !text.trim().is_empty());
    let ask = Ask::compaction(None, instructions).branch(form.branch.as_str());
    turns::begin(&shared, &session, &ask).await?;
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
    session
        .fork(form.name.trim(), extract::id("message", &form.at)?)
        .await?;
    Ok(back(&id, form.name.trim()))
}

/// Stops a turn.
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Redirect, Trouble> {
    let session = sessions::open(&shared, &id).await?;
    let turn: TurnId = extract::id("turn", &turn)?;
    session.cancel(turn).await?;
    Ok(back(&id, &main_branch()))
}

fn back(id: &str, branch: &str) -> Redirect {
    let encoded: String = branch
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                (byte as char).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect();
    Redirect::to(&format!("/sessions/{id}?branch={encoded}"))
}
