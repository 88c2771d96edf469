//! `/usage`: what model calls used, by agent, model and session.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use unisono_api::service::Service;
use unisono_api::short;
use unisono_api::turn::Turn;
use unisono_api::usage::{Amounts, Deleted, SessionUsage, Usage, UsageQuery};
use unisono_api::{Page, PageQuery};

use crate::extract::Query;
use crate::layout::layout;
use crate::parts::{cached, dollars, many, number};
use crate::pictures::bars::{self, Used};
use crate::trouble::Trouble;

/// Sessions that are shown: those that used most.
const SESSIONS: usize = 50;

/// What was used.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Query(of): Query<UsageQuery>,
) -> Result<Response, Trouble> {
    let used = service.usage(&of).await?;
    let by_session = match of.session {
        None => Some(service.session_usage(&first()).await?),
        Some(_) => None,
    };
    let turns = match &of.session {
        Some(session) => service.turns(session, &first()).await?.items,
        None => Vec::new(),
    };
    let body = html! {
        h1 { "Usage" }
        @if let Some(session) = &of.session {
            p { a href={ "/sessions/" (session) } { "Of this session" } " · " a href="/usage" { "of all sessions" } }
        }
        @if !used.budgets.is_empty() { section { h2 { "Budgets" } (bars::budgets(&used.budgets)) } }
        @if used.rows.is_empty() { p class="quiet" { "No model was asked yet." } }
        @else { (over_time(&turns)) (models(&used)) (agents(&used)) }
        @if let Some(all) = by_session.filter(|all| !all.items.is_empty() || used.deleted.is_some()) {
            (sessions(&all, used.deleted.as_ref()))
        }
    };
    Ok(layout("Usage", &body))
}

fn first() -> PageQuery {
    PageQuery {
        cursor: None,
        limit: NonZeroUsize::new(SESSIONS),
    }
}

/// What the newest turns of a session used, the oldest first.
fn over_time(turns: &[Turn]) -> Markup {
    let spent = turns.iter().rev().map(|turn| {
        let used = Amounts::together(turn.runs.iter().map(|run| &run.usage));
        (turn, used)
    });
    let spent: Vec<(&Turn, Amounts)> = spent.filter(|(_, used)| used.input_tokens > 0).collect();
    let bars: Vec<Used<'_>> = spent
        .iter()
        .map(|(turn, used)| Used {
            name: short::line(&turn.accepted.replace('T', " "), 17).replace('…', ""),
            to: Some(format!("/sessions/{}/turns/{}", turn.session, turn.turn)),
            amounts: used,
        })
        .collect();
    html! {
        @if !bars.is_empty() {
            section { h2 { "By turn" } (bars::usage(&bars)) }
        }
    }
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
    let bars: Vec<Used<'_>> = all
        .rows
        .iter()
        .map(|row| Used {
            name: format!(
                "{}, {}",
                row.agent.as_deref().unwrap_or("checkpoints"),
                row.model
            ),
            to: None,
            amounts: &row.amounts,
        })
        .collect();
    html! {
        section {
            h2 { "By agent and model" }
            (bars::usage(&bars))
            div class="scroll" tabindex="0" role="group" aria-label="Usage by agent and model" { table {
                (head("Agent"))
                tbody { @for row in &all.rows { tr {
                    td { (row.agent.as_deref().unwrap_or("checkpoints")) " "
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
        (name, jobs, Amounts::together(of.map(|row| &row.amounts)))
    });
    let together: Vec<(&str, u64, Amounts)> = together.collect();
    let bars: Vec<Used<'_>> = together
        .iter()
        .map(|(name, _, amounts)| Used {
            name: (*name).to_owned(),
            to: None,
            amounts,
        })
        .collect();
    html! {
        section {
            h2 { "By model" }
            (bars::usage(&bars))
            div class="scroll" tabindex="0" role="group" aria-label="Usage by model" { table {
                (head("Model"))
                tbody { @for (name, jobs, amounts) in &together { tr { td { (name) } (cells(*jobs, amounts)) } } }
                tfoot { tr { th scope="row" { "All" }
                    (cells(all.rows.iter().map(|row| row.jobs).sum(), &all.total)) } }
            } }
        }
    }
}

fn sessions(all: &Page<SessionUsage>, deleted: Option<&Deleted>) -> Markup {
    html! {
        section {
            h2 { "By session" }
            div class="scroll" tabindex="0" role="group" aria-label="Usage by session" { table {
                (head("Session"))
                tbody { @for of in &all.items { tr {
                    td { a href={ "/sessions/" (of.session) } { (of.title) } }
                    (cells(of.jobs, &of.amounts))
                } } }
                @if let Some(of) = deleted { tfoot { tr {
                    th scope="row" { (many(of.sessions, "deleted session")) }
                    (cells(of.jobs, &of.amounts))
                } } }
            } }
            @if all.next.is_some() { p class="quiet" { "The " (SESSIONS) " that used most." } }
        }
    }
}
