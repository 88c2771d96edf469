//! `/usage`: the usage of model calls by day, agent, model and session.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::service::Service;
use unisono_api::short;
use unisono_api::turn::Turn;
use unisono_api::usage::{
    Amounts, DeletedSessionsUsage, SessionUsage, Usage, UsageBy, UsageGroup, UsageQuery,
};
use unisono_api::{Page, PageQuery};

use crate::error::PageError;
use crate::extract::Query;
use crate::layout::layout;
use crate::parts::{cached_tokens, counted, dollars, encoded, number, when};
use crate::pictures::bars::{self, UsageBar};

/// Maximum shown sessions, highest usage first.
const SESSIONS: usize = 50;

/// The filter; forms also send empty fields.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct UsageFilter {
    session: Option<String>,
    by: Option<UsageBy>,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
}

impl UsageFilter {
    fn query(&self) -> UsageQuery {
        let some = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        UsageQuery {
            session: self.session.clone(),
            by: Some(self.by.unwrap_or(UsageBy::Day)),
            from: some(&self.from),
            to: some(&self.to),
        }
    }

    /// Whether the filter limits the days.
    fn is_part(&self) -> bool {
        let query = self.query();
        query.from.is_some() || query.to.is_some()
    }
}

/// The usage page.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Query(of): Query<UsageFilter>,
) -> Result<Response, PageError> {
    let query = of.query();
    let used = service.usage(&query).await?;
    let by_session = match of.session.is_none() && !of.is_part() {
        true => Some(service.session_usage(&first()).await?),
        false => None,
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
        (choice(&of))
        @if used.rows.is_empty() {
            p class="quiet" role="status" { @if of.is_part() { "No model was called on these days." } @else { "No model has been called yet." } }
        } @else { (grouped(&of, &used)) (over_time(&turns)) (models(&used)) (agents(&used)) }
        @if let Some(all) = by_session.filter(|all| !all.items.is_empty() || used.deleted.is_some()) {
            (sessions(&all, used.deleted.as_ref()))
        }
    };
    Ok(layout("Usage", &body))
}

/// The form that chooses groups and days.
fn choice(of: &UsageFilter) -> Markup {
    let by = of.by.unwrap_or(UsageBy::Day);
    html! {
        form method="get" action="/usage" class="card choice" {
            @if let Some(session) = &of.session { input type="hidden" name="session" value=(session); }
            label for="by" { "By" }
            select id="by" name="by" { @for one in UsageBy::ALL {
                option value=(one.name()) selected[one == by] { (one.name()) }
            } }
            label for="from" { "From (UTC)" }
            input id="from" name="from" type="date" value=(of.from);
            label for="to" { "To" }
            input id="to" name="to" type="date" value=(of.to);
            button class="small" { "Show" }
        }
    }
}

/// The selected groups, as bars and as a table.
fn grouped(of: &UsageFilter, used: &Usage) -> Markup {
    let by = of.by.unwrap_or(UsageBy::Day);
    let named = |group: &UsageGroup| {
        let key = group.key.as_deref().unwrap_or("checkpoints");
        group.title.as_deref().unwrap_or(key).to_owned()
    };
    let to = |group: &UsageGroup| {
        let key = group.key.as_deref()?;
        match by {
            UsageBy::Session => Some(format!("/sessions/{key}")),
            UsageBy::Agent => Some(format!("/agents/{}", encoded(key))),
            UsageBy::Day => Some(format!("/usage?by=session&from={key}&to={key}")),
            UsageBy::Model => None,
        }
    };
    let bars: Vec<UsageBar<'_>> = used
        .groups
        .iter()
        .map(|group| UsageBar {
            name: short::line(&named(group), 40),
            to: to(group),
            amounts: &group.amounts,
        })
        .collect();
    html! {
        section {
            h2 { "By " (by.name()) }
            (bars::usage(&bars))
            details id="groups-table" { summary { "As a table" }
                div class="scroll" tabindex="0" role="group" aria-label={ "Usage by " (by.name()) } { table {
                    thead { tr { th scope="col" { (by.name()) } th scope="col" class="number" { "Runs" }
                        th scope="col" class="number" { "In" } th scope="col" class="number" { "Cached" }
                        th scope="col" class="number" { "Not cached" }
                        th scope="col" class="number" { "Out" } th scope="col" class="number" { "Cost" } } }
                    tbody { @for group in &used.groups { tr {
                        th scope="row" { (named(group)) }
                        td class="number" { (number(group.jobs)) }
                        td class="number" { (number(group.amounts.input_tokens)) }
                        (cached_tokens(&group.amounts))
                        td class="number" { (number(group.uncached_tokens)) }
                        td class="number" { (number(group.amounts.output_tokens)) }
                        td class="number" { (dollars(group.amounts.cost_usd)) }
                    } } }
                } }
            }
            @if used.groups_left_out > 0 { p class="quiet" { (counted(used.groups_left_out, "more group")) " not shown." } }
        }
    }
}

