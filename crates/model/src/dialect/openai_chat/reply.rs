//! A reply under construction. A whole message is read as one piece of a streamed one.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;
use unisono_context::Tokens;
use unisono_context::call::{self, Reply, Stop, ToolCall};

use super::details::Details;
use crate::dialect::Failure;
use crate::dialect::borrowed::Str;
use crate::dialect::counts::tokens;
use crate::language::Class;
use crate::prompt::json::Json;
use crate::think::ThinkSplitter;

/// A message, or a piece of one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    refusal: Option<Str<'a>>,
    /// DeepSeek, vLLM, llama.cpp and others.
    #[serde(borrow)]
    reasoning_content: Option<Str<'a>>,
    /// Ollama, OpenRouter, newer vLLM.
    #[serde(borrow)]
    reasoning: Option<Str<'a>>,
    /// OpenRouter.
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
    /// The older form of `tool_calls`, for one call.
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
    /// Google's signature of the call.
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Str<'a>>,
    /// A string of JSON; some servers send the object itself.
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// A message's content: a string, or a list of parts. Only the texts of parts are read.
#[derive(Debug)]
struct Content<'a>(Cow<'a, str>);

/// The usage of a request. Some servers send only the first two fields.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "tokens")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's name for cached tokens.
    #[serde(default, deserialize_with = "tokens")]
    prompt_cache_hit_tokens: Option<u64>,
    /// Kimi's place for cached tokens.
    #[serde(default, deserialize_with = "tokens")]
    cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "tokens")]
    cached_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    cache_write_tokens: Option<u64>,
    /// LiteLLM's name for tokens written.
    #[serde(default, deserialize_with = "tokens")]
    cache_creation_tokens: Option<u64>,
}

impl<'a> Delta<'a> {
    /// Its text, if it has nothing else and the text has no escapes.
    pub(super) fn only_text(&self) -> Option<&'a str> {
        let silent = |text: &Option<Str<'_>>| text.as_ref().is_none_or(|text| text.0.is_empty());
        let nothing_else = silent(&self.refusal)
            && silent(&self.reasoning_content)
            && silent(&self.reasoning)
            && self.reasoning_details.is_none_or(|of| of.get() == "[]")
            && self.tool_calls.as_ref().is_none_or(Vec::is_empty)
            && self.function_call.is_none();
        match self.content {
            Some(Content(Cow::Borrowed(text))) if nothing_else => Some(text),
            _ => None,
        }
    }
}

impl Usage {
    pub(super) fn read(self) -> call::Usage {
        let input = self.prompt_tokens.unwrap_or_default();
        let output = self.completion_tokens.unwrap_or_default();
        // Some providers leave reasoning out of the completion, but not out of the total.
        let rest = self.total_tokens.unwrap_or_default().saturating_sub(input);
        let details = self.prompt_tokens_details.unwrap_or_default();
        let read = details.cached_tokens.or(self.prompt_cache_hit_tokens);
        let read = read.or(self.cached_tokens);
        let written = details.cache_write_tokens.or(details.cache_creation_tokens);
        call::Usage {
            input: Tokens(input),
            output: Tokens(output.max(rest)),
            cache_expected: Tokens::ZERO,
            cache_read: Tokens(read.unwrap_or_default()),
            cache_write: Tokens(written.unwrap_or_default()),
            cost: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ReasoningKey {
    Content,
    Plain,
}

impl ReasoningKey {
    const fn name(self) -> &'static str {
        match self {
            ReasoningKey::Content => "reasoning_content",
            ReasoningKey::Plain => "reasoning",
        }
    }
}

/// The part of a reply that was read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: String,
    /// Reads reasoning out of the content.
    apart: ThinkSplitter,
    reasoning: Option<(ReasoningKey, String)>,
    details: Details,
    calls: Vec<Call>,
    refused: bool,
    stop: Option<Stop>,
    pub(super) usage: Usage,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra_content: Option<Box<RawValue>>,
}

impl Call {
    /// Whether a piece begins another call, if neither has an id.
    fn is_followed_by(&self, name: &str, arguments: &str) -> bool {
        let is_json = |text: &str| serde_json::from_str::<de::IgnoredAny>(text).is_ok();
        let is_whole = || self.arguments.ends_with('}') && is_json(&self.arguments);
        let is_named = !name.is_empty() && !self.name.is_empty();
        is_named && (self.name != name || (!arguments.trim().is_empty() && is_whole()))
    }
}

impl Draft {
    /// A reply whose prompt ended with the tag that opens reasoning.
    pub(super) fn opened() -> Draft {
        Draft {
            apart: ThinkSplitter::opened(),
            ..Draft::default()
        }
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// The arguments of a call cannot be read.
    pub(super) fn add(&mut self, delta: Delta<'_>) -> Result<(), Failure> {
        // Before the content, because separate reasoning is no part of the content.
        self.reason(ReasoningKey::Content, delta.reasoning_content);
        self.reason(ReasoningKey::Plain, delta.reasoning);
        if let Some(pieces) = delta.reasoning_details {
            self.details.add(pieces);
        }
        if let Some(content) = delta.content {
            self.say(&content.0);
        }
        if let Some(Str(refusal)) = delta.refusal.filter(|refusal| !refusal.0.is_empty()) {
            self.refused = true;
            self.text.push_str(&refusal);
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call)?;
        }
        if let Some(function) = delta.function_call {
            self.call(CallDelta {
                index: Some(0),
                id: None,
                function: Some(function),
                extra_content: None,
            })?;
        }
        Ok(())
    }

