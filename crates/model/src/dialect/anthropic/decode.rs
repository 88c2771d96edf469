//! Reads a reply of the Messages API, streamed or whole.
//!
//! ```text
//! message_start                  usage of the input
//! content_block_start 0          its kind; then content_block_delta 0 …, content_block_stop 0
//! …
//! message_delta                  stop reason, usage
//! message_stop                   the terminal marker
//! ```

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;
use unisono_context::Tokens;
use unisono_context::call::{Reply, Stop, ToolCall, Usage};

use super::calls;
use super::refusal;
use super::wire::{BlockKind, Counted, Counts, Delta, Details, Event, Kind, Reason, Start, Whole};
use crate::dialect::borrowed::Str;
use crate::dialect::likeness::Likeness;
use crate::dialect::openai_chat::refusal::reported;
use crate::dialect::{Decoded, DecodedEvent, Failure, refusal as shared};
use crate::language::Class;
use crate::prompt::json::Json;
use crate::sse;

/// Reads one streamed reply.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    text: String,
    /// Content blocks by index, in the order they began.
    blocks: Vec<(u32, Block)>,
    /// The indexes whose newest block has ended.
    ended_blocks: Vec<u32>,
    usage: Counts,
    stop: Option<Stop>,
    /// The model's explanation why it declined.
    explanation: Option<String>,
    ended: bool,
    /// A piece of that block's text.
    alike: (u32, Likeness),
}

#[derive(Debug)]
enum Block {
    /// The range of its text in the reply's text. Consecutive blocks have one range.
    Text(Vec<Range<usize>>),
    Thinking {
        thinking: String,
        signature: String,
    },
    Redacted(String),
    Call {
        id: String,
        name: String,
        input: String,
        /// The input in the block's beginning; used if no piece follows.
        given: String,
    },
    /// A kind that this program does not request.
    Other,
}