fn first() -> PageQuery {
    PageQuery {
        cursor: None,
        limit: NonZeroUsize::new(SESSIONS),
    }
}

/// The usage of the newest turns of a session, oldest first.
fn over_time(turns: &[Turn]) -> Markup {
    let spent = turns.iter().rev().map(|turn| {
        let used = Amounts::together(turn.runs.iter().map(|run| &run.usage));
        (turn, used)
    });
    let spent: Vec<(&Turn, Amounts)> = spent.filter(|(_, used)| used.input_tokens > 0).collect();
    let bars: Vec<UsageBar<'_>> = spent
        .iter()
        .map(|(turn, used)| UsageBar {
            name: short::line(&turn.accepted.replace('T', " "), 17).replace('…', ""),
            to: Some(format!("/sessions/{}/turns/{}", turn.session, turn.turn)),
            amounts: used,
        })
        .collect();
    html! {
        @if !bars.is_empty() {
            section {
                h2 { "By turn" }
                (bars::usage(&bars))
                details id="turns-table" { summary { "As a table" }
                    div class="scroll" tabindex="0" role="group" aria-label="Usage by turn" { table {
                        (head("Turn"))
                        tbody { @for (turn, used) in &spent { tr {
                            th scope="row" { a href={ "/sessions/" (turn.session) "/turns/" (turn.turn) } { (when(&turn.accepted)) }
                                " " span class="quiet" { (short::line(turn.task.as_deref().unwrap_or("compaction"), 60)) } }
                            (cells(turn.runs.len() as u64, used))
                        } } }
                    } }
                }
            }
        }
    }
}

fn head(what: &str) -> Markup {
    html! {
        thead { tr {
            th scope="col" { (what) } th scope="col" class="number" { "Runs" }
            th scope="col" class="number" { "In" } th scope="col" class="number" { "Cached" }
            th scope="col" class="number" { "Out" } th scope="col" class="number" { "Cost" }
        } }
    }
}

fn cells(jobs: u64, used: &Amounts) -> Markup {
    html! {
        td class="number" { (number(jobs)) }
        td class="number" { (number(used.input_tokens)) }
        (cached_tokens(used))
        td class="number" { (number(used.output_tokens)) }
        td class="number" { (dollars(used.cost_usd)) }
    }
}

fn agents(all: &Usage) -> Markup {
    let bars: Vec<UsageBar<'_>> = all
        .rows
        .iter()
        .map(|row| UsageBar {
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
    let bars: Vec<UsageBar<'_>> = together
        .iter()
        .map(|(name, _, amounts)| UsageBar {
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

fn sessions(all: &Page<SessionUsage>, deleted: Option<&DeletedSessionsUsage>) -> Markup {
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
                    th scope="row" { (counted(of.sessions, "deleted session")) }
                    (cells(of.jobs, &of.amounts))
                } } }
            } }
            @if all.next.is_some() { p class="quiet" { "The " (SESSIONS) " that used most." } }
        }
    }
}
