//! `/usage`: the usage of model calls by day, agent, model and session.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::agent::AgentQuery;
use unisono_api::fmt;
use unisono_api::service::{self, Service};
use unisono_api::turn::Turn;
use unisono_api::usage::{
    Amounts, DeletedSessionsUsage, SUMMARIES, SessionUsage, Usage, UsageBy, UsageGroup, UsageQuery,
};
use unisono_api::{Page, PageQuery};

use crate::error::PageError;
use crate::extract::Query;
use crate::layout::{cut_title, layout};
use crate::parts::{cached_tokens, counted, dollars, encoded, number, when};
use crate::pictures::bars::{self, UsageBar};

/// Maximum shown sessions, highest usage first, and groups of a table.
const SESSIONS: usize = 50;
const GROUPS: usize = 200;

/// The filter; forms also send empty fields.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct UsageFilter {
    session: Option<String>,
    by: Option<UsageBy>,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    /// The agent; [`SUMMARIES`] selects summaries.
    #[serde(default)]
    agent: String,
    #[serde(default)]
    model: String,
}

impl UsageFilter {
    fn query(&self) -> UsageQuery {
        let some = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        UsageQuery {
            session: self.session.clone(),
            by: Some(self.by.unwrap_or(UsageBy::Day)),
            from: some(&self.from),
            to: some(&self.to),
            agent: some(&self.agent),
            model: some(&self.model),
        }
    }

    /// The address of the page with this filter.
    fn address(&self) -> String {
        let by = self.by.map(UsageBy::name).unwrap_or_default();
        let session = self.session.as_deref().unwrap_or_default();
        let fields = [
            ("by", by),
            ("session", session),
            ("agent", &self.agent),
            ("model", &self.model),
            ("from", &self.from),
            ("to", &self.to),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<String> = given
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        format!("/usage?{}", pairs.join("&"))
    }

    /// The address of the usage of an agent or a model over time.
    fn over_time(&self, agent: Option<&str>, model: Option<&str>) -> String {
        let mut of = self.clone();
        of.by = Some(UsageBy::Day);
        of.agent = agent.map_or(of.agent, str::to_owned);
        of.model = model.map_or(of.model, str::to_owned);
        of.address()
    }

    /// The address of the usage of one day by session.
    fn of_day(&self, day: &str) -> String {
        let of = UsageFilter {
            by: Some(UsageBy::Session),
            from: day.to_owned(),
            to: day.to_owned(),
            ..self.clone()
        };
        of.address()
    }
}

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Query(of): Query<UsageFilter>,
) -> Result<Response, PageError> {
    let query = of.query();
    let used = service.usage(&query).await?;
    let agent = of.agent.trim();
    let agent = has_agent(&*service, agent).await?.then_some(agent);
    let by_session = match of.session.is_none() && !query.is_partial() {
        true => Some(service.session_usage(&first()).await?),
        false => None,
    };
    let turns = match &of.session {
        Some(session) if !query.is_partial() => service.turns(session, &first()).await?.items,
        _ => Vec::new(),
    };
    let body = html! {
        h1 { "Usage" }
        @if let Some(session) = &of.session {
            p { a href={ "/sessions/" (session) } { "Of this session" } " · " a href="/usage" { "of all sessions" } }
        }
        @if !used.budgets.is_empty() { section { h2 { "Budgets" } (bars::budgets(&used.budgets, None)) } }
        (choice(&of))
        @if let Some(agent) = agent { p { a href={ "/agents/" (encoded(agent)) } { "Agent " (agent) } } }
        @if used.rows.is_empty() {
            p class="quiet" role="status" { @if query.is_partial() { "No usage matches: choose other days, another agent or another model." } @else { "No model has been called yet." } }
        } @else { (grouped(&of, &used)) (over_time(&turns)) (models(&of, &used)) (agents(&of, &used)) }
        @if let Some(all) = by_session.filter(|all| !all.items.is_empty() || used.deleted.is_some()) {
            (sessions(&all, used.deleted.as_ref()))
        }
    };
    Ok(layout("Usage", &body))
}

