//! `/agents`: lists the agents, a part at a time.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::html;
use serde::Deserialize;
use unisono_api::agent::{Agent, AgentQuery};
use unisono_api::fmt;
use unisono_api::service::Service;
use unisono_api::usage::{Amounts, UsageQuery};

use crate::agents::model_of;
use crate::error::PageError;
use crate::extract::Query;
use crate::layout::layout;
use crate::parts::{counted, dollars, encoded, number};

/// Maximum number of agents on a page.
const AGENTS: usize = 100;

#[derive(Debug, Deserialize)]
pub(crate) struct ListQuery {
    /// The number of agents before the first shown one.
    #[serde(default)]
    from: usize,
}

pub(crate) async fn list(
    State(service): State<Arc<dyn Service>>,
    Query(of): Query<ListQuery>,
) -> Result<Response, PageError> {
    let all = service.agents(&AgentQuery::default()).await?;
    let next = of.from.saturating_add(AGENTS);
    let models = service.models().await?;
    let usable = |name: &str| {
        let model = models.iter().find(|model| model.model == name);
        model.is_none_or(|model| model.usable)
    };
    let used = service.usage(&UsageQuery::default()).await?;
    let cost_of = |agent: &Agent| {
        let own = used.rows.iter();
        let own = own.filter(|row| row.agent.as_deref() == Some(&agent.agent));
        let jobs: u64 = own.clone().map(|row| row.jobs).sum();
        (jobs, Amounts::together(own.map(|row| &row.amounts)))
    };
    let body = html! {
        h1 { "Agents" }
        div class="scroll" tabindex="0" role="group" aria-label="Agents" { table {
            thead { tr { th scope="col" { "Agent" } th scope="col" { "Purpose" } th scope="col" { "Model" }
                th scope="col" class="number" { "Runs" } th scope="col" class="number" { "Cost" } } }
            tbody { @for agent in all.iter().skip(of.from).take(AGENTS) {
                @let (jobs, amounts) = cost_of(agent);
                tr {
                    th scope="row" { a href={ "/agents/" (encoded(&agent.agent)) } { (agent.agent) } " "
                        @if let Some(role) = &agent.role { span class="tag" { (role) } } }
                    td { (fmt::line(&agent.description, 160)) }
                    td { @if let Some(model) = model_of(agent) {
                        (model) " " @if !usable(model) { span class="state failed" { "model not usable" } }
                    } @else { (agent.kind) " " } }
                    td class="number" { (number(jobs)) }
                    td class="number" { @if jobs > 0 { (dollars(amounts.cost_usd)) } @else { "–" } }
                }
            } }
        } }
        @if next < all.len() { p { a href={ "/agents?from=" (next) } {
            (counted((all.len() - next) as u64, "more agent")) } } }
        p class="quiet" { "To add an agent, write a file agents/NAME.md in the project, or "
            a href="/import/agents" { "import" } " agents of other programs." }
    };
    Ok(layout("Agents", &body))
}
