//! Answers in OpenAI's shape, whole or piece by piece.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use unisono_api::openai::{
    ChatCompletion, Choice, Chunk, ChunkChoice, Delta, PromptTokens, Said, Tokens,
};
use unisono_api::turn::Turn;
use unisono_context::{RunId, TurnId};
use unisono_runtime::Progress;
use unisono_session::Fact;
use unisono_session::event::RunRole;

use super::{Asked, Refused, answered, follow, now};
use crate::http::events::{Next, Stream};
use crate::http::{Shared, turns};

/// The last line of a stream.
const DONE: &str = "[DONE]";

/// The answer of a turn.
pub(super) fn completion(id: TurnId, model: String, text: String, turn: &Turn) -> ChatCompletion {
    ChatCompletion {
        id: format!("chatcmpl-{id}"),
        object: "chat.completion",
        created: now(),
        model,
        choices: vec![Choice {
            index: 0,
            message: Said {
                role: "assistant",
                content: text,
            },
            finish_reason: "stop",
        }],
        usage: tokens(turn),
    }
}

/// What all runs of a turn used together.
fn tokens(turn: &Turn) -> Tokens {
    let sum = |of: fn(&unisono_api::usage::Amounts) -> u64| -> u64 {
        turn.runs.iter().map(|run| of(&run.usage)).sum()
    };
    let (input, output) = (sum(|u| u.input_tokens), sum(|u| u.output_tokens));
    Tokens {
        prompt_tokens: input,
        completion_tokens: output,
        total_tokens: input + output,
        prompt_tokens_details: PromptTokens {
            cached_tokens: sum(|u| u.cache_read_tokens),
        },
    }
}

/// Asks, and gives the answer as it comes.
pub(super) async fn stream(
    shared: Arc<Shared>,
    asked: Asked,
    model: String,
    usage: bool,
) -> Result<Response, Refused> {
    let (stream, turn) = follow(&shared, &asked).await?;
    let mut answer = Answer {
        shared,
        asked,
        stream,
        turn,
        model,
        created: now(),
        usage,
        lead: None,
        sent: String::new(),
        whole: true,
        ready: VecDeque::new(),
        ended: false,
    };
    answer.push(Delta {
        role: Some("assistant"),
        content: Some(String::new()),
    });
    let events = stream::unfold(answer, |mut answer| async {
        let event = answer.next().await?;
        Some((Ok::<_, Infallible>(event), answer))
    });
    Ok(Sse::new(events)
        .keep_alive(KeepAlive::new())
        .into_response())
}

/// An answer that is being given.
struct Answer {
    shared: Arc<Shared>,
    asked: Asked,
    stream: Stream,
    turn: TurnId,
    model: String,
    created: i64,
    usage: bool,
    /// The run that answers.
    lead: Option<RunId>,
    /// What was sent of the reply that is coming.
    sent: String,
    /// Whether that is all there was of it so far: pieces can be missed.
    whole: bool,
    ready: VecDeque<Event>,
    ended: bool,
}

impl Answer {
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
                Some(Next::Said(Progress::Piece { run, text })) if Some(run) == self.lead => {
                    self.piece(&text);
                }
                Some(Next::Said(_) | Next::Agents(_)) => {}
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
            // A reply is over, or another attempt begins: what comes is another text.
            Fact::RunStepped { run, .. } | Fact::RunRetried { run, .. }
                if Some(*run) == self.lead =>
            {
                self.whole = self.sent.is_empty();
            }
            Fact::TurnEnded { turn, .. } if *turn == self.turn => self.end().await,
            _ => {}
        }
    }

    fn piece(&mut self, text: &str) {
        if self.whole {
            self.sent.push_str(text);
            self.push(Delta {
                role: None,
                content: Some(text.to_owned()),
            });
        }
    }

    /// What is left of the answer, and the last lines.
    async fn end(&mut self) {
        self.ended = true;
        let told = turns::read(&self.shared, &self.asked.session, self.turn).await;
        self.asked.leave(&self.shared).await;
        match told.map_err(Refused::from).and_then(answered) {
            Ok((turn, text)) => {
                let rest = match text.strip_prefix(self.sent.as_str()) {
                    Some(rest) => rest.to_owned(),
                    None => format!("\n\n{text}"),
                };
                if !rest.is_empty() {
                    self.push(Delta {
                        role: None,
                        content: Some(rest),
                    });
                }
                self.chunk(vec![choice(Delta::default(), Some("stop"))], None);
                if self.usage {
                    self.chunk(Vec::new(), Some(tokens(&turn)));
                }
            }
            Err(refused) => self.ready.push_back(data(&refused.failure())),
        }
        self.ready.push_back(Event::default().data(DONE));
    }

    fn push(&mut self, delta: Delta) {
        self.chunk(vec![choice(delta, None)], None);
    }

    fn chunk(&mut self, choices: Vec<ChunkChoice>, usage: Option<Tokens>) {
        self.ready.push_back(data(&Chunk {
            id: format!("chatcmpl-{}", self.turn),
            object: "chat.completion.chunk",
            created: self.created,
            model: self.model.clone(),
            choices,
            usage,
        }));
    }
}

fn choice(delta: Delta, finish_reason: Option<&'static str>) -> ChunkChoice {
    ChunkChoice {
        index: 0,
        delta,
        finish_reason,
    }
}

fn data(what: &impl serde::Serialize) -> Event {
    // Serialising these types does not fail.
    Event::default().data(serde_json::to_string(what).unwrap_or_default())
}
