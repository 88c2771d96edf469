//! A model's replies, the tools it calls and what they used: the words models and runs share.

use std::ops::Add;
use std::sync::Arc;

use crate::cost::Cost;
use crate::digest::Digest;
use crate::tokens::Tokens;

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its text.
    pub text: Arc<str>,
    /// The tools it calls; none: the text is its answer.
    pub calls: Vec<ToolCall>,
    /// The whole reply in its provider's own form, where it holds more than text and calls:
    /// reasoning that must be sent back as it came. JSON; never part of a snapshot.
    pub verbatim: Option<Arc<str>>,
    /// What it used.
    pub usage: Usage,
    /// Why it ended.
    pub stop: Stop,
    /// Who answered, where it is not the model that was asked.
    pub fallback: Option<FallbackUsed>,
    /// The provider's id of the request.
    pub request_id: Option<Arc<str>>,
}

impl Reply {
    /// A reply that is an answer; what it used is not known.
    pub fn text(text: impl Into<Arc<str>>) -> Reply {
        Reply {
            text: text.into(),
            ..Reply::default()
        }
    }
}

/// A model that answered in place of the one that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackUsed {
    /// Its name, as definitions write it.
    pub model: Arc<str>,
    /// How it was asked; none: that was not recorded.
    pub sent: Option<Sent>,
}

/// Where a request to a fallback differs from the one it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Digest of the prefix, which is in the fallback's own dialect.
    pub prefix: Digest,
    /// The longest reply, which is no longer than the fallback can give.
    pub max_output: Tokens,
}

impl FallbackUsed {
    /// One of which only the name is known.
    pub fn named(model: impl Into<Arc<str>>) -> FallbackUsed {
        FallbackUsed {
            model: model.into(),
            sent: None,
        }
    }

    /// Digest of the prefix it was sent, where that is known.
    pub fn prefix(&self) -> Option<Digest> {
        self.sent.map(|sent| sent.prefix)
    }
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The model was done, or waits for its tools.
    #[default]
    Complete,
    /// It had written all the tokens it was allowed.
    CutOff,
    /// It, or its provider, declined to answer.
    Refused,
}

/// How the agents of a fan-out make use of their provider's prompt cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheWarm {
    /// The first request goes ahead; the others start at its first stream event.
    #[default]
    Leader,
    /// A request of its own writes the shared prefix to the cache before any other is sent.
    Prewarm,
    /// All start at once.
    Off,
}

/// A call a model made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's id for it.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: Arc<str>,
    /// The answer.
    pub content: Arc<str>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// What whoever asks adds to a request: tools that they lend the agent, and texts that end its
/// reply. It is told of the tools as of its own; a call of one ends its run, since whoever asked makes
/// it and asks again with the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// Their names.
    pub tools: Vec<Arc<str>>,
    /// Whether one has to be called.
    pub choice: Choice,
    /// Whether no more than one call may be handed over at a time.
    pub one: bool,
    /// Texts at which a reply ends; it has none of them.
    pub stop: Vec<Arc<str>>,
    /// Tokens of a reply at most, where whoever asked says so.
    pub max_output: Option<Tokens>,
}

/// Whether a model has to call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// As it sees fit.
    #[default]
    Free,
    /// It must call one.
    Any,
    /// It must call this one.
    This(Arc<str>),
}

impl ClientOptions {
    /// Whether the tool is one of them.
    pub fn has(&self, tool: &str) -> bool {
        self.tools
            .iter()
            .any(|client_options| **client_options == *tool)
    }
}

/// What model calls used. Amounts of several calls add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens, those read from or written to a prompt cache included.
    pub input: Tokens,
    /// All output tokens, reasoning included.
    pub output: Tokens,
    /// Input tokens that were expected to be read from the provider's prompt cache.
    pub cache_expected: Tokens,
    /// Input tokens that were read from it.
    pub cache_read: Tokens,
    /// Input tokens that were written to it, as far as the provider says so.
    pub cache_write: Tokens,
    /// What they cost; none: a price is not known.
    pub cost: Option<Cost>,
}

impl Usage {
    /// Nothing, free of charge.
    pub const NONE: Usage = Usage {
        input: Tokens::ZERO,
        output: Tokens::ZERO,
        cache_expected: Tokens::ZERO,
        cache_read: Tokens::ZERO,
        cache_write: Tokens::ZERO,
        cost: Some(Cost::ZERO),
    };

    /// So many tokens, free of charge.
    pub const fn free(input: Tokens, output: Tokens) -> Usage {
        Usage {
            input,
            output,
            ..Usage::NONE
        }
    }

    /// Whether the provider's cache was expected to have a prefix and had not.
    pub const fn missed(&self) -> bool {
        missed(self.cache_expected, self.cache_read)
    }
}

/// Whether a cache from which so much was read missed what it was expected to have: less than half
/// of it was there, which no error of an estimate explains.
pub const fn missed(expected: Tokens, read: Tokens) -> bool {
    read.0.saturating_mul(2) < expected.0
}

impl Default for Usage {
    fn default() -> Usage {
        Usage::NONE
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            input: self.input + other.input,
            output: self.output + other.output,
            cache_expected: self.cache_expected + other.cache_expected,
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
            cost: self.cost.zip(other.cost).map(|(a, b)| a + b),
        }
    }
}
