//! Streams an answer while its turn is open, in either API's format.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use unisono_api::openai::Failure;
use unisono_api::turn::Turn;
use unisono_context::{RunId, TurnId};
use unisono_runtime::Progress;
use unisono_session::Fact;
use unisono_session::event::RunRole;
use unisono_session::run::CUT_OFF;

use super::{FieldError, PreparedRequest, answer_text, follow};
use crate::http::events::{Next, Stream};
use crate::http::{Shared, turns};
use crate::waiting::{can_wait, waiting};

/// The format of a response.
pub(super) trait Shape: Send {
    /// Before its first piece.
    fn on_start(&mut self) -> Vec<Event>;
    /// The next events.
    fn piece(&mut self, text: &str) -> Vec<Event>;
    /// The events after the last delta, from the complete text and the turn.
    fn on_end(&mut self, text: &str, turn: &Turn) -> Vec<Event>;
    /// The events of a failure.
    fn failed(&mut self, failure: &Failure) -> Vec<Event>;
}

/// The usage of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cached: u64,
}

impl Used {
    pub(super) fn of(turn: &Turn) -> Used {
        Used {
            input: turn.usage.input_tokens,
            output: turn.usage.output_tokens,
            cached: turn.usage.cache_read_tokens,
        }
    }
}

/// Whether the reply was cut at its token limit.
pub(in crate::http) fn is_cut_off(turn: &Turn) -> bool {
    let lead = turn.runs.iter().rfind(|run| run.role == "lead");
    let lacking = lead.and_then(|run| run.error.as_ref());
    lacking.is_some_and(|lacking| lacking.reason.starts_with(CUT_OFF))
}

/// Starts the turn and streams its answer in the given format.
pub(super) async fn stream<S: Shape + 'static>(
    shared: Arc<Shared>,
    mut asked: PreparedRequest,
    shape: impl FnOnce(TurnId) -> S,
) -> Result<Response, FieldError> {
    let (stream, turn) = follow(&shared, &mut asked).await?;
    let mut shape = shape(turn);
    let answer = Answer {
        ready: shape.on_start().into(),
        shape,
        shared,
        asked,
        stream,
        turn,
        lead: None,
        sent: String::new(),
        whole: true,
        ended: false,
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
    shared: Arc<Shared>,
    asked: PreparedRequest,
    stream: Stream,
    turn: TurnId,
    /// The run that answers.
    lead: Option<RunId>,
    /// The text sent so far of the current reply.
    sent: String,
    /// Whether the sent text is complete so far: deltas can be missed.
    whole: bool,
    ready: VecDeque<Event>,
    ended: bool,
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
            match self.stream.next().await {
                Some(Next::Recorded(_, event)) => self.recorded(&event.fact).await,
                Some(Next::Progress(Progress::TextDelta { run, text }))
                    if Some(run) == self.lead =>
                {
                    self.piece(&text);
                }
                Some(Next::Progress(_) | Next::Agents(_)) => {}
                Some(Next::Missed) => self.whole = false,
                None => self.end().await,
            }
        }
    }

    async fn recorded(&mut self, fact: &Fact) {
        match fact {
            Fact::RunOpened { run } if run.turn == self.turn && run.role == RunRole::Lead => {
                self.lead = Some(run.id);
            }
            // A reply ended or another attempt began: the next text is a new one.
            Fact::RunStepped { run, .. }
            | Fact::ToolsAnswered { run, .. }
            | Fact::RunRetried { run, .. }
                if Some(*run) == self.lead =>
            {
                self.whole = self.sent.is_empty();
            }
            Fact::TurnEnded { turn, .. } if *turn == self.turn => self.end().await,
            fact if can_wait(fact) => self.check_waiting().await,
            _ => {}
        }
    }

    /// Ends the stream if calls of the turn wait for a person.
    async fn check_waiting(&mut self) {
        let waiting = waiting(&self.asked.session, self.turn).await;
        let waiting = waiting.unwrap_or_default();
        if !waiting.is_empty() {
            self.ended = true;
            let refused = self.asked.waits(self.turn, &waiting);
            self.ready.extend(self.shape.failed(&refused.failure()));
        }
    }

    fn piece(&mut self, text: &str) {
        if self.whole {
            self.sent.push_str(text);
            self.ready.extend(self.shape.piece(text));
        }
    }

    /// The rest of the answer and the last events.
    async fn end(&mut self) {
        self.ended = true;
        let turn = turns::read(&self.shared, &self.asked.session, self.turn).await;
        self.asked.leave().await;
        match turn.map_err(FieldError::from).and_then(answer_text) {
            Ok((turn, text)) => {
                let rest = match text.strip_prefix(self.sent.as_str()) {
                    Some(rest) => rest.to_owned(),
                    None => format!("\n\n{text}"),
                };
                if !rest.is_empty() {
                    self.sent.push_str(&rest);
                    self.ready.extend(self.shape.piece(&rest));
                }
                let last = self.shape.on_end(&self.sent, &turn);
                self.ready.extend(last);
            }
            Err(refused) => {
                let last = self.shape.failed(&refused.failure());
                self.ready.extend(last);
            }
        }
    }
}

/// An event without a name.
pub(super) fn data(what: &impl serde::Serialize) -> Event {
    // Serialising these types does not fail.
    Event::default().data(serde_json::to_string(what).unwrap_or_default())
}
