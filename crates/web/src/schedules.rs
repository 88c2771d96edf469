//! `/schedules`: turns that begin at times.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::fmt;
use unisono_api::schedule::{Schedule, ScheduledTurn};
use unisono_api::service::Service;

use crate::error::PageError;
use crate::extract::{Form, Path};
use crate::layout::layout;
use crate::lists;
use crate::parts::when;

/// The refresh interval of the list in seconds.
const EVERY: u32 = 5;
/// Maximum shown characters of a reason.
const REASON: usize = 300;

pub(crate) async fn show(State(service): State<Arc<dyn Service>>) -> Result<Response, PageError> {
    let all = lists::schedules(&*service).await?;
    let body = html! {
        div id="live" data-every=(EVERY) {
            h1 { "Schedules" }
            @if all.is_empty() {
                p class="quiet" { "There is none. A table " code { "[schedules.NAME]" }
                    " of the settings begins turns at times." }
            } @else { (table(&all)) }
        }
    };
    Ok(layout("Schedules", &body))
}

fn table(all: &[Schedule]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Schedules" { table {
            thead { tr {
                th scope="col" { "Schedule" } th scope="col" { "When" } th scope="col" { "Next (UTC)" }
                th scope="col" { "Last turn" } th scope="col" { "Left out" } th scope="col" { "Now" }
            } }
            tbody { @for one in all { tr {
                th scope="row" { (one.name) }
                td { code { (one.rule) } }
                td { @match &one.next_at { Some(at) => (when(at)), None => (one.state) } }
                td { @if let Some(last) = &one.last { (turn(last)) } }
                td { @if let Some(skipped) = &one.skipped { (when(&skipped.scheduled_at)) ": " (fmt::line(&skipped.reason, REASON)) } }
                td { (orders(one)) }
            } } }
        } }
    }
}

fn turn(last: &ScheduledTurn) -> Markup {
    let session = format!("/sessions/{}", last.session);
    html! {
        @match &last.turn {
            Some(turn) if last.state != "gone" => a href={ (session) "/turns/" (turn) } { (when(&last.started_at)) },
            _ => (when(&last.started_at)),
        }
        " " (last.state)
        @if let Some(error) = &last.error { ": " (fmt::line(error, REASON)) }
    }
}

fn orders(one: &Schedule) -> Markup {
    let (order, word) = match one.state.as_str() {
        "paused" => ("resume", "Resume"),
        _ => ("pause", "Pause"),
    };
    // Each needs another scope.
    html! {
        form method="post" action={ "/schedules/" (one.name) "/run" } {
            button aria-label={ "Run " (one.name) " now" } { "Run" }
        }
        @if one.state != "off" {
            form method="post" action={ "/schedules/" (one.name) } {
                button name="order" value=(order) aria-label={ (word) " " (one.name) } { (word) }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct ScheduleForm {
    order: Action,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Pause,
    Resume,
}

/// Begins the turn of a schedule now, and shows the list again.
pub(crate) async fn run(
    State(service): State<Arc<dyn Service>>,
    Path(name): Path<String>,
) -> Result<Redirect, PageError> {
    service.run_schedule(&name).await?;
    Ok(Redirect::to("/schedules"))
}

/// Pauses or resumes a schedule, and shows the list again.
pub(crate) async fn order(
    State(service): State<Arc<dyn Service>>,
    Path(name): Path<String>,
    Form(order): Form<ScheduleForm>,
) -> Result<Redirect, PageError> {
    let paused = matches!(order.order, Action::Pause);
    service.pause_schedule(&name, paused).await?;
    Ok(Redirect::to("/schedules"))
}
