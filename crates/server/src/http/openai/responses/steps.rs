//! A response piece by piece: its events, numbered.

use axum::response::sse::Event;
use serde_json::{Value, json};
use unisono_api::openai::{Response, ResponseError};
use unisono_api::turn::{ClientToolCall, Turn};
use unisono_context::TurnId;

use super::super::FieldError;
use super::super::answer::Shape;
use super::{Draft, call, message, output, part, status};

pub(super) struct Steps {
    pub(super) draft: Draft,
    pub(super) turn: TurnId,
    pub(super) sequence: u64,
    /// Whether its message has begun.
    pub(super) begun: bool,
}

impl Steps {
    fn event(&mut self, name: &str, mut body: Value) -> Event {
        if let Some(body) = body.as_object_mut() {
            body.insert("type".to_owned(), name.into());
            body.insert("sequence_number".to_owned(), self.sequence.into());
        }
        self.sequence += 1;
        Event::default().event(name).data(body.to_string())
    }

    fn about_text(&mut self, name: &str, mut more: Value) -> Event {
        if let Some(more) = more.as_object_mut() {
            more.insert("item_id".to_owned(), format!("msg_{}", self.turn).into());
            more.insert("output_index".to_owned(), 0.into());
            more.insert("content_index".to_owned(), 0.into());
        }
        self.event(name, more)
    }

    fn state(&mut self, name: &str, response: &Response) -> Event {
        self.event(name, json!({"response": response}))
    }

    /// The message begins with its first text: an answer may consist of calls only.
    fn begin_message(&mut self) -> Vec<Event> {
        if std::mem::replace(&mut self.begun, true) {
            return Vec::new();
        }
        let mut item = message(self.turn, "in_progress", String::new());
        item.content.clear();
        vec![
            self.event(
                "response.output_item.added",
                json!({"output_index": 0, "item": item}),
            ),
            self.about_text(
                "response.content_part.added",
                json!({"part": part(String::new())}),
            ),
        ]
    }

    fn end_message(&mut self, text: &str, status: &'static str) -> [Event; 3] {
        let item = message(self.turn, status, text.to_owned());
        [
            self.about_text(
                "response.output_text.done",
                json!({"text": text, "logprobs": []}),
            ),
            self.about_text(
                "response.content_part.done",
                json!({"part": part(text.to_owned())}),
            ),
            self.event(
                "response.output_item.done",
                json!({"output_index": 0, "item": item}),
            ),
        ]
    }

    /// The events of a call, all at once.
    fn call_events(&mut self, place: usize, left: &ClientToolCall) -> [Event; 4] {
        let done = call(left, "completed");
        let mut begun = call(left, "in_progress");
        begun.arguments.clear();
        let about =
            |key: &str| json!({"item_id": done.id, "output_index": place, key: left.arguments});
        let mut ended = about("arguments");
        ended["name"] = left.tool.as_str().into();
        [
            self.event(
                "response.output_item.added",
                json!({"output_index": place, "item": begun}),
            ),
            self.event("response.function_call_arguments.delta", about("delta")),
            self.event("response.function_call_arguments.done", ended),
            self.event(
                "response.output_item.done",
                json!({"output_index": place, "item": done}),
            ),
        ]
    }
}

impl Shape for Steps {
    fn on_start(&mut self) -> Vec<Event> {
        let response = self
            .draft
            .response(self.turn, "in_progress", Vec::new(), None);
        vec![
            self.state("response.created", &response),
            self.state("response.in_progress", &response),
        ]
    }

    fn text_delta(&mut self, text: &str) -> Vec<Event> {
        let mut events = self.begin_message();
        let delta = json!({"delta": text, "logprobs": []});
        events.push(self.about_text("response.output_text.delta", delta));
        events
    }

    fn on_end(&mut self, text: &str, turn: &Turn) -> Vec<Event> {
        let (mut events, status) = (Vec::new(), status(turn));
        if turn.calls.is_empty() {
            events.extend(self.begin_message());
        }
        if self.begun {
            events.extend(self.end_message(text, status));
        }
        let before = usize::from(self.begun);
        for (at, left) in turn.calls.iter().enumerate() {
            events.extend(self.call_events(before + at, left));
        }
        let output = output(self.turn, text.to_owned(), turn);
        let all = self.draft.response(self.turn, status, output, Some(turn));
        events.push(self.state(&format!("response.{status}"), &all));
        events
    }

    fn failed(&mut self, refused: &FieldError) -> Vec<Event> {
        let mut response = self.draft.response(self.turn, "failed", Vec::new(), None);
        response.error = Some(ResponseError {
            code: error_code(refused.0.status().as_u16()),
            message: refused.failure().error.message,
        });
        vec![self.state("response.failed", &response)]
    }
}

/// The code for a failure with this status. Clients repeat a response that failed with another code
/// than `invalid_prompt` and `insufficient_quota`.
fn error_code(status: u16) -> &'static str {
    match status {
        402 => "insufficient_quota",
        429 => "rate_limit_exceeded",
        500.. => "server_error",
        _ => "invalid_prompt",
    }
}

#[cfg(test)]
mod tests {
    use unisono_api::Code;

    use super::*;

    #[test]
    fn a_stream_says_whether_its_request_may_be_repeated() {
        for (code, expected) in [
            (Code::Failed, "server_error"),
            (Code::Unavailable, "server_error"),
            (Code::Busy, "rate_limit_exceeded"),
            (Code::BudgetExceeded, "insufficient_quota"),
            (Code::Refused, "invalid_prompt"),
            (Code::ProviderRejected, "invalid_prompt"),
        ] {
            assert_eq!(error_code(code.status()), expected, "{code:?}");
        }
    }
}
