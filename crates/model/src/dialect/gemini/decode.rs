//! Reads a reply of `generateContent`, streamed or whole.
//!
//! Each event of a stream is a whole `GenerateContentResponse` with the next parts of the answer.
//! There is no closing event. The answer is complete after a finish reason of a candidate (or a
//! blocked prompt) and the usage, which may come later; so the stream is read to its end.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;
use unisono_context::Tokens;
use unisono_context::call::{Reply, Stop, ToolCall, Usage};

use super::refusal::{self, Problem};
use crate::dialect::borrowed::Str;
use crate::dialect::counts::tokens_or_zero;
use crate::dialect::{Decoded, DecodedEvent, Failure, refusal as shared};
use crate::language::Class;
use crate::sse;

/// Reads one streamed reply.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    text: String,
    /// The parts in their order, for sending them back unchanged.
    parts: Vec<Kept>,
    /// Whether they have data that only the provider can read.
    reasoning: bool,
    calls: Vec<ToolCall>,
    usage: Option<Counts>,
    /// The finish reason and its message.
    finish: Option<(Stop, Option<String>)>,
    response_id: Option<String>,
}

#[derive(Debug)]
enum Kept {
    /// Plain text, by its range in the text of the reply.
    Text(Range<usize>),
    /// Any other part, unchanged.
    Raw(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    prompt_feedback: Option<Feedback<'a>>,
    usage_metadata: Option<Counts>,
    #[serde(borrow)]
    response_id: Option<Str<'a>>,
    #[serde(borrow)]
    error: Option<Problem<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Str<'a>>,
    #[serde(borrow)]
    finish_message: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
    thought: Option<bool>,
    thought_signature: Option<serde::de::IgnoredAny>,
    #[serde(borrow)]
    function_call: Option<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    name: Option<Str<'a>>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow)]
    block_reason: Option<Str<'a>>,
    #[serde(borrow)]
    block_reason_message: Option<Str<'a>>,
}

/// The API's counts of tokens. Zeros may be missing, and numbers only grow within a stream.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Counts {
    /// Including those read from a cache.
    #[serde(deserialize_with = "tokens_or_zero")]
    prompt_token_count: u64,
    #[serde(deserialize_with = "tokens_or_zero")]
    cached_content_token_count: u64,
    #[serde(deserialize_with = "tokens_or_zero")]
    candidates_token_count: u64,
    #[serde(deserialize_with = "tokens_or_zero")]
    thoughts_token_count: u64,
    #[serde(deserialize_with = "tokens_or_zero")]
    tool_use_prompt_token_count: u64,
}

impl Decoder {
    pub(in crate::dialect) fn event<'d>(&'d mut self, event: &sse::Event<'_>) -> Decoded<'d> {
        self.chunk(event.data)
    }

    pub(in crate::dialect) fn usage_so_far(&self) -> Usage {
        self.usage.map(Usage::from).unwrap_or_default()
    }

    pub(in crate::dialect) fn finish(self) -> Result<Reply, Failure> {
        let Some((stop, said)) = self.finish else {
            return Err(Failure::new(
                Class::IncompleteStream,
                "the stream ended before a finish reason",
            ));
        };
        let Some(usage) = self.usage else {
            return Err(Failure::new(
                Class::IncompleteStream,
                "the stream ended before its `usageMetadata`",
            ));
        };
        let verbatim = self.reasoning.then(|| verbatim(&self.parts, &self.text));
        let mut text = self.text;
        if text.trim().is_empty() {
            text = said.unwrap_or(text);
        }
        Ok(Reply {
            text: text.into(),
            calls: self.calls,
            verbatim: verbatim.map(Into::into),
            usage: usage.into(),
            stop,
            fallback: None,
            request_id: self.response_id.map(Into::into),
            calls_left_out: 0,
        })
    }

