//! Calls that wait for a person, and the states of runs and turns that say so.

use maud::{Markup, html};
use unisono_api::approval::Approval;
use unisono_api::run::ListedRun;
use unisono_api::service::{Result, Service};
use unisono_api::turn::{Run, Turn};

use crate::text_limit::TextLimit;
use crate::{approvals, lists};

pub(crate) struct WaitingCalls(Vec<Approval>);

impl WaitingCalls {
    /// Reads them, the oldest first.
    pub(crate) async fn read(service: &dyn Service, session: &str) -> Result<WaitingCalls> {
        Ok(WaitingCalls(lists::approvals(service, session).await?))
    }

    pub(crate) fn in_turn(self, turn: &str) -> WaitingCalls {
        let mut calls = self.0;
        calls.retain(|call| call.turn == turn);
        WaitingCalls(calls)
    }

    pub(crate) fn calls(&self) -> &[Approval] {
        &self.0
    }

    /// The cards of at most `limit` calls, and a link to all. `back` is the page after a decision.
    pub(crate) fn cards(&self, limit: usize, back: &str, room: &TextLimit) -> Markup {
        let many = self.0.len();
        html! {
            @for call in self.0.iter().take(limit) { (approvals::card(call, back, room)) }
            @if many > limit { p { a href="/approvals" { "All " (many) " calls that wait" } } }
        }
    }

    pub(crate) fn state_of_run(&self, run: &Run) -> Markup {
        let call = self.0.iter().find(|call| call.run == run.run);
        state(&run.state, call)
    }

    pub(crate) fn state_of_turn(&self, turn: &Turn) -> Markup {
        let call = self.0.iter().find(|call| call.turn == turn.turn);
        state(&turn.state, call)
    }
}

fn state(state: &str, waits: Option<&Approval>) -> Markup {
    html! {
        @match waits {
            Some(call) => a class="state you" href={ "/sessions/" (call.session) "/turns/" (call.turn) "#call-" (call.call) } { "waits for you" },
            None => span class={ "state " (state) } { (state) },
        }
    }
}

pub(crate) fn listed_state(listed: &ListedRun) -> Markup {
    let run = &listed.run;
    html! {
        @match run.waits_for.as_deref() {
            Some("person") => a class="state you" href={ "/sessions/" (listed.session) "/turns/" (listed.turn) } { "waits for you" },
            _ => span class={ "state " (run.state) } { (run.state) },
        }
    }
}

pub(crate) fn badge(calls: usize, session: &str) -> Markup {
    html! {
        @if calls > 0 {
            a class="badge you" href={ "/sessions/" (session) "#waiting" } {
                "waits for you" @if calls > 1 { " (" (calls) ")" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_that_are_not_shown_are_counted() {
        let call = |n: usize| -> Approval {
            serde_json::from_value(json!({
                "call": format!("c{n}"), "kind": "approval", "session": "s", "turn": "t", "run": "r",
                "agent": "a", "tool": "mail", "arguments": {}, "contract": "at_most_once",
                "rule": null, "requested_at": "2026-03-06T10:00:00Z", "expires_at": null,
            }))
            .unwrap()
        };
        let calls = WaitingCalls((0..3).map(call).collect());
        for (limit, cards, is_told) in [(2, 2, true), (3, 3, false)] {
            let room = TextLimit::new(1_000);
            let shown = calls.cards(limit, "/approvals", &room).into_string();
            assert_eq!(shown.matches("<article").count(), cards, "{shown}");
            assert_eq!(shown.contains("All 3 calls that wait"), is_told, "{shown}");
        }
    }
}
