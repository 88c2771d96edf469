//! `/usage`: what model calls used, by agent, model and session.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::usage::{Amounts, Usage};

use super::parts::{dollars, number};
use super::{Trouble, layout};
use crate::http::extract::Query;
use crate::http::{Shared, usage};

/// Sessions that are shown: those that used most.
const SESSIONS: usize = 50;

/// Of which session.
#[derive(Debug, Deserialize)]
pub(super) struct Of {
    /// The session; none: all of them.
    session: Option<String>,
}

/// What was used.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Query(of): Query<Of>,
) -> Result<Response, Trouble> {
    let used = usage::used(&shared, of.session.as_deref()).await?;
    let body = html! {
        h1 { "Usage" }
        @if let Some(session) = &of.session {
            p { a href={ "/sessions/" (session) } { "Of this session" } " · " a href="/usage" { "of all sessions" } }
        }
        @if used.all.rows.is_empty() { p class="quiet" { "No model was asked yet." } }
        @else { (models(&used.all)) (agents(&used.all)) }
        @if of.session.is_none() && !used.sessions.is_empty() { (sessions(&used.sessions)) }
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
        td class="number" { (number(used.cache_read_tokens)) }
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
        let (jobs, amounts) = of.fold((0, None), |(jobs, sum), row| {
            (jobs + row.jobs, Some(plus(sum, &row.amounts)))
        });
        (name, jobs, amounts.unwrap_or_default())
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

/// Two amounts together; a cost that is not known makes that of both unknown.
fn plus(sum: Option<Amounts>, more: &Amounts) -> Amounts {
    let Some(sum) = sum else { return *more };
    Amounts {
        input_tokens: sum.input_tokens + more.input_tokens,
        output_tokens: sum.output_tokens + more.output_tokens,
        cache_expected_tokens: sum.cache_expected_tokens + more.cache_expected_tokens,
        cache_read_tokens: sum.cache_read_tokens + more.cache_read_tokens,
        cache_write_tokens: sum.cache_write_tokens + more.cache_write_tokens,
        cost_usd: sum.cost_usd.zip(more.cost_usd).map(|(a, b)| a + b),
    }
}

fn sessions(all: &[usage::OfSession]) -> Markup {
    html! {
        section {
            h2 { "By session" }
            div class="scroll" tabindex="0" role="group" aria-label="Usage by session" { table {
                (head("Session"))
                tbody { @for of in all.iter().take(SESSIONS) { tr {
                    td { a href={ "/sessions/" (of.session) } { (of.title) } }
                    (cells(of.jobs, &of.amounts))
                } } }
            } }
            @if all.len() > SESSIONS { p class="quiet" { "The " (SESSIONS) " that used most." } }
        }
    }
}
