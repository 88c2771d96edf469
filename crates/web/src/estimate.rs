//! `/sessions/{session}/estimate`: the expected usage of the task in the form.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use unisono_api::fmt;
use unisono_api::service::{self, Service};
use unisono_api::turn::{RunEstimate, TurnEstimate};

use crate::branch_view::BranchView;
use crate::composer::Draft;
use crate::error::PageError;
use crate::extract::{FormWithFiles, Path};
use crate::layout::layout;
use crate::parts::{counted, number};

/// Shows the estimate for a form without sending it.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    form: FormWithFiles,
) -> Result<Response, PageError> {
    let mut draft = Draft::read(form.fields);
    let place = BranchView::load(&*service, &id, &draft.branch).await?;
    draft.choose_named_agents(&*service, &id).await?;
    let found = match service.estimate_turn(&id, &draft.turn()).await {
        Ok(estimate) => summary(&estimate),
        Err(service::Error::Problem(problem)) => html! { p class="trouble" { (problem.detail) } },
        Err(error) => return Err(error.into()),
    };
    let body = place.page(&html! {
        section class="card" {
            h2 { "Estimate" }
            div id="estimate" { (found) }
            p class="quiet" { "The task was not sent. Go back to the form; it still has your text." }
        }
    });
    Ok(layout("Estimate", &body))
}

fn dollars(cost: Option<f64>) -> String {
    match cost {
        None => "an unknown price".to_owned(),
        Some(0.0) => "no cost".to_owned(),
        Some(cost) => fmt::dollars(cost),
    }
}

/// The estimate in one sentence, and its requests in a table.
fn summary(all: &TurnEstimate) -> Markup {
    html! {
        p { @if all.approximate { "About " } (number(all.input_tokens)) " tokens in, " (dollars(all.input_cost_usd))
            @if all.max_cost_usd != all.input_cost_usd { "; with the longest replies " (dollars(all.max_cost_usd)) } "." }
        @if !all.steps.is_empty() {
            p class="warn" { "The context is compacted first: " (number(all.context_tokens)) " → at most "
                (number(all.context_tokens_after)) " tokens: " (all.steps.join("; ")) "." }
        }
        @if let Some(problem) = &all.problem { p class="trouble" { "The turn would fail: " (problem) } }
        @for warning in &all.warnings { p class="warn" { (warning) } }
        details { summary { (counted(all.runs.len() as u64, "request")) } (table(&all.runs)) }
    }
}

fn table(runs: &[RunEstimate]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Expected requests" { table {
            thead { tr { th scope="col" { "Agent" } th scope="col" { "Model" } th scope="col" class="number" { "In" }
                th scope="col" class="number" { "Shared" } th scope="col" class="number" { "Out, at most" }
                th scope="col" class="number" { "Cost, at most" } } }
            tbody { @for run in runs { tr {
                th scope="row" { (run.agent) } td { (run.model.as_deref().unwrap_or("unknown")) }
                td class="number" { (number(run.input_tokens)) } td class="number" { (number(run.shared_tokens)) }
                td class="number" { (number(run.max_output_tokens)) } td class="number" { (dollars(run.max_cost_usd)) }
            } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_price_is_not_free() {
        assert_eq!(dollars(None), "an unknown price");
        assert_eq!(dollars(Some(0.0)), "no cost");
        assert_eq!(dollars(Some(0.01234)), "$0.0123");
    }
}
