//! OpenAI's Chat Completions.
//!
//! Source: the API reference, *The chat completion object* and *The chat completion chunk
//! object*. `reasoning_content` is not OpenAI's own: servers that speak the dialect send it.

use super::json::{list, quote, quote_or_null};
use crate::answer::{Answer, Stop};
use crate::sse::Frame;

const ENVELOPE: &str = r#""created":1700000000"#;
const SERVED_BY: &str = r#""service_tier":"default","system_fingerprint":"fp_fake""#;

pub(super) fn frames(answer: &Answer, stream_usage: bool) -> Vec<Frame> {
    let mut deltas = vec![opening(answer)];
    for piece in answer.reasoning_pieces() {
        deltas.push(format!(r#"{{"reasoning_content":{}}}"#, quote(&piece)));
    }
    let key = if refuses(answer) {
        "refusal"
    } else {
        "content"
    };
    for piece in &answer.text {
        deltas.push(format!(r#"{{"{key}":{}}}"#, quote(piece)));
    }
    for (place, call) in answer.calls.iter().enumerate() {
        let id = quote(&call.id_or("call", place));
        deltas.push(format!(
            r#"{{"tool_calls":[{{"index":{place},"id":{id},"type":"function","function":{{"name":{},"arguments":""}}}}]}}"#,
            quote(&call.name),
        ));
        for piece in answer.argument_pieces(call) {
            deltas.push(format!(
                r#"{{"tool_calls":[{{"index":{place},"function":{{"arguments":{}}}}}]}}"#,
                quote(&piece),
            ));
        }
    }
    let mut frames: Vec<Frame> = deltas
        .iter()
        .map(|delta| chunk(answer, &choice(delta, None), stream_usage.then_some("null")))
        .collect();
    let last = choice("{}", Some(finish_reason(answer)));
    frames.push(chunk(answer, &last, stream_usage.then_some("null")));
    if stream_usage {
        frames.push(chunk(answer, "", Some(&usage(answer))));
    }
    frames.push(Frame {
        event: None,
        data: "[DONE]".into(),
    });
    frames
}

pub(super) fn whole(answer: &Answer) -> String {
    let text = (!answer.text.is_empty()).then(|| answer.joined());
    let (content, refusal) = if refuses(answer) {
        (None, text.as_deref())
    } else {
        (text.as_deref(), None)
    };
    let reasoning = answer.reasoning.as_ref().map_or_else(String::new, |given| {
        format!(r#","reasoning_content":{}"#, quote(&given.text))
    });
    let calls = answer.calls.iter().enumerate().map(|(place, call)| {
        format!(
            r#"{{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}}"#,
            quote(&call.id_or("call", place)),
            quote(&call.name),
            quote(&call.arguments),
        )
    });
    let calls = match answer.calls.is_empty() {
        true => String::new(),
        false => format!(r#","tool_calls":{}"#, list(calls)),
    };
    format!(
        r#"{{"id":"chatcmpl-fake","object":"chat.completion",{ENVELOPE},"model":{},"choices":[{{"index":0,"message":{{"role":"assistant","content":{}{reasoning},"refusal":{}{calls},"annotations":[]}},"logprobs":null,"finish_reason":"{}"}}],"usage":{},{SERVED_BY}}}"#,
        quote(&answer.model),
        quote_or_null(content),
        quote_or_null(refusal),
        finish_reason(answer),
        usage(answer),
    )
}

fn opening(answer: &Answer) -> String {
    let content = if answer.text.is_empty() && !answer.calls.is_empty() {
        "null"
    } else {
        r#""""#
    };
    format!(r#"{{"role":"assistant","content":{content},"refusal":null}}"#)
}

fn choice(delta: &str, finish_reason: Option<&str>) -> String {
    let finish_reason = quote_or_null(finish_reason);
    format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish_reason}}}"#)
}

fn chunk(answer: &Answer, choice: &str, usage: Option<&str>) -> Frame {
    let model = quote(&answer.model);
    let usage = usage.map_or_else(String::new, |usage| format!(r#","usage":{usage}"#));
    Frame {
        event: None,
        data: format!(
            r#"{{"id":"chatcmpl-fake","object":"chat.completion.chunk",{ENVELOPE},"model":{model},{SERVED_BY},"choices":[{choice}]{usage}}}"#
        ),
    }
}

fn refuses(answer: &Answer) -> bool {
    answer.stop == Stop::Refused
}

fn finish_reason(answer: &Answer) -> &'static str {
    match answer.stop {
        Stop::CutOff => "length",
        Stop::Filtered => "content_filter",
        Stop::Complete if !answer.calls.is_empty() => "tool_calls",
        Stop::Complete | Stop::Refused => "stop",
    }
}

/// Models before those with priced cache writes have no `cache_write_tokens`.
fn usage(answer: &Answer) -> String {
    let used = &answer.usage;
    let written = match used.cache_write {
        0 => String::new(),
        written => format!(r#","cache_write_tokens":{written}"#),
    };
    format!(
        r#"{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}{written},"audio_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":{},"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}}"#,
        used.input,
        used.output,
        used.input + used.output,
        used.cache_read,
        used.reasoning,
    )
}
