//! Gemini's `generateContent`.
//!
//! Source: the API reference, *GenerateContentResponse*, and the guide *Thought signatures*. A
//! stream has no marker of its own at its end: the chunk with `finishReason` is the last one.

use super::json::{list, quote, value};
use crate::answer::{Answer, Stop};
use crate::sse::Frame;

pub(super) fn frames(answer: &Answer) -> Vec<Frame> {
    let mut parts: Vec<String> = Vec::new();
    for piece in answer.reasoning_pieces() {
        parts.push(thought(&piece));
    }
    if answer.stop != Stop::Filtered {
        parts.extend(answer.text.iter().map(|piece| text(piece, "")));
    }
    parts.extend(calls(answer));
    let mut frames: Vec<Frame> = parts
        .iter()
        .map(|part| chunk(answer, &candidate(part, None), false))
        .collect();
    frames.push(match answer.stop {
        Stop::Filtered => chunk(answer, BLOCKED, true),
        _ => {
            let signature = text_signature(answer);
            let closing = candidate(&text("", &signature), Some(finish_reason(answer)));
            chunk(answer, &closing, true)
        }
    });
    frames
}

pub(super) fn whole(answer: &Answer) -> String {
    if answer.stop == Stop::Filtered {
        return document(answer, BLOCKED, true);
    }
    let mut parts = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        parts.push(thought(&reasoning.text));
    }
    if !answer.text.is_empty() {
        parts.push(text(&answer.joined(), &text_signature(answer)));
    }
    parts.extend(calls(answer));
    let candidate = candidate(&parts.join(","), Some(finish_reason(answer)));
    document(answer, &candidate, true)
}

pub(super) fn count(tokens: u64) -> String {
    format!(
        r#"{{"totalTokens":{tokens},"promptTokensDetails":{}}}"#,
        modality(tokens)
    )
}

/// In place of a candidate: the prompt is not answered.
const BLOCKED: &str = r#""promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}"#;

fn thought(piece: &str) -> String {
    format!(r#"{{"text":{},"thought":true}}"#, quote(piece))
}

fn text(piece: &str, signature: &str) -> String {
    format!(r#"{{"text":{}{signature}}}"#, quote(piece))
}

/// The first of parallel calls carries the signature, the others have none.
fn calls(answer: &Answer) -> impl Iterator<Item = String> {
    answer.calls.iter().enumerate().map(|(place, call)| {
        let id = call
            .id
            .as_deref()
            .map(|id| format!(r#""id":{},"#, quote(id)));
        let signed = if place == 0 {
            signature(answer)
        } else {
            String::new()
        };
        format!(
            r#"{{"functionCall":{{{}"name":{},"args":{}}}{signed}}}"#,
            id.unwrap_or_default(),
            quote(&call.name),
            value(&call.arguments),
        )
    })
}

/// The signature as a field of a part.
fn signature(answer: &Answer) -> String {
    match &answer.reasoning {
        Some(given) if !given.signature.is_empty() => {
            format!(r#","thoughtSignature":{}"#, quote(&given.signature))
        }
        _ => String::new(),
    }
}

/// The signature where it is on the text: in an answer without calls.
fn text_signature(answer: &Answer) -> String {
    match answer.calls.is_empty() {
        true => signature(answer),
        false => String::new(),
    }
}

fn candidate(parts: &str, finish_reason: Option<&str>) -> String {
    let finish_reason = finish_reason.map(|reason| format!(r#","finishReason":"{reason}""#));
    format!(
        r#""candidates":[{{"content":{{"parts":[{parts}],"role":"model"}}{},"index":0}}]"#,
        finish_reason.unwrap_or_default(),
    )
}

fn chunk(answer: &Answer, subject: &str, last: bool) -> Frame {
    Frame {
        event: None,
        data: document(answer, subject, last),
    }
}

fn document(answer: &Answer, subject: &str, last: bool) -> String {
    format!(
        r#"{{{subject},"usageMetadata":{},"modelVersion":{},"responseId":"fake"}}"#,
        usage(answer, last),
        quote(&answer.model),
    )
}

fn finish_reason(answer: &Answer) -> &'static str {
    match answer.stop {
        Stop::Complete => "STOP",
        Stop::CutOff => "MAX_TOKENS",
        Stop::Refused | Stop::Filtered => "SAFETY",
    }
}

/// Every chunk says what has been used so far; `candidatesTokenCount` is without the thoughts.
fn usage(answer: &Answer, last: bool) -> String {
    let used = &answer.usage;
    let output = if last { used.output } else { 0 };
    let thoughts = if last { used.reasoning } else { 0 };
    let mut fields = vec![format!(r#""promptTokenCount":{}"#, used.input)];
    if last {
        let visible = output.saturating_sub(thoughts);
        fields.push(format!(r#""candidatesTokenCount":{visible}"#));
    }
    fields.push(format!(r#""totalTokenCount":{}"#, used.input + output));
    if used.cache_read > 0 {
        fields.push(format!(r#""cachedContentTokenCount":{}"#, used.cache_read));
    }
    fields.push(format!(r#""promptTokensDetails":{}"#, modality(used.input)));
    if used.cache_read > 0 {
        fields.push(format!(
            r#""cacheTokensDetails":{}"#,
            modality(used.cache_read)
        ));
    }
    if thoughts > 0 {
        fields.push(format!(r#""thoughtsTokenCount":{thoughts}"#));
    }
    format!("{{{}}}", fields.join(","))
}

fn modality(tokens: u64) -> String {
    list([format!(r#"{{"modality":"TEXT","tokenCount":{tokens}}}"#)])
}
