//! Streams an answer while its turn is open, in either API's format.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use unisono::Error;
use unisono::follow::Follower;
use unisono_api::Code;
use unisono_api::turn::{Member, Turn};
use unisono_api::turn_event::TurnEvent;
use unisono_context::TurnId;

use super::{FieldError, PreparedRequest, follow};
use crate::http::Shared;
use crate::http::events::{json, reserve_stream};
use crate::http::problem::ApiError;
use crate::waiting::waiting;

/// The format of a response.
pub(super) trait Shape: Send {
    /// Before its first piece.
    fn on_start(&mut self) -> Vec<Event>;
    fn text_delta(&mut self, text: &str) -> Vec<Event>;
    /// The events after the last delta, from the complete text and the turn.
    fn on_end(&mut self, text: &str, turn: &Turn) -> Vec<Event>;
    fn failed(&mut self, refused: &FieldError) -> Vec<Event>;
}

/// The usage of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cached: u64,
}

impl Used {
    pub(super) fn from_turn(turn: &Turn) -> Used {
        Used {
            input: turn.usage.input_tokens,
            output: turn.usage.output_tokens,
            cached: turn.usage.cache_read_tokens,
        }
    }
}

/// Starts the turn and streams its answer in the given format.
pub(super) async fn stream<S: Shape + 'static>(
    shared: Arc<Shared>,
    mut asked: PreparedRequest,
    shape: impl FnOnce(TurnId) -> S,
) -> Result<Response, FieldError> {
    let place = match asked.place.take() {
        Some(place) => place,
        None => reserve_stream(&shared)?,
    };
    let (turn, follower) = follow(&shared, &mut asked).await?;
    let mut shape = shape(turn);
    let answer = Answer {
        ready: shape.on_start().into(),
        shape,
        asked,
        follower,
        turn,
        lead: None,
        sent: String::new(),
        whole: true,
        ended: false,
        _shared: shared,
        _place: place,
    };
    let events = stream::unfold(answer, |mut answer| async {
        let event = answer.next().await?;
        Some((Ok::<_, Infallible>(event), answer))
    });
    Ok(Sse::new(events)
        .keep_alive(KeepAlive::new())
        .into_response())
}

/// An answer during its stream.
struct Answer<S> {
    shape: S,
    asked: PreparedRequest,
    follower: Follower,
    turn: TurnId,
    /// The run that answers.
    lead: Option<String>,
    /// The text sent so far of the current reply.
    sent: String,
    /// Whether the sent text is complete so far: deltas can be missed.
    whole: bool,
    ready: VecDeque<Event>,
    ended: bool,
    _shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

impl<S: Shape> Answer<S> {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            match self.follower.next().await {
                Ok(Some(update)) => self.take(update.event).await,
                Ok(None) => self.ended = true,
                Err(error) => self.end(Err(error)).await,
            }
        }
    }

    async fn take(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::State(state) => {
                self.find_lead(&state.agents);
                // The next text may be the middle of a reply.
                self.whole = self.lead.is_none();
                self.check_waiting().await;
            }
            TurnEvent::Accepted { agents, .. } | TurnEvent::Runs { agents } => {
                self.find_lead(&agents);
            }
            TurnEvent::Text { run, text } if self.is_lead(&run) => self.text_delta(&text),
            TurnEvent::Missed => self.whole = false,
            // A reply ended or another attempt began: the next text is a new one.
            TurnEvent::RunStepped { run } if self.is_lead(&run) => {
                self.whole = self.sent.is_empty();
            }
            TurnEvent::RunRetried { agent, .. } if agent.role == "lead" => {
                self.whole = self.sent.is_empty();
            }
            TurnEvent::Waiting { .. } => self.check_waiting().await,
            TurnEvent::Ended(end) => self.end(Ok(end.turn)).await,
            _ => {}
        }
    }

    fn find_lead(&mut self, agents: &[Member]) {
        if let Some(lead) = agents.iter().find(|agent| agent.role == "lead") {
            self.lead.clone_from(&lead.run);
        }
    }

    fn is_lead(&self, run: &str) -> bool {
        self.lead.as_deref() == Some(run)
    }

    /// Ends the stream if calls of the turn wait for a person.
    async fn check_waiting(&mut self) {
        let waiting = waiting(&self.asked.session, self.turn).await;
        let waiting = waiting.unwrap_or_default();
        if !waiting.is_empty() {
            self.ended = true;
            let refused = self.asked.waits(self.turn, &waiting);
            self.ready.extend(self.shape.failed(&refused));
        }
    }

    fn text_delta(&mut self, text: &str) {
        if self.whole && !self.asked.is_structured {
            self.sent.push_str(text);
            self.ready.extend(self.shape.text_delta(text));
        }
    }

    /// The rest of the answer and the last events.
    async fn end(&mut self, turn: Result<Turn, Error>) {
        self.ended = true;
        self.asked.leave().await;
        match turn.map_err(FieldError::from).and_then(answer_text) {
            Ok((turn, text)) => {
                let rest = match text.strip_prefix(self.sent.as_str()) {
                    Some(rest) => rest.to_owned(),
                    None => format!("\n\n{text}"),
                };
                if !rest.is_empty() {
                    self.sent.push_str(&rest);
                    self.ready.extend(self.shape.text_delta(&rest));
                }
                let last = self.shape.on_end(&self.sent, &turn);
                self.ready.extend(last);
            }
            Err(refused) => {
                let last = self.shape.failed(&refused);
                self.ready.extend(last);
            }
        }
    }
}

