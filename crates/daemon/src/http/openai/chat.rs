//! Answers as chat completions, whole or piece by piece.

use axum::response::sse::Event;
use unisono_api::openai::{
    ChatCompletion, Choice, Chunk, ChunkChoice, Delta, Failure, PromptTokens, Said, Tokens,
};
use unisono_api::turn::Turn;
use unisono_context::TurnId;

use super::answer::{Shape, Used, data};
use super::now;

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

fn tokens(turn: &Turn) -> Tokens {
    let used = Used::of(turn);
    Tokens {
        prompt_tokens: used.input,
        completion_tokens: used.output,
        total_tokens: used.input + used.output,
        prompt_tokens_details: PromptTokens {
            cached_tokens: used.cached,
        },
    }
}

/// Chunks of a completion.
pub(super) struct Chunks {
    pub(super) id: TurnId,
    pub(super) model: String,
    pub(super) created: i64,
    /// Whether the last one says what was used.
    pub(super) usage: bool,
}

impl Chunks {
    fn chunk(&self, choices: Vec<ChunkChoice>, usage: Option<Tokens>) -> Event {
        data(&Chunk {
            id: format!("chatcmpl-{}", self.id),
            object: "chat.completion.chunk",
            created: self.created,
            model: self.model.clone(),
            choices,
            usage,
        })
    }

    fn delta(&self, role: Option<&'static str>, content: &str) -> Event {
        let content = Some(content.to_owned());
        self.chunk(vec![choice(Delta { role, content }, None)], None)
    }
}

impl Shape for Chunks {
    fn begun(&mut self) -> Vec<Event> {
        vec![self.delta(Some("assistant"), "")]
    }

    fn piece(&mut self, text: &str) -> Vec<Event> {
        vec![self.delta(None, text)]
    }

    fn ended(&mut self, _: &str, turn: &Turn) -> Vec<Event> {
        let last = self.chunk(vec![choice(Delta::default(), Some("stop"))], None);
        let used = || self.chunk(Vec::new(), Some(tokens(turn)));
        let used = self.usage.then(used);
        [Some(last), used, Some(Event::default().data(DONE))]
            .into_iter()
            .flatten()
            .collect()
    }

    fn failed(&mut self, failure: &Failure) -> Vec<Event> {
        vec![data(failure), Event::default().data(DONE)]
    }
}

fn choice(delta: Delta, finish_reason: Option<&'static str>) -> ChunkChoice {
    ChunkChoice {
        index: 0,
        delta,
        finish_reason,
    }
}
