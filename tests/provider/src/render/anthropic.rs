//! Anthropic's Messages.
//!
//! Source: the API reference, *Messages* and *Streaming messages*.

use super::json::{list, quote, quote_or_null, value};
use crate::answer::{Answer, Stop};
use crate::sse::Frame;

pub(super) fn frames(answer: &Answer) -> Vec<Frame> {
    let mut frames = vec![frame(
        "message_start",
        format!(r#","message":{}"#, message(answer, "[]", None, 1)),
    )];
    let mut blocks = Blocks {
        frames: &mut frames,
        open: 0,
    };
    if let Some(reasoning) = &answer.reasoning {
        let texts = answer.reasoning_pieces().into_iter();
        let thoughts = texts.map(|piece| delta("thinking_delta", "thinking", &piece));
        let signature = delta("signature_delta", "signature", &reasoning.signature);
        let start = r#"{"type":"thinking","thinking":"","signature":""}"#;
        blocks.block(start, thoughts.chain([signature]));
    }
    if !answer.text.is_empty() {
        let texts = answer.text.iter();
        let start = r#"{"type":"text","text":""}"#;
        blocks.block(start, texts.map(|piece| delta("text_delta", "text", piece)));
    }
    for (place, call) in answer.calls.iter().enumerate() {
        let start = tool_use(&call.id_or("toolu", place), &call.name, "{}");
        let pieces = answer.argument_pieces(call).into_iter();
        // The first piece is empty, as it is on the wire.
        let pieces = std::iter::once(String::new()).chain(pieces);
        let deltas = pieces.map(|piece| delta("input_json_delta", "partial_json", &piece));
        blocks.block(&start, deltas);
    }
    frames.push(frame(
        "message_delta",
        format!(
            r#","delta":{{"stop_reason":{},"stop_sequence":null}},"usage":{}"#,
            quote(stop_reason(answer)),
            usage(answer, answer.usage.output, ""),
        ),
    ));
    frames.push(frame("message_stop", String::new()));
    frames
}

pub(super) fn whole(answer: &Answer) -> String {
    let mut content = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        content.push(format!(
            r#"{{"type":"thinking","thinking":{},"signature":{}}}"#,
            quote(&reasoning.text),
            quote(&reasoning.signature),
        ));
    }
    if !answer.text.is_empty() {
        let text = quote(&answer.joined());
        content.push(format!(r#"{{"type":"text","text":{text}}}"#));
    }
    for (place, call) in answer.calls.iter().enumerate() {
        let id = call.id_or("toolu", place);
        content.push(tool_use(&id, &call.name, &value(&call.arguments)));
    }
    let output = answer.usage.output;
    message(answer, &list(content), Some(stop_reason(answer)), output)
}

/// Writes content blocks, one after the other; a ping follows the start of the first.
struct Blocks<'a> {
    frames: &'a mut Vec<Frame>,
    open: usize,
}

impl Blocks<'_> {
    fn block(&mut self, start: &str, deltas: impl IntoIterator<Item = String>) {
        let index = self.open;
        self.frames.push(frame(
            "content_block_start",
            format!(r#","index":{index},"content_block":{start}"#),
        ));
        if index == 0 {
            self.frames.push(frame("ping", String::new()));
        }
        for delta in deltas {
            let fields = format!(r#","index":{index},"delta":{delta}"#);
            self.frames.push(frame("content_block_delta", fields));
        }
        let fields = format!(r#","index":{index}"#);
        self.frames.push(frame("content_block_stop", fields));
        self.open += 1;
    }
}

/// An event. `fields` follow its type, each with a comma before it.
fn frame(event: &'static str, fields: String) -> Frame {
    Frame {
        event: Some(event),
        data: format!(r#"{{"type":"{event}"{fields}}}"#),
    }
}

fn delta(kind: &str, key: &str, piece: &str) -> String {
    format!(r#"{{"type":"{kind}","{key}":{}}}"#, quote(piece))
}

fn tool_use(id: &str, name: &str, input: &str) -> String {
    let (id, name) = (quote(id), quote(name));
    format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{input}}}"#)
}

fn message(answer: &Answer, content: &str, stop_reason: Option<&str>, output: u64) -> String {
    format!(
        r#"{{"id":"msg_fake","type":"message","role":"assistant","model":{},"content":{content},"stop_reason":{},"stop_sequence":null,"usage":{}}}"#,
        quote(&answer.model),
        quote_or_null(stop_reason),
        usage(answer, output, r#","service_tier":"standard""#),
    )
}

fn stop_reason(answer: &Answer) -> &'static str {
    match answer.stop {
        Stop::CutOff => "max_tokens",
        Stop::Refused | Stop::Filtered => "refusal",
        Stop::Complete if !answer.calls.is_empty() => "tool_use",
        Stop::Complete => "end_turn",
    }
}

/// `input_tokens` is what was neither read from nor written to the cache.
fn usage(answer: &Answer, output: u64, more: &str) -> String {
    let used = &answer.usage;
    let (read, written) = (used.cache_read, used.cache_write);
    let fresh = used.input.saturating_sub(read + written);
    format!(
        r#"{{"input_tokens":{fresh},"cache_creation_input_tokens":{written},"cache_read_input_tokens":{read},"cache_creation":{{"ephemeral_5m_input_tokens":{written},"ephemeral_1h_input_tokens":0}},"output_tokens":{output}{more}}}"#
    )
}