impl Decoder {
    pub(in crate::dialect) fn event<'d>(&'d mut self, event: &sse::Event<'_>) -> Decoded<'d> {
        if let Some(text) = self.alike.1.text(event) {
            return Ok(self.say(self.alike.0, text.into()));
        }
        let (sent, data) = (event, event.data);
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| {
            let unreadable = || shared::unreadable(data.as_bytes(), &error);
            reported(data.as_bytes()).unwrap_or_else(unreadable)
        })?;
        // The errors of LiteLLM have no type.
        let untyped = || reported(data.as_bytes()).unwrap_or_else(|| Failure::missing("type"));
        match event.kind.ok_or_else(untyped)? {
            Kind::MessageStart => {
                let message = event.message.ok_or_else(|| Failure::missing("message"))?;
                self.usage.update(message.usage);
                Ok(DecodedEvent::Other)
            }
            Kind::ContentBlockStart => {
                let index = event.index.ok_or_else(|| Failure::missing("index"))?;
                let start = event.content_block;
                let start = start.ok_or_else(|| Failure::missing("content_block"))?;
                self.start(index, start)
            }
            Kind::ContentBlockDelta => {
                let index = event.index.ok_or_else(|| Failure::missing("index"))?;
                let delta = event.delta.ok_or_else(|| Failure::missing("delta"))?;
                if let Some(text) = delta.only_text().filter(|_| self.is_text(index)) {
                    self.alike.0 = index;
                    self.alike.1.learn(sent, text);
                }
                self.delta(index, &delta)
            }
            Kind::ContentBlockStop => {
                self.ended_blocks.extend(event.index);
                Ok(DecodedEvent::Other)
            }
            Kind::MessageDelta => {
                let delta = event.delta.ok_or_else(|| Failure::missing("delta"))?;
                self.usage.update(event.usage);
                self.stopped(delta.stop_reason, delta.stop_details);
                Ok(DecodedEvent::Other)
            }
            Kind::MessageStop => {
                self.ended = true;
                Ok(DecodedEvent::End)
            }
            Kind::Error => {
                let error = event.error.ok_or_else(|| Failure::missing("error"))?;
                Err(refusal::in_stream(&error))
            }
            Kind::Other => Ok(DecodedEvent::Status),
        }
    }

    pub(in crate::dialect) fn usage_so_far(&self) -> Usage {
        self.usage.total().unwrap_or_default()
    }

    pub(in crate::dialect) fn finish(self) -> Result<Reply, Failure> {
        if !self.ended {
            return Err(Failure::new(
                Class::IncompleteStream,
                "the stream ended before `message_stop`",
            ));
        }
        let missing_stop = || Failure::missing("message_delta.delta.stop_reason");
        let stop = self.stop.ok_or_else(missing_stop)?;
        let usage = self.usage.total()?;
        let verbatim = self.verbatim();
        let mut calls = Vec::new();
        for (_, block) in self.blocks {
            if let Block::Call {
                id,
                name,
                input,
                given,
            } = block
            {
                calls.push(ToolCall::new(id, name, chosen(&input, &given)));
            }
        }
        let mut text = self.text;
        if stop == Stop::Refused && text.trim().is_empty() {
            text = self.explanation.unwrap_or(text);
        }
        Ok(Reply {
            text: text.into(),
            calls,
            verbatim: verbatim.map(Into::into),
            usage,
            stop,
            fallback: None,
            request_id: None,
            calls_left_out: 0,
        })
    }

    fn start(&mut self, index: u32, start: Start<'_>) -> Decoded<'_> {
        // Some proxies give all blocks one index. The start of a block may be sent twice.
        let is_ended = self.ended_blocks.contains(&index);
        if !is_ended && self.blocks.iter().any(|(known, _)| *known == index) {
            return Ok(DecodedEvent::Other);
        }
        self.ended_blocks.retain(|ended| *ended != index);
        let own = |text: Option<Str<'_>>| text.map_or_else(String::new, |text| text.0.into_owned());
        let kind = start.kind;
        let block = match kind.ok_or_else(|| Failure::missing("content_block.type"))? {
            BlockKind::Text => {
                self.blocks.push((index, Block::Text(Vec::new())));
                return Ok(self.say(index, start.text.map_or("".into(), |text| text.0)));
            }
            BlockKind::Thinking => Block::Thinking {
                thinking: own(start.thinking),
                signature: own(start.signature),
            },
            BlockKind::RedactedThinking => Block::Redacted(own(start.data)),
            BlockKind::ToolUse => Block::Call {
                id: own(Some(
                    start
                        .id
                        .ok_or_else(|| Failure::missing("content_block.id"))?,
                )),
                name: own(Some(
                    start
                        .name
                        .ok_or_else(|| Failure::missing("content_block.name"))?,
                )),
                input: String::new(),
                given: start.input.map_or("{}", RawValue::get).to_owned(),
            },
            BlockKind::Other => Block::Other,
        };
        self.blocks.push((index, block));
        Ok(DecodedEvent::Other)
    }

    fn delta(&mut self, index: u32, delta: &Delta<'_>) -> Decoded<'_> {
        let mut found = self.blocks.iter_mut().rev();
        let Some((_, block)) = found.find(|(known, _)| *known == index) else {
            return Err(Failure::new(
                Class::BadReply,
                format!("the reply has no `content_block_start` for block {index}"),
            ));
        };
        match block {
            Block::Text(_) => {
                let text = delta.text.as_ref().map_or("", |text| &text.0);
                return Ok(self.say(index, text.into()));
            }
            Block::Thinking {
                thinking,
                signature,
            } => {
                thinking.push_str(delta.thinking.as_ref().map_or("", |piece| &piece.0));
                signature.push_str(delta.signature.as_ref().map_or("", |piece| &piece.0));
            }
            Block::Call { input, .. } => {
                input.push_str(delta.partial_json.as_ref().map_or("", |piece| &piece.0));
            }
            Block::Redacted(_) | Block::Other => {}
        }
        Ok(DecodedEvent::Other)
    }

    /// Whether the newest block of that index is of text.
    fn is_text(&self, index: u32) -> bool {
        let mut blocks = self.blocks.iter().rev();
        let block = blocks.find(|(known, _)| *known == index);
        matches!(block, Some((_, Block::Text(_))))
    }

    /// Adds a piece of a text block's text, the newest of that index.
    fn say(&mut self, index: u32, piece: Cow<'_, str>) -> DecodedEvent<'_> {
        let from = self.text.len();
        self.text.push_str(&piece);
        let to = self.text.len();
        if from == to {
            return DecodedEvent::Other;
        }
        let mut blocks = self.blocks.iter_mut().rev();
        if let Some((_, Block::Text(ranges))) = blocks.find(|(known, _)| *known == index) {
            match ranges.last_mut() {
                Some(range) if range.end == from => range.end = to,
                _ => ranges.push(from..to),
            }
        }
        DecodedEvent::Text(&self.text[from..])
    }

    fn stopped(&mut self, reason: Option<Reason>, details: Option<Details<'_>>) {
        let stop = reason.map(|reason| match reason {
            Reason::EndTurn | Reason::ToolUse | Reason::StopSequence => Stop::Complete,
            Reason::Unfinished => Stop::CutOff,
            Reason::Refusal => Stop::Refused,
        });
        self.stop = stop.or(self.stop);
        let explanation = details.and_then(|details| details.explanation);
        if let Some(text) = explanation {
            self.explanation = Some(text.0.into_owned());
        }
    }

    /// The content blocks, unchanged; none: they are only text and calls. Empty text is left out,
    /// because the API refuses it.
    fn verbatim(&self) -> Option<String> {
        let reasoning =
            |block: &Block| matches!(block, Block::Thinking { .. } | Block::Redacted(_));
        let blocks = self.blocks.iter().map(|(_, block)| block);
        blocks.clone().any(reasoning).then_some(())?;
        let mut json = Json::with_capacity(self.text.len() + 1024);
        let sent = blocks.filter(|block| match block {
            Block::Text(ranges) => !self.joined(ranges).trim().is_empty(),
            Block::Other => false,
            Block::Thinking { .. } | Block::Redacted(_) | Block::Call { .. } => true,
        });
        json.list(sent, |json, block| self.write(json, block));
        String::from_utf8(json.into_bytes()).ok()
    }

    fn write(&self, json: &mut Json, block: &Block) {
        match block {
            Block::Text(ranges) => {
                json.raw(r#"{"type":"text","text":"#)
                    .string(&self.joined(ranges));
            }
            Block::Thinking {
                thinking,
                signature,
            } => {
                json.raw(r#"{"type":"thinking","thinking":"#)
                    .string(thinking);
                json.raw(r#","signature":"#).string(signature);
            }
            Block::Redacted(data) => {
                json.raw(r#"{"type":"redacted_thinking","data":"#)
                    .string(data);
            }
            Block::Call {
                id,
                name,
                input,
                given,
            } => {
                json.raw(r#"{"type":"tool_use","id":"#).string(id);
                json.raw(r#","name":"#).string(name).raw(r#","input":"#);
                calls::arguments(json, chosen(input, given));
            }
            Block::Other => return,
        }
        json.raw("}");
    }

    fn joined(&self, ranges: &[Range<usize>]) -> String {
        ranges
            .iter()
            .map(|range| &self.text[range.clone()])
            .collect()
    }
}

/// A call's arguments: its pieces, or the input in its beginning.
fn chosen<'a>(input: &'a str, given: &'a str) -> &'a str {
    if input.trim().is_empty() {
        given
    } else {
        input
    }
}

pub(in crate::dialect) fn parse_document(body: &[u8]) -> Result<Reply, Failure> {
    let read: Whole<'_> =
        serde_json::from_slice(body).map_err(|error| shared::unreadable(body, &error))?;
    if let Some(error) = read.error {
        return Err(refusal::in_stream(&error));
    }
    let mut decoder = Decoder {
        ended: true,
        ..Decoder::default()
    };
    let content = read.content.ok_or_else(|| Failure::missing("content"))?;
    for (index, block) in (0..).zip(content) {
        decoder.start(index, block)?;
    }
    decoder.stopped(read.stop_reason, read.stop_details);
    if decoder.stop.is_none() {
        return Err(Failure::missing("stop_reason"));
    }
    decoder.usage.update(read.usage);
    decoder.finish()
}

/// Reads the answer of `/v1/messages/count_tokens`.
pub(in crate::dialect) fn parse_token_count(body: &[u8]) -> Result<Tokens, Failure> {
    let read: Counted<'_> =
        serde_json::from_slice(body).map_err(|error| shared::unreadable(body, &error))?;
    if let Some(error) = read.error {
        return Err(refusal::in_stream(&error));
    }
    let tokens = read.input_tokens;
    tokens
        .map(Tokens)
        .ok_or_else(|| Failure::missing("input_tokens"))
}
