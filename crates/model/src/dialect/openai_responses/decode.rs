//! Reads a response, streamed or whole.
//!
//! ```text
//! event: response.output_text.delta     text, while it comes in
//! event: response.output_item.done      a whole item: message, function call, reasoning
//! event: response.completed             the terminal marker, with usage
//!        response.incomplete            the same; it was cut off, or filtered
//!        response.failed, error         the provider failed
//! ```
//!
//! The reply consists of the whole items. Deltas are passed on; the reply does not need them.

use serde::Deserialize;
use serde_json::value::RawValue;
use unisono_context::Tokens;
use unisono_context::call::{self, Reply, Stop};

use super::items::{self, GAP, Usage};
use crate::dialect::borrowed::Str;
use crate::dialect::openai_chat::refusal::{failed, reported};
use crate::dialect::refusal::unreadable;
use crate::dialect::{Decoded, DecodedEvent, Failure};
use crate::language::Class;
use crate::sse;

/// Reads one streamed reply.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The text that was passed on, and the item of its last piece.
    text: String,
    speaking: Option<u64>,
    /// Whole items with their places.
    items: Vec<(u64, String)>,
    /// The usage of the last event, which a failed response may have as well.
    usage: Usage,
    ended: Option<Ended>,
}

#[derive(Debug)]
struct Ended {
    stop: Stop,
    /// The items that the last event repeats.
    output: Vec<String>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    delta: Option<Str<'a>>,
    output_index: Option<u64>,
}

#[derive(Deserialize)]
struct Done<'a> {
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    output_index: Option<u64>,
}

#[derive(Deserialize)]
struct Terminal<'a> {
    #[serde(borrow)]
    response: Option<Response<'a>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    status: Option<Str<'a>>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    usage: Option<Usage>,
    #[serde(borrow)]
    incomplete_details: Option<Incomplete<'a>>,
    #[serde(borrow)]
    error: Option<Problem<'a>>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Option<Str<'a>>,
}

#[derive(Default, Deserialize)]
struct Problem<'a> {
    #[serde(borrow)]
    code: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<Str<'a>>,
}

impl Decoder {
    pub(in crate::dialect) fn event<'d>(&'d mut self, event: &sse::Event<'_>) -> Decoded<'d> {
        let data = event.data.trim();
        if self.ended.is_some() || data.is_empty() || data == "[DONE]" {
            return Ok(DecodedEvent::Other);
        }
        // The name of the event is its type, so the JSON is not parsed for it.
        if event.name != "message" {
            return self.named(event.name, data);
        }
        match read::<Named<'_>>(data)?.kind {
            Some(kind) => self.named(&kind.0, data),
            None => match reported(data.as_bytes()) {
                Some(failure) => Err(failure),
                None => Err(Failure::missing("type")),
            },
        }
    }

    fn named<'d>(&'d mut self, name: &str, data: &str) -> Decoded<'d> {
        match name {
            "response.output_text.delta" | "response.refusal.delta" => self.delta(read(data)?),
            "response.output_item.done" => {
                let Done { item, output_index } = read(data)?;
                let item = item.ok_or_else(|| Failure::missing("item"))?;
                let at = output_index.unwrap_or(self.items.len() as u64);
                let item = (at, item.get().to_owned());
                // A repeated event is not a second call.
                if !self.items.contains(&item) {
                    self.items.push(item);
                }
                Ok(DecodedEvent::Other)
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = read::<Terminal<'_>>(data)?.response;
                let response = response.ok_or_else(|| Failure::missing("response"))?;
                self.usage = response.usage.unwrap_or_default();
                self.ended = Some(response.ended()?);
                Ok(DecodedEvent::End)
            }
            "response.created" | "response.queued" | "response.in_progress" => {
                Ok(DecodedEvent::Status)
            }
            "error" => Err(reported(data.as_bytes()).unwrap_or_else(|| failed("", ""))),
            _ => Ok(DecodedEvent::Other),
        }
    }

    fn delta(&mut self, delta: Delta<'_>) -> Decoded<'_> {
        let Str(piece) = delta.delta.ok_or_else(|| Failure::missing("delta"))?;
        if piece.is_empty() {
            return Ok(DecodedEvent::Other);
        }
        let from = self.text.len();
        if from > 0 && self.speaking != delta.output_index {
            self.text.push_str(GAP);
        }
        self.speaking = delta.output_index;
        self.text.push_str(&piece);
        Ok(DecodedEvent::Text(&self.text[from..]))
    }

    pub(in crate::dialect) fn usage_so_far(&self) -> call::Usage {
        self.usage.read()
    }

    pub(in crate::dialect) fn finish(mut self) -> Result<Reply, Failure> {
        let Some(ended) = self.ended else {
            return Err(Failure::new(
                Class::IncompleteStream,
                "the stream ended without `response.completed`",
            ));
        };
        self.items.sort_by_key(|(at, _)| *at);
        let streamed = self.items.iter().map(|(_, item)| &**item);
        let mut items: Vec<&str> = streamed.collect();
        if items.is_empty() {
            items = ended.output.iter().map(|item| &**item).collect();
        }
        let mut reply = items::reply(&items, self.usage, ended.stop)?;
        // Some servers send only text, and no items.
        if items.is_empty() && !self.text.is_empty() {
            reply.text = self.text.into();
        }
        Ok(reply)
    }
}