/// Whether there is an agent with that name. Usage also names agents that were removed.
async fn has_agent(service: &dyn Service, name: &str) -> service::Result<bool> {
    if name.is_empty() {
        return Ok(false);
    }
    let all = service.agents(&AgentQuery::default()).await?;
    Ok(all.iter().any(|agent| agent.agent == name))
}

/// The form that chooses groups and days.
fn choice(of: &UsageFilter) -> Markup {
    let by = of.by.unwrap_or(UsageBy::Day);
    html! {
        form method="get" action="/usage" class="card choice" {
            @if let Some(session) = &of.session { input type="hidden" name="session" value=(session); }
            label { "By" select name="by" { @for one in UsageBy::ALL {
                option value=(one.name()) selected[one == by] { (one.name()) }
            } } }
            label { "Agent" input id="agent" name="agent" value=(of.agent) placeholder="all" autocomplete="off"; }
            label { "Model" input id="model" name="model" value=(of.model) placeholder="all" autocomplete="off"; }
            label { "From (UTC)" input id="from" name="from" type="date" value=(of.from); }
            label { "To" input id="to" name="to" type="date" value=(of.to); }
            button class="small" { "Show" }
        }
    }
}

/// The selected groups, as bars and as a table.
fn grouped(of: &UsageFilter, used: &Usage) -> Markup {
    let by = of.by.unwrap_or(UsageBy::Day);
    let named = |group: &UsageGroup| {
        let key = group.key.as_deref().unwrap_or(SUMMARIES);
        fmt::line(group.title.as_deref().unwrap_or(key), 60)
    };
    let to = |group: &UsageGroup| {
        let key = group.key.as_deref().unwrap_or(SUMMARIES);
        match by {
            UsageBy::Session => format!("/sessions/{key}"),
            UsageBy::Agent => of.over_time(Some(key), None),
            UsageBy::Day => of.of_day(key),
            UsageBy::Model => of.over_time(None, Some(key)),
        }
    };
    let bars: Vec<UsageBar<'_>> = used
        .groups
        .iter()
        .map(|group| UsageBar {
            name: fmt::line(&named(group), 40),
            to: Some(to(group)),
            amounts: &group.amounts,
        })
        .collect();
    let omitted = used.omitted_groups + used.groups.len().saturating_sub(GROUPS) as u64;
    html! {
        section {
            h2 { "By " (by.name()) }
            @if by == UsageBy::Day { (bars::usage_over_time(&bars)) } @else { (bars::usage(&bars)) }
            details id="groups-table" { summary { "As a table" }
                div class="scroll" tabindex="0" role="group" aria-label={ "Usage by " (by.name()) } { table {
                    thead { tr { th scope="col" { (by.name()) } th scope="col" class="number" { "Runs" }
                        th scope="col" class="number" { "In" } th scope="col" class="number" { "Cached" }
                        th scope="col" class="number" { "Not cached" }
                        th scope="col" class="number" { "Out" } th scope="col" class="number" { "Cost" } } }
                    tbody { @for group in listed(by, &used.groups) { tr {
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
            (without_deleted(by, used.deleted.as_ref()))
            @if omitted > 0 { p class="quiet" { (counted(omitted, "more group")) " not shown." } }
        }
    }
}

/// The groups of the table: the newest days, or the first ones of others.
fn listed(by: UsageBy, groups: &[UsageGroup]) -> &[UsageGroup] {
    match by {
        UsageBy::Day => &groups[groups.len().saturating_sub(GROUPS)..],
        UsageBy::Agent | UsageBy::Model | UsageBy::Session => &groups[..groups.len().min(GROUPS)],
    }
}

/// That the groups leave out deleted sessions, as those by day and by session do.
fn without_deleted(by: UsageBy, deleted: Option<&DeletedSessionsUsage>) -> Markup {
    let missing = match by {
        UsageBy::Day => Some("days are unknown"),
        UsageBy::Session => Some("names are unknown"),
        UsageBy::Agent | UsageBy::Model => None,
    };
    let tokens = |of: &DeletedSessionsUsage| of.amounts.input_tokens + of.amounts.output_tokens;
    html! {
        @if let (Some(missing), Some(of)) = (missing, deleted.filter(|of| tokens(of) > 0)) {
            p class="quiet" {
                "Without " (counted(tokens(of), "token")) " of "
                (counted(of.sessions, "deleted session")) ", whose " (missing) "."
            }
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
    let spent = turns.iter().rev().map(|turn| (turn, turn.usage));
    let spent: Vec<(&Turn, Amounts)> = spent.filter(|(_, used)| used.input_tokens > 0).collect();
    let bars: Vec<UsageBar<'_>> = spent
        .iter()
        .map(|(turn, used)| UsageBar {
            name: fmt::line(&turn.accepted_at.replace('T', " "), 17).replace('…', ""),
            to: Some(format!("/sessions/{}/turns/{}", turn.session, turn.turn)),
            amounts: used,
        })
        .collect();
    html! {
        @if !bars.is_empty() {
            section {
                h2 { "By turn" }
                (bars::usage_over_time(&bars))
                details id="turns-table" { summary { "As a table" }
                    div class="scroll" tabindex="0" role="group" aria-label="Usage by turn" { table {
                        (head("Turn"))
                        tbody { @for (turn, used) in &spent { tr {
                            th scope="row" { a href={ "/sessions/" (turn.session) "/turns/" (turn.turn) } { (when(&turn.accepted_at)) }
                                " " span class="quiet" { (fmt::line(turn.task.as_deref().unwrap_or("compaction"), 60)) } }
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

fn agents(of: &UsageFilter, all: &Usage) -> Markup {
    let bars: Vec<UsageBar<'_>> = all
        .rows
        .iter()
        .map(|row| UsageBar {
            name: format!(
                "{}, {}",
                row.agent.as_deref().unwrap_or(SUMMARIES),
                row.model
            ),
            to: Some(of.over_time(
                Some(row.agent.as_deref().unwrap_or(SUMMARIES)),
                Some(&row.model),
            )),
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
                    td { (row.agent.as_deref().unwrap_or(SUMMARIES)) " "
                        span class="quiet" { (row.model) } }
                    (cells(row.jobs, &row.amounts))
                } } }
            } }
        }
    }
}

fn models(of: &UsageFilter, all: &Usage) -> Markup {
    let mut names: Vec<&str> = all.rows.iter().map(|row| row.model.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let together = names.into_iter().map(|name| {
        let rows = all.rows.iter().filter(move |row| row.model == name);
        let jobs = rows.clone().map(|row| row.jobs).sum::<u64>();
        (name, jobs, Amounts::together(rows.map(|row| &row.amounts)))
    });
    let together: Vec<(&str, u64, Amounts)> = together.collect();
    let bars: Vec<UsageBar<'_>> = together
        .iter()
        .map(|(name, _, amounts)| UsageBar {
            name: (*name).to_owned(),
            to: Some(of.over_time(None, Some(name))),
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
                    td { a href={ "/sessions/" (of.session) } { (cut_title(&of.title)) } }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_days_are_listed() {
        let keys = 0..=GROUPS as u64;
        let groups = keys.map(|n| UsageGroup {
            key: None,
            title: None,
            jobs: n,
            uncached_tokens: 0,
            amounts: Amounts::default(),
        });
        let groups: Vec<UsageGroup> = groups.collect();
        for (by, first) in [(UsageBy::Day, 1), (UsageBy::Model, 0)] {
            let listed = listed(by, &groups);
            assert_eq!((listed.len(), listed[0].jobs), (GROUPS, first));
        }
    }

    #[test]
    fn groups_that_leave_out_deleted_sessions_say_so() {
        let deleted = DeletedSessionsUsage {
            sessions: 2,
            jobs: 3,
            amounts: Amounts {
                input_tokens: 1_600,
                output_tokens: 50,
                ..Amounts::default()
            },
        };
        let said = |by| without_deleted(by, Some(&deleted)).into_string();
        let day = "Without 1,650 tokens of 2 deleted sessions, whose days are unknown.";
        assert!(said(UsageBy::Day).contains(day));
        assert!(said(UsageBy::Session).contains("whose names are unknown."));
        assert_eq!(said(UsageBy::Model) + &said(UsageBy::Agent), "");
        assert_eq!(without_deleted(UsageBy::Day, None).into_string(), "");
    }
}
