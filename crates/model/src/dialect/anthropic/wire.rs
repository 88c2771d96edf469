//! The parts of the Messages API's responses that this program reads, as structures that borrow
//! from the text. Other parts are skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use unisono_context::Tokens;
use unisono_context::call::Usage;

use super::refusal::Problem;
use crate::dialect::Failure;
use crate::dialect::borrowed::Str;
use crate::dialect::counts::tokens;

#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<Kind>,
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<Start<'a>>,
    pub(super) message: Option<Message>,
    pub(super) usage: Option<Counts>,
    #[serde(borrow)]
    pub(super) error: Option<Problem<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    MessageStart,
    ContentBlockStart,
    ContentBlockDelta,
    ContentBlockStop,
    MessageDelta,
    MessageStop,
    Error,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) usage: Option<Counts>,
}

/// The changes of `content_block_delta` or `message_delta`.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Str<'a>>,
    pub(super) stop_reason: Option<Reason>,
    #[serde(borrow)]
    pub(super) stop_details: Option<Details<'a>>,
}

impl<'a> Delta<'a> {
    /// Its text, if it has nothing else and the text has no escapes.
    pub(super) fn only_text(&self) -> Option<&'a str> {
        let nothing_else = self.partial_json.is_none()
            && self.thinking.is_none()
            && self.signature.is_none()
            && self.stop_reason.is_none()
            && self.stop_details.is_none();
        match &self.text {
            Some(Str(Cow::Borrowed(text))) if nothing_else => Some(text),
            _ => None,
        }
    }
}

/// A content block as it begins, or as a whole.
#[derive(Deserialize)]
pub(super) struct Start<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<BlockKind>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BlockKind {
    Text,
    Thinking,
    RedactedThinking,
    ToolUse,
    #[serde(other)]
    Other,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    EndTurn,
    ToolUse,
    StopSequence,
    Refusal,
    /// `max_tokens`, `model_context_window_exceeded`, `pause_turn` and unknown reasons: the model
    /// may not have finished.
    #[serde(other)]
    Unfinished,
}

#[derive(Deserialize)]
pub(super) struct Details<'a> {
    #[serde(borrow)]
    pub(super) explanation: Option<Str<'a>>,
}

/// The API's counts of tokens.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Counts {
    /// Neither read from a cache nor written to one.
    #[serde(default, deserialize_with = "tokens")]
    pub(super) input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    pub(super) output_tokens: Option<u64>,
}

/// A reply as one document.
#[derive(Deserialize)]
pub(super) struct Whole<'a> {
    #[serde(borrow)]
    pub(super) error: Option<Problem<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<Start<'a>>>,
    pub(super) stop_reason: Option<Reason>,
    #[serde(borrow)]
    pub(super) stop_details: Option<Details<'a>>,
    pub(super) usage: Option<Counts>,
}

/// The answer of `/v1/messages/count_tokens`.
#[derive(Deserialize)]
pub(super) struct Counted<'a> {
    pub(super) input_tokens: Option<u64>,
    #[serde(borrow)]
    pub(super) error: Option<Problem<'a>>,
}

impl Counts {
    /// Takes a newer usage: its output if it is larger, and its input unless the sum is smaller. Some
    /// servers know only at the end which part of the input they read from a cache.
    pub(super) fn update(&mut self, newer: Option<Counts>) {
        let Some(newer) = newer else { return };
        let output_tokens = newer.output_tokens.max(self.output_tokens);
        let merged = Counts {
            input_tokens: newer.input_tokens.or(self.input_tokens),
            cache_read_input_tokens: newer
                .cache_read_input_tokens
                .or(self.cache_read_input_tokens),
            cache_creation_input_tokens: newer
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
            output_tokens,
        };
        if merged.input() >= self.input() {
            *self = merged;
        }
        self.output_tokens = output_tokens;
    }

    fn input(&self) -> u64 {
        let parts = [
            self.input_tokens,
            self.cache_read_input_tokens,
            self.cache_creation_input_tokens,
        ];
        parts.into_iter().flatten().sum()
    }

    /// The usage. The caller adds cost and expected cache reads.
    pub(super) fn total(&self) -> Result<Usage, Failure> {
        let missing = |field| move || Failure::missing(field);
        let fresh = self.input_tokens;
        let fresh = fresh.ok_or_else(missing("usage.input_tokens"))?;
        let output = self.output_tokens;
        let output = output.ok_or_else(missing("usage.output_tokens"))?;
        let cache_read = Tokens(self.cache_read_input_tokens.unwrap_or(0));
        let cache_write = Tokens(self.cache_creation_input_tokens.unwrap_or(0));
        Ok(Usage {
            input: Tokens(fresh) + cache_read + cache_write,
            output: Tokens(output),
            cache_expected: Tokens::ZERO,
            cache_read,
            cache_write,
            cost: None,
        })
    }
}
