//! Providers' wire formats: rendering requests, and parsing responses.
//!
//! A request body is two pieces, sent one after the other:
//!
//! ```text
//! head  model, output schema, tools, system text, summaries, messages   shared by a whole group
//! tail  persona, task, results, the agent's own exchange, sampling      one request's own
//! ```
//!
//! All functions here are pure: values and bytes in, values and bytes out. Nothing that differs
//! between two requests of a group comes before the tail: no times, and no ids except positions in
//! the conversation.

mod anthropic;
mod borrowed;
mod calls;
mod contents;
mod counts;
mod exchange;
#[cfg(test)]
mod fixture;
mod gemini;
pub(crate) mod label;
mod likeness;
mod openai_chat;
mod openai_responses;
mod refusal;
mod schemas;
mod tail;
#[cfg(test)]
mod tests;
mod thinking;
#[allow(dead_code)]
mod turns;

pub use label::{shown_name, without_labels};
pub(crate) use refusal::foreign;
use unisono_context::Tokens;
use unisono_context::attachment::Rule;
use unisono_context::call::{Reply, Usage};
use unisono_context::snapshot::ToolSpec;

use crate::language::{Class, Request};
use crate::media::Accepts;
use crate::prompt::Shared;
use crate::sse;

/// A provider's wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// OpenAI's Chat Completions, and all that speak it.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

/// The inputs of a head.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The model's name at its provider.
    pub model: &'a str,
    /// The values that the runs of a group share.
    pub shared: Shared<'a>,
    /// Whether the model takes explicit cache breakpoints in a dialect where that is optional.
    pub breakpoints: bool,
    /// Whether the model takes an output schema. Anthropic's older ones do not: they are given a
    /// tool to answer with. Others get the schema in words.
    pub structured: bool,
    /// The attachments that the model takes; the others are notes.
    pub accepts: Accepts,
}

/// The inputs of a tail besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'a> {
    /// The kind of response.
    pub mode: Mode,
    /// The model's name at its provider.
    pub model: &'a str,
    /// Routes requests with the same prefix to the same cache, where a dialect has such a key.
    pub cache_key: Option<&'a str>,
    /// Whether the model is one that reasons before it answers.
    pub reasoning: bool,
    /// As in [`Head::structured`].
    pub structured: bool,
    /// As in [`Head::accepts`].
    pub accepts: Accepts,
}

/// The kind of response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A reply as a stream of events.
    Stream,
    /// A reply as one document.
    Whole,
    /// The number of the request's tokens.
    Count,
}

/// Why a response is not a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The class.
    pub class: Class,
    /// What happened, for a person.
    pub reason: String,
}

impl Failure {
    /// A failure of that class.
    pub fn new(class: Class, reason: impl Into<String>) -> Failure {
        Failure {
            class,
            reason: reason.into(),
        }
    }

    /// A field that is missing, named by its path: `choices[0].delta`.
    pub fn missing(field: &str) -> Failure {
        Failure::new(Class::BadReply, format!("the reply has no `{field}`"))
    }
}

pub(crate) type Decoded<'d> = Result<DecodedEvent<'d>, Failure>;

/// The content of a stream event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedEvent<'a> {
    /// A piece of the answer's text.
    Text(&'a str),
    /// Something else: a tool call, reasoning, usage.
    Other,
    /// A report of the provider's state without a part of the reply: a ping, `response.created`.
    Status,
    /// The terminal marker. What follows is not read.
    End,
}

unisono_context::names!(Dialect {
    OpenAiChat = "openai-chat",
    OpenAiResponses = "openai-responses",
    Anthropic = "anthropic",
    Gemini = "gemini",
});

impl Dialect {
    /// The rule by which its provider counts attachments.
    pub const fn attachment_rule(self) -> Rule {
        match self {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => Rule::OpenAi,
            Dialect::Anthropic => Rule::Anthropic,
            Dialect::Gemini => Rule::Gemini,
        }
    }

    /// The shared start of a body: JSON whose outermost object is left open.
    pub fn head(self, head: &Head<'_>) -> Vec<u8> {
        match self {
            Dialect::OpenAiChat => openai_chat::head(head),
            Dialect::OpenAiResponses => openai_responses::head(head),
            Dialect::Anthropic => anthropic::head(head),
            Dialect::Gemini => gemini::head(head),
        }
    }

    /// The rest of the body.
    pub fn tail(self, request: &Request, sending: &Sending<'_>) -> Vec<u8> {
        match self {
            Dialect::OpenAiChat => openai_chat::tail(request, sending),
            Dialect::OpenAiResponses => openai_responses::tail(request, sending),
            Dialect::Anthropic => anthropic::tail(request, sending),
            Dialect::Gemini => gemini::tail(request, sending),
        }
    }

    /// The path below the provider's base address, with a leading slash; none where the dialect
    /// cannot be asked for that.
    pub fn path(self, model: &str, mode: Mode) -> Option<String> {
        match self {
            Dialect::OpenAiChat => openai_chat::path(mode),
            Dialect::OpenAiResponses => openai_responses::path(mode),
            Dialect::Anthropic => anthropic::path(mode),
            Dialect::Gemini => Some(gemini::path(model, mode)),
        }
    }