    fn chunk(&mut self, data: &str) -> Decoded<'_> {
        let unreadable = |error| {
            refusal::listed(data).unwrap_or_else(|| shared::unreadable(data.as_bytes(), &error))
        };
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(unreadable)?;
        if let Some(error) = chunk.error {
            return Err(refusal::in_stream(&error));
        }
        if let Some(id) = chunk.response_id.filter(|_| self.response_id.is_none()) {
            self.response_id = Some(id.0.into_owned());
        }
        if let Some(counts) = chunk.usage_metadata {
            self.usage.get_or_insert_default().grow(counts);
        }
        if let Some(feedback) = chunk.prompt_feedback {
            self.feedback(feedback);
        }
        let from = self.text.len();
        // The request is for one candidate.
        if let Some(candidate) = chunk.candidates.into_iter().flatten().next() {
            let parts = candidate.content.and_then(|content| content.parts);
            self.parts(data, parts.unwrap_or_default())?;
            if let Some(reason) = candidate.finish_reason {
                self.finished(&reason.0, candidate.finish_message)?;
            }
        }
        Ok(match &self.text[from..] {
            "" => DecodedEvent::Other,
            text => DecodedEvent::Text(text),
        })
    }

    /// A blocked prompt, if there is a reason for blocking it.
    fn feedback(&mut self, feedback: Feedback<'_>) {
        let Some(reason) = feedback.block_reason else {
            return;
        };
        let reason = shared::reason(&reason.0);
        let what = "the provider blocked the prompt";
        let said = explained(what, &reason, feedback.block_reason_message);
        self.finish = Some((Stop::Refused, Some(said)));
        // Such an answer may have no counts.
        self.usage.get_or_insert_default();
    }

    /// Takes the parts of a chunk, which is `data`.
    fn parts(&mut self, data: &str, parts: Vec<Part<'_>>) -> Result<(), Failure> {
        let plain = parts.iter().all(Part::is_plain);
        for part in parts {
            self.reasoning |= part.thought == Some(true) || part.thought_signature.is_some();
            if let Some(text) = part.text.filter(|_| part.thought != Some(true)) {
                let from = self.text.len();
                self.text.push_str(&text.0);
                if plain {
                    self.keep(from);
                }
            }
            if let Some(call) = part.function_call {
                self.call(call)?;
            }
        }
        if !plain {
            let raw = raw_parts(data).map(|part| Kept::Raw(part.get().to_owned()));
            self.parts.extend(raw);
        }
        Ok(())
    }

    /// Keeps the text from there on as a part. Neighbouring texts are one part.
    fn keep(&mut self, from: usize) {
        let to = self.text.len();
        match self.parts.last_mut() {
            Some(Kept::Text(range)) if range.end == from => range.end = to,
            _ if from == to => {}
            _ => self.parts.push(Kept::Text(from..to)),
        }
    }

    /// Each part is a call, also one that equals another and has no id: the API needs a response
    /// for each call ("the number of function response parts is equal to the number of function
    /// call parts", otherwise status 400), and its stream repeats nothing.
    fn call(&mut self, call: Call<'_>) -> Result<(), Failure> {
        let field = "candidates[0].content.parts[].functionCall.name";
        let name = call.name.ok_or_else(|| Failure::missing(field))?;
        let id = match call.id.filter(|id| !id.0.is_empty()) {
            Some(id) => id.0.into_owned(),
            None => format!("g{}", self.calls.len()),
        };
        self.calls.push(ToolCall::new(
            id,
            name.0,
            call.args.map_or("{}", RawValue::get),
        ));
        Ok(())
    }

    fn finished(&mut self, reason: &str, message: Option<Str<'_>>) -> Result<(), Failure> {
        let stop = match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => return Ok(()),
            "STOP" => Stop::Complete,
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => Stop::Refused,
            "MALFORMED_FUNCTION_CALL"
            | "MALFORMED_RESPONSE"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS" => {
                // The model's text is lost; another attempt writes a new one.
                let class = Class::UNAVAILABLE;
                let what = "the model's reply was not usable";
                return Err(Failure::new(class, explained(what, reason, message)));
            }
            // `MAX_TOKENS`, `OTHER` and unknown reasons: the model may not have finished.
            _ => Stop::CutOff,
        };
        let said = (stop == Stop::Refused).then(|| {
            let reason = shared::reason(reason);
            explained("the provider stopped the reply", &reason, message)
        });
        self.finish = Some((stop, said));
        Ok(())
    }
}

