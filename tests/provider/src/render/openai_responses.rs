//! OpenAI's Responses.
//!
//! Source: the API reference, *The response object* and *Streaming events*. The last event is
//! `response.completed`, or `response.incomplete` for an answer that was cut off or filtered.

use super::json::{list, quote, quote_or_null};
use crate::answer::{Answer, Call, Reasoning, Stop};
use crate::sse::Frame;

pub(super) fn frames(answer: &Answer) -> Vec<Frame> {
    let mut stream = Stream::default();
    let started = response(answer, "in_progress", "[]", "null");
    stream.event("response.created", &format!(r#","response":{started}"#));
    stream.event("response.in_progress", &format!(r#","response":{started}"#));
    if let Some(reasoning) = &answer.reasoning {
        stream.reasoning(answer, reasoning);
    }
    if !answer.text.is_empty() {
        stream.message(answer);
    }
    for (place, call) in answer.calls.iter().enumerate() {
        stream.call(answer, call, place);
    }
    let last = match status(answer) {
        "completed" => "response.completed",
        _ => "response.incomplete",
    };
    stream.event(last, &format!(r#","response":{}"#, whole(answer)));
    stream.frames
}

pub(super) fn whole(answer: &Answer) -> String {
    let mut output = Vec::new();
    if let Some(given) = &answer.reasoning {
        output.push(reasoning_item(given, &list([summary(&given.text)])));
    }
    if !answer.text.is_empty() {
        let content = list([part(answer, &answer.joined())]);
        output.push(message_item(status(answer), &content));
    }
    for (place, call) in answer.calls.iter().enumerate() {
        output.push(call_item(call, place, status(answer), &call.arguments));
    }
    response(answer, status(answer), &list(output), &usage(answer))
}

/// The events so far, numbered in sequence.
#[derive(Default)]
struct Stream {
    frames: Vec<Frame>,
    items: usize,
}

impl Stream {
    /// An event. `fields` follow its type, each with a comma before it.
    fn event(&mut self, event: &'static str, fields: &str) {
        let number = self.frames.len();
        self.frames.push(Frame {
            event: Some(event),
            data: format!(r#"{{"type":"{event}"{fields},"sequence_number":{number}}}"#),
        });
    }

    /// An output item from its start to its end, its events in between.
    fn item(&mut self, start: &str, end: &str, events: impl FnOnce(&mut Stream, usize)) {
        let index = self.items;
        let fields = |item: &str| format!(r#","output_index":{index},"item":{item}"#);
        self.event("response.output_item.added", &fields(start));
        events(self, index);
        self.event("response.output_item.done", &fields(end));
        self.items += 1;
    }

    fn reasoning(&mut self, answer: &Answer, given: &Reasoning) {
        let end = reasoning_item(given, &list([summary(&given.text)]));
        self.item(&reasoning_item(given, "[]"), &end, |stream, index| {
            let at = format!(r#","item_id":"rs_fake","output_index":{index},"summary_index":0"#);
            let part = |text: &str| format!(r#"{at},"part":{}"#, summary(text));
            stream.event("response.reasoning_summary_part.added", &part(""));
            for piece in answer.reasoning_pieces() {
                let fields = format!(r#"{at},"delta":{}"#, quote(&piece));
                stream.event("response.reasoning_summary_text.delta", &fields);
            }
            let fields = format!(r#"{at},"text":{}"#, quote(&given.text));
            stream.event("response.reasoning_summary_text.done", &fields);
            stream.event("response.reasoning_summary_part.done", &part(&given.text));
        });
    }

    fn message(&mut self, answer: &Answer) {
        let text = answer.joined();
        let refuses = answer.stop == Stop::Refused;
        let (delta, done, key) = match refuses {
            true => ("response.refusal.delta", "response.refusal.done", "refusal"),
            false => (
                "response.output_text.delta",
                "response.output_text.done",
                "text",
            ),
        };
        let logprobs = if refuses { "" } else { r#","logprobs":[]"# };
        let end = message_item(status(answer), &list([part(answer, &text)]));
        self.item(&message_item("in_progress", "[]"), &end, |stream, index| {
            let at = format!(r#","item_id":"msg_fake","output_index":{index},"content_index":0"#);
            let whole = |text: &str| format!(r#"{at},"part":{}"#, part(answer, text));
            stream.event("response.content_part.added", &whole(""));
            for piece in &answer.text {
                let fields = format!(r#"{at},"delta":{}{logprobs}"#, quote(piece));
                stream.event(delta, &fields);
            }
            stream.event(done, &format!(r#"{at},"{key}":{}{logprobs}"#, quote(&text)));
            stream.event("response.content_part.done", &whole(&text));
        });
    }

    fn call(&mut self, answer: &Answer, call: &Call, place: usize) {
        let start = call_item(call, place, "in_progress", "");
        let end = call_item(call, place, status(answer), &call.arguments);
        self.item(&start, &end, |stream, index| {
            let at = format!(
                r#","item_id":"{}","output_index":{index}"#,
                call_item_id(place)
            );
            for piece in answer.argument_pieces(call) {
                let fields = format!(r#"{at},"delta":{}"#, quote(&piece));
                stream.event("response.function_call_arguments.delta", &fields);
            }
            let fields = format!(r#"{at},"arguments":{}"#, quote(&call.arguments));
            stream.event("response.function_call_arguments.done", &fields);
        });
    }
}

fn reasoning_item(given: &Reasoning, summary: &str) -> String {
    let content = match given.signature.is_empty() {
        true => String::new(),
        false => format!(r#","encrypted_content":{}"#, quote(&given.signature)),
    };
    format!(r#"{{"id":"rs_fake","type":"reasoning"{content},"summary":{summary}}}"#)
}

fn summary(text: &str) -> String {
    format!(r#"{{"type":"summary_text","text":{}}}"#, quote(text))
}

fn message_item(status: &str, content: &str) -> String {
    format!(
        r#"{{"id":"msg_fake","type":"message","status":"{status}","content":{content},"role":"assistant"}}"#
    )
}

fn part(answer: &Answer, text: &str) -> String {
    let text = quote(text);
    match answer.stop {
        Stop::Refused => format!(r#"{{"type":"refusal","refusal":{text}}}"#),
        _ => format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{text}}}"#),
    }
}

fn call_item_id(place: usize) -> String {
    format!("fc_{}", place + 1)
}

fn call_item(call: &Call, place: usize, status: &str, arguments: &str) -> String {
    format!(
        r#"{{"id":"{}","type":"function_call","status":"{status}","arguments":{},"call_id":{},"name":{}}}"#,
        call_item_id(place),
        quote(arguments),
        quote(&call.id_or("call", place)),
        quote(&call.name),
    )
}

fn status(answer: &Answer) -> &'static str {
    match answer.stop {
        Stop::Complete | Stop::Refused => "completed",
        Stop::CutOff | Stop::Filtered => "incomplete",
    }
}

fn response(answer: &Answer, status: &str, output: &str, usage: &str) -> String {
    let reason = match (status, answer.stop) {
        ("incomplete", Stop::Filtered) => Some("content_filter"),
        ("incomplete", _) => Some("max_output_tokens"),
        _ => None,
    };
    let incomplete = reason.map_or_else(
        || quote_or_null(None),
        |reason| format!(r#"{{"reason":"{reason}"}}"#),
    );
    format!(
        r#"{{"id":"resp_fake","object":"response","created_at":1700000000,"status":"{status}","background":false,"error":null,"incomplete_details":{incomplete},"instructions":null,"max_output_tokens":null,"model":{},"output":{output},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{{"effort":null,"summary":null}},"service_tier":"default","store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#,
        quote(&answer.model),
    )
}

/// Models before those with priced cache writes have no `cache_write_tokens`.
fn usage(answer: &Answer) -> String {
    let used = &answer.usage;
    let written = match used.cache_write {
        0 => String::new(),
        written => format!(r#","cache_write_tokens":{written}"#),
    };
    format!(
        r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{}{written}}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":{}}},"total_tokens":{}}}"#,
        used.input,
        used.cache_read,
        used.output,
        used.reasoning,
        used.input + used.output,
    )
}