    /// Adds a piece of the message's content.
    pub(super) fn say(&mut self, piece: &str) {
        self.apart.push(piece, &mut self.text);
    }

    /// Sets the usage. A repeated usage replaces the earlier one.
    pub(super) fn used(&mut self, usage: Usage) {
        self.usage = usage;
    }

    /// Notes why the reply ended.
    ///
    /// # Errors
    /// The server broke it off.
    pub(super) fn finish(&mut self, reason: &str) -> Result<(), Failure> {
        self.stop = match reason {
            "" => return Ok(()),
            "length" | "max_tokens" | "model_length" => Some(Stop::CutOff),
            "content_filter" => Some(Stop::Refused),
            // vLLM and SGLang; Mistral and OpenRouter; DeepSeek.
            "abort" | "error" | "insufficient_system_resource" => {
                let reason = format!("the server broke off the reply: {reason}");
                return Err(Failure::new(Class::UNAVAILABLE, reason));
            }
            // `stop`, `tool_calls`, `function_call`, and values of other servers.
            _ => Some(Stop::Complete),
        };
        Ok(())
    }

    /// A server that uses both keys sends the reasoning twice: only the first key is read.
    fn reason(&mut self, key: ReasoningKey, piece: Option<Str<'_>>) {
        let Some(Str(piece)) = piece.filter(|piece| !piece.0.is_empty()) else {
            return;
        };
        self.apart.reasoning_is_separate();
        let (known, reasoning) = self.reasoning.get_or_insert_with(|| (key, String::new()));
        if *known == key {
            reasoning.push_str(&piece);
        }
    }