impl Response<'_> {
    /// How it ended.
    ///
    /// # Errors
    /// It failed, or does not say how it ended.
    fn ended(self) -> Result<Ended, Failure> {
        let text = |text: Option<Str<'_>>| text.unwrap_or_default().0.into_owned();
        let status = self.status.map(|Str(status)| status);
        if let Some(problem) = self.error {
            return Err(failed(&text(problem.code), &text(problem.message)));
        }
        let why = self.incomplete_details.and_then(|details| details.reason);
        let status = status.ok_or_else(|| Failure::missing("status"))?;
        let stop = match (&*status, &*text(why)) {
            ("failed", _) => return Err(failed("", "the response failed")),
            ("cancelled", _) => return Err(failed("", "the response was cancelled")),
            ("incomplete", "content_filter") => Stop::Refused,
            ("incomplete", _) => Stop::CutOff,
            ("completed", _) => Stop::Complete,
            (other, _) => {
                let other = crate::dialect::refusal::reason(other);
                let reason = format!("the reply has the `status` {other}, which is no end");
                return Err(Failure::new(Class::BadReply, reason));
            }
        };
        let output = self.output.unwrap_or_default();
        Ok(Ended {
            stop,
            output: output.iter().map(|item| item.get().to_owned()).collect(),
        })
    }
}

pub(in crate::dialect) fn parse_document(body: &[u8]) -> Result<Reply, Failure> {
    let response: Response<'_> =
        serde_json::from_slice(body).map_err(|e| reported(body).unwrap_or(unreadable(body, &e)))?;
    if response.output.is_none() && response.error.is_none() {
        let failure = response.status.is_none().then(|| reported(body)).flatten();
        return Err(failure.unwrap_or_else(|| Failure::missing("output")));
    }
    let usage = response.usage.unwrap_or_default();
    let Ended { stop, output } = response.ended()?;
    let items: Vec<&str> = output.iter().map(|item| &**item).collect();
    items::reply(&items, usage, stop)
}

/// The answer of the count endpoint.
pub(in crate::dialect) fn parse_token_count(body: &[u8]) -> Result<Tokens, Failure> {
    #[derive(Deserialize)]
    struct Counted {
        input_tokens: Option<u64>,
    }
    let counted: Counted = serde_json::from_slice(body).map_err(|e| unreadable(body, &e))?;
    let missing = || reported(body).unwrap_or_else(|| Failure::missing("input_tokens"));
    counted.input_tokens.map(Tokens).ok_or_else(missing)
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Failure> {
    serde_json::from_str(data).map_err(|e| unreadable(data.as_bytes(), &e))
}
