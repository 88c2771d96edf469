//! `/doctor`: the health of the daemon and its environment.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use unisono_api::service::Service;
use unisono_api::store::HealthCheck;

use crate::error::PageError;
use crate::layout::layout;
use crate::parts::counted;

pub(crate) async fn show(State(service): State<Arc<dyn Service>>) -> Result<Response, PageError> {
    let all = service.health().await?;
    let bad = all.iter().filter(|check| check.status == "bad").count();
    let body = html! {
        h1 { "Doctor" }
        p role="status" {
            @if bad == 0 { span class="state done" { "No check failed." } }
            @else { span class="state failed" { (counted(bad as u64, "check")) " failed." } }
        }
        (table(&all))
        p class="quiet" { "The checks change nothing. " code { "unisono doctor" } " also checks every record of the store, \
             while no daemon uses it." }
        p class="links" { a href="/cluster" { "Daemons on the same database" } a href="/settings" { "Settings" } }
    };
    Ok(layout("Doctor", &body))
}

fn table(all: &[HealthCheck]) -> Markup {
    let order = |check: &&HealthCheck| match check.status.as_str() {
        "bad" => 0,
        "notice" => 1,
        "off" => 3,
        _ => 2,
    };
    let mut sorted: Vec<&HealthCheck> = all.iter().collect();
    sorted.sort_by_key(order);
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Checks" { table {
            thead { tr { th scope="col" { "Check" } th scope="col" { "Condition" } th scope="col" { "Details" } } }
            tbody { @for check in sorted { tr {
                th scope="row" { (check.name) }
                td { @match check.status.as_str() {
                    "bad" => span class="state failed" { "failed" },
                    "notice" => span class="state waiting" { "notice" },
                    "off" => span class="quiet" { "off" },
                    _ => span class="state done" { "good" },
                } }
                td { (check.message) }
            } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_checks_come_first() {
        let check = |name: &str, status: &str| HealthCheck {
            name: name.to_owned(),
            status: status.to_owned(),
            message: "<b>".to_owned(),
        };
        let shown = table(&[
            check("one", "good"),
            check("two", "notice"),
            check("three", "bad"),
        ]);
        let shown = shown.into_string();
        let at = |word: &str| shown.find(word).unwrap();
        assert!(at("three") < at("two") && at("two") < at("one"), "{shown}");
        assert!(!shown.contains("<b>"));
    }
}
