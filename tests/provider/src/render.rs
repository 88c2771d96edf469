//! Answers as bytes: a stream of events or one document, as each provider's reference has them.

mod anthropic;
mod gemini;
mod json;
mod openai_chat;
mod openai_responses;

use std::borrow::Cow;

use bytes::Bytes;

pub(crate) use json::quote;

use crate::answer::Answer;
use crate::dialect::{Dialect, Mode};
use crate::sse::{Frame, LineEnd, Style};

/// The bytes of a reply's body, and where its events end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// The media type.
    pub(crate) content_type: Cow<'static, str>,
    /// The bytes.
    pub(crate) bytes: Bytes,
    /// Where each event ends, ascending. A document is one event.
    pub(crate) ends: Vec<usize>,
}

impl Body {
    /// A document.
    pub(crate) fn document(
        content_type: impl Into<Cow<'static, str>>,
        bytes: impl Into<Bytes>,
    ) -> Body {
        let bytes = bytes.into();
        Body {
            content_type: content_type.into(),
            ends: vec![bytes.len()],
            bytes,
        }
    }

    /// A document of JSON.
    pub(crate) fn json(bytes: impl Into<Bytes>) -> Body {
        Body::document("application/json", bytes)
    }

    /// A stream.
    pub(crate) fn stream(dialect: Dialect, frames: &[Frame], style: &Style) -> Body {
        let (bytes, ends) = style.write(frames, line_end(dialect));
        Body {
            content_type: "text/event-stream; charset=utf-8".into(),
            bytes: bytes.into(),
            ends,
        }
    }
}

/// The answer as a stream of events.
pub fn render_stream(dialect: Dialect, answer: &Answer) -> Vec<u8> {
    render_stream_as(dialect, answer, &Style::PLAIN)
}

/// The answer as a stream of events, written in that style.
pub fn render_stream_as(dialect: Dialect, answer: &Answer, style: &Style) -> Vec<u8> {
    let frames = frames(dialect, answer, true);
    style.write(&frames, line_end(dialect)).0
}

/// The answer's events, each with the empty line that ends it. The last one is the terminal
/// marker; without it the stream is incomplete.
pub fn render_events(dialect: Dialect, answer: &Answer) -> Vec<Vec<u8>> {
    let usual = line_end(dialect);
    let frames = frames(dialect, answer, true);
    let each = frames.iter();
    each.map(|frame| Style::PLAIN.write(std::slice::from_ref(frame), usual).0)
        .collect()
}

/// The answer as one document.
pub fn render_whole(dialect: Dialect, answer: &Answer) -> Vec<u8> {
    let document = match dialect {
        Dialect::OpenAiChat => openai_chat::whole(answer),
        Dialect::OpenAiResponses => openai_responses::whole(answer),
        Dialect::Anthropic => anthropic::whole(answer),
        Dialect::Gemini => gemini::whole(answer),
    };
    document.into_bytes()
}

/// The answer to a request for the number of its tokens.
pub fn render_count(dialect: Dialect, tokens: u64) -> Vec<u8> {
    let document = match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => {
            format!(r#"{{"object":"response.input_tokens","input_tokens":{tokens}}}"#)
        }
        Dialect::Anthropic => format!(r#"{{"input_tokens":{tokens}}}"#),
        Dialect::Gemini => gemini::count(tokens),
    };
    document.into_bytes()
}

/// The answer in the form that is asked for. `stream_usage`: as [`crate::Endpoint`] has it.
pub(crate) fn body(
    dialect: Dialect,
    mode: Mode,
    stream_usage: bool,
    answer: &Answer,
    style: &Style,
) -> Body {
    match mode {
        Mode::Stream => Body::stream(dialect, &frames(dialect, answer, stream_usage), style),
        Mode::Whole => Body::json(render_whole(dialect, answer)),
        Mode::Array => {
            let frames = frames(dialect, answer, stream_usage);
            let chunks: Vec<&str> = frames.iter().map(|frame| frame.data.as_str()).collect();
            Body::json(format!("[{}]", chunks.join(",\r\n")))
        }
        Mode::Count => Body::json(render_count(dialect, answer.usage.input)),
    }
}

/// The answer's events. The last one is the terminal marker.
pub(crate) fn frames(dialect: Dialect, answer: &Answer, stream_usage: bool) -> Vec<Frame> {
    match dialect {
        Dialect::OpenAiChat => openai_chat::frames(answer, stream_usage),
        Dialect::OpenAiResponses => openai_responses::frames(answer),
        Dialect::Anthropic => anthropic::frames(answer),
        Dialect::Gemini => gemini::frames(answer),
    }
}

/// How a provider ends its lines.
fn line_end(dialect: Dialect) -> LineEnd {
    match dialect {
        Dialect::Gemini => LineEnd::CrLf,
        _ => LineEnd::Lf,
    }
}