    fn call(&mut self, delta: CallDelta<'_>) -> Result<(), Failure> {
        let id = delta.id.unwrap_or_default().0;
        let function = delta.function.unwrap_or_default();
        let name = function.name.unwrap_or_default().0;
        let none = Ok(Cow::Borrowed(""));
        let arguments = function.arguments.map_or(none, arguments_text)?;
        let place = self.place(delta.index, &id, &name, &arguments);
        let at = place.unwrap_or_else(|| {
            self.calls.push(Call {
                index: delta.index,
                ..Call::default()
            });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        // Servers send both once, or with every piece.
        if call.id.is_empty() {
            call.id.push_str(&id);
        }
        if call.name.is_empty() {
            call.name.push_str(&name);
        }
        if let Some(extra) = delta.extra_content {
            call.extra_content = Some(extra.to_owned());
        }
        call.arguments.push_str(&arguments);
        Ok(())
    }

    /// The call that a piece continues; `None` if it begins one. The index identifies the call;
    /// some servers send no index, or the same one for each call, and whole calls only. A piece with
    /// a new index and nothing else than arguments continues the newest call: servers may begin a
    /// call with the index of the one before.
    fn place(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let other = |call: &Call| match id.is_empty() && call.id.is_empty() {
            true => call.is_followed_by(name, arguments),
            false => !id.is_empty() && !call.id.is_empty() && call.id != id,
        };
        let known = |index| self.calls.iter().rposition(|call| call.index == index);
        match index {
            Some(_) if known(index).is_some() => known(index).filter(|at| !other(&self.calls[*at])),
            Some(_) if !id.is_empty() || !name.is_empty() => None,
            Some(_) => self.calls.len().checked_sub(1),
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    /// What its message has besides its text and calls. Without calls it is not sent back.
    fn own_message(&self) -> Option<Arc<str>> {
        if self.calls.is_empty() {
            return None;
        }
        let inline = self.apart.block();
        let mut members = Vec::new();
        // OpenRouter sends the reasoning as a text too.
        if let Some(blocks) = self.details.written() {
            members.push(format!(r#""reasoning_details":{blocks}"#));
        } else if let Some((key, text)) = &self.reasoning {
            members.push(format!(r#""{}":{}"#, key.name(), quoted(text)));
        } else if !inline.is_empty() {
            let content = quoted(&format!("{inline}{}", self.text));
            members.push(format!(r#""content":{content}"#));
        }
        let extras = self.calls.iter().map(|call| call.extra_content.as_deref());
        if extras.clone().any(|extra| extra.is_some()) {
            let extras: Vec<&str> = extras
                .map(|extra| extra.map_or("null", RawValue::get))
                .collect();
            members.push(format!(r#""extra_content":[{}]"#, extras.join(",")));
        }
        (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")).into())
    }

    /// The reply.
    ///
    /// # Errors
    /// It does not say why it ended, or a call has no name.
    pub(super) fn into_reply(mut self) -> Result<Reply, Failure> {
        let missing_reason = || Failure::missing("choices[0].finish_reason");
        let stop = self.stop.ok_or_else(missing_reason)?;
        if stop == Stop::Complete && self.calls.is_empty() {
            self.apart.complete();
        }
        self.apart.finish(&mut self.text);
        let verbatim = self.own_message();
        let mut ids = BTreeSet::new();
        let mut calls = Vec::with_capacity(self.calls.len());
        for (at, call) in self.calls.into_iter().enumerate() {
            if call.name.is_empty() {
                let field = format!("choices[0].message.tool_calls[{at}].function.name");
                return Err(Failure::missing(&field));
            }
            calls.push(ToolCall {
                id: unique(&mut ids, call.id, at).into(),
                name: call.name.into(),
                // A call without arguments may have an empty text.
                arguments: if call.arguments.trim().is_empty() {
                    "{}".into()
                } else {
                    call.arguments.into()
                },
            });
        }
        Ok(Reply {
            text: self.text.into(),
            calls,
            verbatim,
            usage: self.usage.read(),
            stop: if self.refused { Stop::Refused } else { stop },
            fallback: None,
            request_id: None,
            calls_left_out: 0,
        })
    }
}

/// The id itself; if it is missing or belongs to another call, one made of the call's place.
pub(in crate::dialect) fn unique(ids: &mut BTreeSet<String>, id: String, at: usize) -> String {
    let mut id = if id.is_empty() {
        format!("call_{at}")
    } else {
        id
    };
    while ids.contains(&id) {
        id.push_str(&format!("_{at}"));
    }
    ids.insert(id.clone());
    id
}

fn arguments_text(raw: &RawValue) -> Result<Cow<'_, str>, Failure> {
    if !raw.get().starts_with('"') {
        return Ok(Cow::Borrowed(raw.get()));
    }
    let text: Result<Str<'_>, _> = serde_json::from_str(raw.get());
    let unreadable = |e| crate::dialect::refusal::unreadable(raw.get().as_bytes(), &e);
    text.map(|text| text.0).map_err(unreadable)
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    let mut json = Json::with_capacity(text.len() + text.len() / 8 + 2);
    json.string(text);
    String::from_utf8_lossy(&json.into_bytes()).into()
}

/// What [`Reply::verbatim`] adds to a message.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Own<'a> {
    /// The unchanged content, with reasoning in it.
    #[serde(borrow)]
    pub(super) content: Option<Str<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    /// Of each call.
    #[serde(borrow, default)]
    extra_content: Vec<Option<&'a RawValue>>,
}

impl<'a> Own<'a> {
    /// Nothing if it is of another dialect.
    pub(super) fn parse(verbatim: Option<&'a str>) -> Own<'a> {
        let own = verbatim.filter(|own| own.trim_start().starts_with('{'));
        own.and_then(|own| serde_json::from_str(own).ok())
            .unwrap_or_default()
    }

    /// The member that has its reasoning, after a comma; empty without.
    pub(super) fn reasoning(&self) -> String {
        let members = [
            ("reasoning_content", self.reasoning_content),
            ("reasoning", self.reasoning),
            ("reasoning_details", self.reasoning_details),
        ];
        let mut found = members
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?.get())));
        match (found.next(), found.next()) {
            (Some((key, value)), None) => format!(r#","{key}":{value}"#),
            _ => String::new(),
        }
    }

    /// The `extra_content` of a call, by its place in the reply.
    pub(super) fn extra_content(&self, place: usize) -> Option<&'a str> {
        let extra = self.extra_content.get(place).copied().flatten();
        extra.map(RawValue::get)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content<'a>, D::Error> {
        deserializer.deserialize_any(ReadContent).map(Content)
    }
}

struct ReadContent;

impl<'de> Visitor<'de> for ReadContent {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of parts")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(borrow)]
            text: Option<Str<'a>>,
        }
        let mut all = String::new();
        while let Some(part) = parts.next_element::<Part<'_>>()? {
            all.push_str(&part.text.unwrap_or_default().0);
        }
        Ok(Cow::Owned(all))
    }
}