    /// Takes the answer from the answer tool of a model without output schemas; drops its other
    /// calls. Returns whether that tool was called.
    pub fn answered(self, reply: &mut Reply) -> bool {
        let mut calls = reply.calls.iter().filter(|_| self == Dialect::Anthropic);
        let Some(call) = calls.find(|call| &*call.name == anthropic::ANSWER) else {
            return false;
        };
        reply.text = call.arguments.clone();
        reply.calls.clear();
        reply.verbatim = None;
        true
    }

    /// Gives the calls of a reply the names of these tools, if the dialect does not accept them.
    pub fn restore_names(self, reply: &mut Reply, tools: &[ToolSpec]) {
        if self == Dialect::Gemini {
            gemini::restore_names(reply, tools);
        }
    }

    /// Bytes around the body of a count request, where it is not the body itself.
    pub const fn count_wrapper(self) -> (&'static str, &'static str) {
        match self {
            Dialect::Gemini => (r#"{"generateContentRequest":"#, "}"),
            _ => ("", ""),
        }
    }

    /// A reader of one streamed reply.
    pub fn decoder(self) -> Decoder {
        Decoder(match self {
            Dialect::OpenAiChat => ByDialect::OpenAiChat(openai_chat::Decoder::default()),
            Dialect::OpenAiResponses => {
                ByDialect::OpenAiResponses(openai_responses::Decoder::default())
            }
            Dialect::Anthropic => ByDialect::Anthropic(anthropic::Decoder::default()),
            Dialect::Gemini => ByDialect::Gemini(gemini::Decoder::default()),
        })
    }

    /// As [`Dialect::decoder`], of a model whose prompt ends with the tag that opens reasoning. Only
    /// Chat Completions have it in their text.
    pub fn opened_decoder(self) -> Decoder {
        match self {
            Dialect::OpenAiChat => Decoder(ByDialect::OpenAiChat(openai_chat::Decoder::opened())),
            _ => self.decoder(),
        }
    }

    /// As [`Dialect::parse_document`], of a model whose prompt ends with the tag that opens reasoning.
    pub fn parse_opened_document(self, body: &[u8]) -> Result<Reply, Failure> {
        match self {
            Dialect::OpenAiChat => openai_chat::parse_document(body, true),
            _ => self.parse_document(body),
        }
    }

    /// Reads a reply that came as one document.
    ///
    /// # Errors
    /// It is an error of the provider, or not a reply; the failure names what is missing.
    pub fn parse_document(self, body: &[u8]) -> Result<Reply, Failure> {
        match self {
            Dialect::OpenAiChat => openai_chat::parse_document(body, false),
            Dialect::OpenAiResponses => openai_responses::parse_document(body),
            Dialect::Anthropic => anthropic::parse_document(body),
            Dialect::Gemini => gemini::parse_document(body),
        }
    }

    /// Reads the answer to a count request: the tokens of the input.
    pub fn parse_token_count(self, body: &[u8]) -> Result<Tokens, Failure> {
        match self {
            Dialect::OpenAiChat => Err(Failure::missing("input_tokens")),
            Dialect::OpenAiResponses => openai_responses::parse_token_count(body),
            Dialect::Anthropic => anthropic::parse_token_count(body),
            Dialect::Gemini => gemini::parse_token_count(body),
        }
    }

    /// The failure of a response with an error status. `body` may be anything, such as HTML of a
    /// proxy, and may be truncated.
    pub fn refusal(self, status: u16, body: &[u8]) -> Failure {
        match self {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => openai_chat::refusal(status, body),
            Dialect::Anthropic => anthropic::refusal(status, body),
            Dialect::Gemini => gemini::refusal(status, body),
        }
    }
}

/// Reads one streamed reply, event by event.
#[derive(Debug)]
pub struct Decoder(ByDialect);

#[derive(Debug)]
enum ByDialect {
    OpenAiChat(openai_chat::Decoder),
    OpenAiResponses(openai_responses::Decoder),
    Anthropic(anthropic::Decoder),
    Gemini(gemini::Decoder),
}

impl Decoder {
    /// Takes the next event.
    ///
    /// # Errors
    /// The event is an error of the provider, or not of this dialect.
    pub fn event<'d>(&'d mut self, event: &sse::Event<'_>) -> Result<DecodedEvent<'d>, Failure> {
        match &mut self.0 {
            ByDialect::OpenAiChat(decoder) => decoder.event(event),
            ByDialect::OpenAiResponses(decoder) => decoder.event(event),
            ByDialect::Anthropic(decoder) => decoder.event(event),
            ByDialect::Gemini(decoder) => decoder.event(event),
        }
    }

    /// The usage that the provider has reported so far; zero if it has reported none.
    pub fn usage_so_far(&self) -> Usage {
        match &self.0 {
            ByDialect::OpenAiChat(decoder) => decoder.usage_so_far(),
            ByDialect::OpenAiResponses(decoder) => decoder.usage_so_far(),
            ByDialect::Anthropic(decoder) => decoder.usage_so_far(),
            ByDialect::Gemini(decoder) => decoder.usage_so_far(),
        }
    }

    /// The reply, once the stream has ended.
    ///
    /// # Errors
    /// [`Class::IncompleteStream`] without the terminal marker; else what the reply lacks.
    pub fn finish(self) -> Result<Reply, Failure> {
        match self.0 {
            ByDialect::OpenAiChat(decoder) => decoder.finish(),
            ByDialect::OpenAiResponses(decoder) => decoder.finish(),
            ByDialect::Anthropic(decoder) => decoder.finish(),
            ByDialect::Gemini(decoder) => decoder.finish(),
        }
    }
}