impl Part<'_> {
    /// Whether it has only text, so that the text suffices for sending it back.
    fn is_plain(&self) -> bool {
        self.text.is_some()
            && self.thought != Some(true)
            && self.thought_signature.is_none()
            && self.function_call.is_none()
    }
}

/// `what: reason: message`
fn explained(what: &str, reason: &str, message: Option<Str<'_>>) -> String {
    let message = message.map(|message| shared::reason(&message.0));
    match message.filter(|message| !message.is_empty()) {
        Some(message) => format!("{what}: {reason}: {message}"),
        None => format!("{what}: {reason}"),
    }
}

/// The parts of a parsed chunk, unchanged.
fn raw_parts(data: &str) -> impl Iterator<Item = &RawValue> {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(borrow)]
        candidates: Vec<Candidate<'a>>,
    }
    #[derive(Deserialize)]
    struct Candidate<'a> {
        #[serde(borrow)]
        content: Content<'a>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        parts: Vec<&'a RawValue>,
    }
    let chunk = serde_json::from_str::<Chunk<'_>>(data).ok();
    let candidate = chunk.and_then(|chunk| chunk.candidates.into_iter().next());
    candidate.into_iter().flat_map(|first| first.content.parts)
}

fn verbatim(parts: &[Kept], text: &str) -> String {
    let written = parts.iter().map(|part| match part {
        Kept::Text(range) => {
            let mut json = crate::prompt::json::Json::with_capacity(range.len() + 32);
            json.raw(r#"{"text":"#)
                .string(&text[range.clone()])
                .raw("}");
            String::from_utf8_lossy(&json.into_bytes()).into_owned()
        }
        Kept::Raw(part) => part.clone(),
    });
    format!("[{}]", written.collect::<Vec<_>>().join(","))
}

impl Counts {
    fn grow(&mut self, newer: Counts) {
        for (known, newer) in [
            (&mut self.prompt_token_count, newer.prompt_token_count),
            (
                &mut self.cached_content_token_count,
                newer.cached_content_token_count,
            ),
            (
                &mut self.candidates_token_count,
                newer.candidates_token_count,
            ),
            (&mut self.thoughts_token_count, newer.thoughts_token_count),
            (
                &mut self.tool_use_prompt_token_count,
                newer.tool_use_prompt_token_count,
            ),
        ] {
            *known = newer.max(*known);
        }
    }
}

impl From<Counts> for Usage {
    /// The caller adds cost and expected cache reads.
    fn from(counts: Counts) -> Usage {
        let sum = |a: u64, b: u64| Tokens(a) + Tokens(b);
        Usage {
            input: sum(
                counts.prompt_token_count,
                counts.tool_use_prompt_token_count,
            ),
            output: sum(counts.candidates_token_count, counts.thoughts_token_count),
            cache_expected: Tokens::ZERO,
            cache_read: Tokens(counts.cached_content_token_count),
            cache_write: Tokens::ZERO,
            cost: None,
        }
    }
}

pub(in crate::dialect) fn parse_document(body: &[u8]) -> Result<Reply, Failure> {
    let text = utf8(body)?;
    let mut decoder = Decoder::default();
    decoder.chunk(text)?;
    if decoder.finish.is_none() {
        return Err(Failure::missing("candidates[0].finishReason"));
    }
    if decoder.usage.is_none() {
        return Err(Failure::missing("usageMetadata"));
    }
    decoder.finish()
}

/// Reads the answer of `countTokens`.
pub(in crate::dialect) fn parse_token_count(body: &[u8]) -> Result<Tokens, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Counted<'a> {
        total_tokens: Option<u64>,
        #[serde(borrow)]
        error: Option<Problem<'a>>,
    }
    let read: Counted<'_> =
        serde_json::from_str(utf8(body)?).map_err(|error| shared::unreadable(body, &error))?;
    if let Some(error) = read.error {
        return Err(refusal::in_stream(&error));
    }
    let tokens = read.total_tokens;
    tokens
        .map(Tokens)
        .ok_or_else(|| Failure::missing("totalTokens"))
}

fn utf8(body: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        Failure::new(
            Class::BadReply,
            format!("the reply is not UTF-8 from byte {at} on"),
        )
    })
}
