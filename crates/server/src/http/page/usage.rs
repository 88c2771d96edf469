//! `/usage`: what model calls used, by agent, model and session.

use std::sync::Arc;
use unisono::values;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use unisono::service::usage::SessionUsage;
use unisono_api::usage::{Amounts, Deleted, Usage, UsageQuery};

use super::parts::{cached, dollars, many, number};
use super::{Trouble, layout};
use crate::http::Shared;
use crate::http::extract::Query;

/// Sessions that are shown: those that used most.
const SESSIONS: usize = 50;

/// What was used.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Query(of): Query<UsageQuery>,
) -> Result<Response, Trouble> {
    let used = shared.local.used(of.session.as_deref()).await?;
    let body = html! {
        h1 { "Usage" }
        @if let Some(session) = &of.session {
            p { a href={ "/sessions/" (session) } { "Of this session" } " · " a href="/usage" { "of all sessions" } }
        }
        @if used.all.rows.is_empty() { p class="quiet" { "No model was asked yet." } }
        @else { (models(&used.all)) (agents(&used.all)) }
        @if of.session.is_none() && !(used.sessions.is_empty() && used.all.deleted.is_none()) {
            (sessions(&used.sessions, used.all.deleted.as_ref()))
        }
    };
    Ok(layout("Usage", &body))
}

fn head(what: &str) -> Markup {
    html! {
        thead { tr {
            th scope="col" { (what) } th scope="col" class="number" { "Jobs" }
            th scope="col" class="number" { "In" } th scope="col" class="number" { "Cached" }
            th scope="col" class="number" { "Out" } th scope="col" class="number" { "Cost" }
        } }
    }
}

fn cells(jobs: u64, used: &Amounts) -> Markup {
    html! {
        td class="number" { (number(jobs)) }
        td class="number" { (number(used.input_tokens)) }
        (cached(used))
        td class="number" { (number(used.output_tokens)) }
        td class="number" { (dollars(used.cost_usd)) }
    }
}

fn agents(all: &Usage) -> Markup {
    html! {
        section {
            h2 { "By agent and model" }
            div class="scroll" tabindex="0" role="group" aria-label="Usage by agent and model" { table {
                (head("Agent"))
                tbody { @for row in &all.rows { tr {
                    td { (row.agent.as_deref().unwrap_or("summaries")) " "
                        span class="quiet" { (row.model) } }
                    (cells(row.jobs, &row.amounts))
                } } }
            } }
        }
    }
}

fn models(all: &Usage) -> Markup {
    let mut names: Vec<&str> = all.rows.iter().map(|row| row.model.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let together = names.into_iter().map(|name| {
        let of = all.rows.iter().filter(move |row| row.model == name);
        let jobs = of.clone().map(|row| row.jobs).sum::<u64>();
        (name, jobs, values::together(of.map(|row| &row.amounts)))
    });
    html! {
        section {
            h2 { "By model" }
            div class="scroll" tabindex="0" role="group" aria-label="Usage by model" { table {
                (head("Model"))
                tbody { @for (name, jobs, amounts) in together { tr { td { (name) } (cells(jobs, &amounts)) } } }
                tfoot { tr { th scope="row" { "All" }
                    (cells(all.rows.iter().map(|row| row.jobs).sum(), &all.total)) } }
            } }
        }
    }
}

fn sessions(all: &[SessionUsage], deleted: Option<&Deleted>) -> Markup {
    html! {
        section {
            h2 { "By session" }
            div class="scroll" tabindex="0" role="group" aria-label="Usage by session" { table {
                (head("Session"))
                tbody { @for of in all.iter().take(SESSIONS) { tr {
                    td { a href={ "/sessions/" (of.session) } { (of.title) } }
                    (cells(of.jobs, &of.amounts))
                } } }
                @if let Some(of) = deleted { tfoot { tr {
                    th scope="row" { (many(of.sessions, "deleted session")) }
                    (cells(of.jobs, &of.amounts))
                } } }
            } }
            @if all.len() > SESSIONS { p class="quiet" { "The " (SESSIONS) " that used most." } }
        }
    }
}