pub(super) fn answer_text(turn: Turn) -> Result<(Turn, String), FieldError> {
    if let Some(text) = turn.answer.clone() {
        return Ok((turn, text));
    }
    let code = code_of_failure(&turn);
    let Some(error) = turn.error else {
        // Somebody cancelled it. A client that repeats the request would begin it again.
        let detail = format!("the turn was {}", turn.state);
        return Err(ApiError::new(Code::Refused, detail).into());
    };
    let detail = format!("{}: {}", error.code, error.reason);
    Err(ApiError::new(code, detail).into())
}

/// The error code for a failed turn. Clients retry automatically after 408, 409, 429 and 5xx, and
/// each retry is a turn with a cost; a failure that would repeat has another status.
fn code_of_failure(turn: &Turn) -> Code {
    let failed = turn.runs.iter().filter(|run| run.state == "failed");
    let failed = failed.filter_map(|run| run.error.as_ref());
    let mut codes = turn.error.iter().chain(failed).map(|error| &*error.code);
    codes
        .find_map(|code| match code {
            "budget_exceeded" => Some(Code::BudgetExceeded),
            "provider_rejected" => Some(Code::ProviderRejected),
            "bad_input" | "bad_output" | "context_overflow" | "hook_denied" | "refused"
            | "snapshot_mismatch" | "spawn_failed" => Some(Code::Refused),
            _ => None,
        })
        .unwrap_or(Code::Failed)
}

/// An event without a name.
pub(super) fn data(what: &impl serde::Serialize) -> Event {
    Event::default().data(json(what))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn only_a_failure_that_may_pass_has_a_status_that_clients_retry() {
        for (code, status) in [
            ("timeout", 500),
            ("provider_unavailable", 500),
            ("provider_rejected", 424),
            ("budget_exceeded", 402),
            ("context_overflow", 422),
            // Nobody knows whether a remote agent has the task: it must not be given it twice.
            ("bad_input", 422),
            ("spawn_failed", 422),
            ("snapshot_mismatch", 422),
        ] {
            let usage = json!({"input_tokens": 0, "output_tokens": 0, "cache_expected_tokens": 0,
                "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": null});
            let lead = json!({"run": "r", "agent": "a", "model": null, "role": "lead",
                "stage": null, "parent": null, "task": null, "state": "failed", "attempt": 1,
                "snapshot": null, "prefix": "", "text": null,
                "error": {"code": code, "reason": "so"}, "usage": usage,
                "opened_at": "2026-05-07T00:00:00Z", "duration_ms": 1});
            let turn = json!({"session": "s", "turn": "t", "branch": "main", "task": "?",
                "state": "failed", "error": {"code": "lead_failed", "reason": "so"},
                "answer": null, "snapshot": null, "snapshot_agents": 1, "checkpoints": [],
                "runs": [lead], "cost_usd": null, "accepted_at": "2026-05-07T00:00:00Z",
                "ended_at": null});
            let turn: Turn = from_value(turn).unwrap();
            let failed = code_of_failure(&turn);
            assert_eq!(failed.status(), status, "{code}");
            // A stream has no status of its failure: its clients read the kind.
            let kind = FieldError::from(ApiError::new(failed, "so"))
                .failure()
                .error
                .kind;
            assert_eq!(kind == "server_error", status >= 500, "{code}: {kind}");
        }
    }
}
