//! Answers as chat completions, whole or piece by piece.

use axum::response::sse::Event;
use unisono_api::openai::{
    CalledFunction, ChatCompletion, Choice, Chunk, ChunkChoice, Delta, FunctionCall, PromptTokens,
    ReplyMessage, Tokens,
};
use unisono_api::turn::Turn;
use unisono_context::TurnId;

use super::answer::{Shape, Used, data};
use super::{FieldError, now};

/// The last line of a stream.
const DONE: &str = "[DONE]";

pub(super) fn completion(id: TurnId, model: String, text: String, turn: &Turn) -> ChatCompletion {
    ChatCompletion {
        id: format!("chatcmpl-{id}"),
        object: "chat.completion",
        created: now(),
        model,
        choices: vec![Choice {
            index: 0,
            message: ReplyMessage {
                role: "assistant",
                content: Some(text).filter(|text| turn.calls.is_empty() || !text.is_empty()),
                tool_calls: calls(turn, |_| None),
            },
            finish_reason: finish(turn),
        }],
        usage: tokens(turn),
    }
}

/// Why the answer ends.
fn finish(turn: &Turn) -> &'static str {
    match turn.calls.is_empty() {
        false => "tool_calls",
        true if turn.is_cut_off() => "length",
        true => "stop",
    }
}

fn calls(turn: &Turn, index: impl Fn(usize) -> Option<usize>) -> Vec<FunctionCall> {
    let calls = turn.calls.iter().enumerate();
    let calls = calls.map(|(at, call)| FunctionCall {
        index: index(at),
        id: call.id.clone(),
        kind: "function",
        function: CalledFunction {
            name: call.tool.clone(),
            arguments: call.arguments.clone(),
        },
    });
    calls.collect()
}

fn tokens(turn: &Turn) -> Tokens {
    let used = Used::from_turn(turn);
    Tokens {
        prompt_tokens: used.input,
        completion_tokens: used.output,
        total_tokens: used.input + used.output,
        prompt_tokens_details: PromptTokens {
            cached_tokens: used.cached,
        },
    }
}

pub(super) struct Chunks {
    pub(super) id: TurnId,
    pub(super) model: String,
    pub(super) created: i64,
    /// Whether the last chunk has the usage.
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
        let delta = Delta {
            role,
            content: Some(content.to_owned()),
            ..Delta::default()
        };
        self.chunk(vec![choice(delta, None)], None)
    }
}

impl Shape for Chunks {
    fn on_start(&mut self) -> Vec<Event> {
        vec![self.delta(Some("assistant"), "")]
    }

    fn text_delta(&mut self, text: &str) -> Vec<Event> {
        vec![self.delta(None, text)]
    }

    fn on_end(&mut self, _: &str, turn: &Turn) -> Vec<Event> {
        let called = Delta {
            tool_calls: calls(turn, Some),
            ..Delta::default()
        };
        let called = (!turn.calls.is_empty()).then(|| self.chunk(vec![choice(called, None)], None));
        let last = self.chunk(vec![choice(Delta::default(), Some(finish(turn)))], None);
        let used = || self.chunk(Vec::new(), Some(tokens(turn)));
        let used = self.usage.then(used);
        [called, Some(last), used, Some(Event::default().data(DONE))]
            .into_iter()
            .flatten()
            .collect()
    }

    fn failed(&mut self, refused: &FieldError) -> Vec<Event> {
        vec![data(&refused.failure()), Event::default().data(DONE)]
    }
}

fn choice(delta: Delta, finish_reason: Option<&'static str>) -> ChunkChoice {
    ChunkChoice {
        index: 0,
        delta,
        finish_reason,
    }
}
