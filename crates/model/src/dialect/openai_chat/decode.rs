//! Reads a reply of Chat Completions, streamed or whole.
//!
//! ```text
//! data: {"choices":[{"index":0,"delta":{"content":"…"},"finish_reason":null}]}
//! …
//! data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
//! data: {"choices":[],"usage":{…}}
//! data: [DONE]
//! ```
//!
//! The terminal marker is `[DONE]`. A stream without it is incomplete, also after a
//! `finish_reason`, because the usage follows that. OpenAI, Azure, Ollama, vLLM, llama.cpp and TGI
//! send it.
//!
//! A reply without a finish reason may be truncated, and is an error. Usage may be missing: some
//! servers leave it out of streams, or do not know `stream_options`. Such a reply is shown with
//! zero usage and charged with its whole reservation.

use serde::Deserialize;
use serde_json::value::RawValue;
use unisono_context::call::{self, Reply};

use super::refusal;
use super::reply::{Delta, Draft, Usage};
use crate::dialect::borrowed::Str;
use crate::dialect::likeness::Likeness;
use crate::dialect::refusal::unreadable;
use crate::dialect::{Decoded, DecodedEvent, Failure};
use crate::language::Class;
use crate::sse;

/// Reads one streamed reply.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    draft: Draft,
    alike: Likeness,
    /// Whether there was a choice at all.
    begun: bool,
    ended: bool,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Usage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Str<'a>>,
    /// Kimi's place for it.
    usage: Option<Usage>,
    /// OpenRouter's place for an error of the model's provider.
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Decoder {
    pub(in crate::dialect) fn opened() -> Decoder {
        Decoder {
            draft: Draft::opened(),
            ..Decoder::default()
        }
    }

    pub(in crate::dialect) fn event<'d>(&'d mut self, event: &sse::Event<'_>) -> Decoded<'d> {
        let data = event.data.trim();
        if self.ended || data.is_empty() {
            return Ok(DecodedEvent::Other);
        }
        let from = self.draft.text.len();
        let event = sse::Event { data, ..*event };
        if let Some(text) = self.alike.text(&event) {
            self.draft.say(text);
            return Ok(seen(&self.draft.text[from..]));
        }
        if data == "[DONE]" {
            self.ended = true;
            return Ok(DecodedEvent::End);
        }
        let chunk: Chunk<'_> =
            serde_json::from_str(data).map_err(|e| unreadable(data.as_bytes(), &e))?;
        // An error may come with the usage of the part before it.
        if let Some(usage) = chunk.usage {
            self.draft.used(usage);
        }
        let empty = chunk.choices.is_none() && chunk.usage.is_none();
        if (empty || chunk.error.is_some() || event.name == "error")
            && let Some(failure) = refusal::reported(data.as_bytes())
        {
            return Err(failure);
        }
        if let Some(text) = chunk.only_text() {
            self.alike.learn(&event, text);
        }
        let choices = chunk.choices.unwrap_or_default();
        if choices.is_empty() {
            return Ok(DecodedEvent::Status);
        }
        let choices = choices.into_iter();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.begun = true;
            if let Some(usage) = choice.usage {
                self.draft.used(usage);
            }
            choice.check()?;
            if let Some(delta) = choice.delta {
                self.draft.add(delta)?;
            }
            if let Some(reason) = choice.finish_reason {
                self.draft.finish(&reason.0)?;
            }
        }
        Ok(seen(&self.draft.text[from..]))
    }

    pub(in crate::dialect) fn usage_so_far(&self) -> call::Usage {
        self.draft.usage.read()
    }

    pub(in crate::dialect) fn finish(self) -> Result<Reply, Failure> {
        if !self.ended {
            return Err(Failure::new(
                Class::IncompleteStream,
                "the stream ended without `[DONE]`",
            ));
        }
        if !self.begun {
            return Err(Failure::missing("choices[0]"));
        }
        self.draft.into_reply()
    }
}

impl<'a> Chunk<'a> {
    /// Its text, if it has nothing else.
    fn only_text(&self) -> Option<&'a str> {
        match self.choices.as_deref()? {
            [choice] if self.usage.is_none() && self.error.is_none() => choice.only_text(),
            _ => None,
        }
    }
}

impl<'a> Choice<'a> {
    /// Checks that it has no error.
    fn check(&self) -> Result<(), Failure> {
        let error = self.error.map(|error| error.get().as_bytes());
        error.and_then(refusal::reported).map_or(Ok(()), Err)
    }

    fn only_text(&self) -> Option<&'a str> {
        let ends = self.finish_reason.is_some() || self.usage.is_some();
        let goes_on = self.message.is_none() && !ends;
        let first = self.index.unwrap_or(0) == 0;
        self.delta
            .as_ref()
            .filter(|_| goes_on && first)?
            .only_text()
    }
}

fn seen(text: &str) -> DecodedEvent<'_> {
    match text {
        "" => DecodedEvent::Other,
        text => DecodedEvent::Text(text),
    }
}

pub(in crate::dialect) fn parse_document(body: &[u8], opened: bool) -> Result<Reply, Failure> {
    let chunk: Chunk<'_> = serde_json::from_slice(body).map_err(|e| unreadable(body, &e))?;
    if chunk.choices.is_none() || chunk.error.is_some() {
        let failure = refusal::reported(body);
        return Err(failure.unwrap_or_else(|| Failure::missing("choices")));
    }
    let mut draft = if opened {
        Draft::opened()
    } else {
        Draft::default()
    };
    let usage = chunk.usage;
    let choice = chunk.choices.into_iter().flatten().next();
    let choice = choice.ok_or_else(|| Failure::missing("choices[0]"))?;
    choice.check()?;
    draft.used(usage.or(choice.usage).unwrap_or_default());
    let message = choice.message;
    draft.add(message.ok_or_else(|| Failure::missing("choices[0].message"))?)?;
    draft.finish(&choice.finish_reason.unwrap_or_default().0)?;
    draft.into_reply()
}
