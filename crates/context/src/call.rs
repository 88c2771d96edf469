//! Replies of models, their tool calls and their usage: types that models and runs share.

use std::borrow::Cow;
use std::ops::Add;
use std::sync::Arc;

use crate::attachment::{AttachedFile, Extent, document_text};
use crate::cost::Cost;
use crate::digest::Digest;
use crate::tokens::Tokens;

/// The reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its text.
    pub text: Arc<str>,
    /// Its tool calls; none: the text is its answer.
    pub calls: Vec<ToolCall>,
    /// The whole reply in its provider's own form, if it contains more than text and calls:
    /// reasoning that must be sent back unchanged. JSON; never part of a snapshot.
    pub verbatim: Option<Arc<str>>,
    /// Its usage.
    pub usage: Usage,
    /// Why it ended.
    pub stop: Stop,
    /// The fallback that answered, if the requested model did not.
    pub fallback: Option<FallbackUsed>,
    /// The provider's id of the request.
    pub request_id: Option<Arc<str>>,
    /// The number of further calls that the model requested, which are neither kept nor made.
    pub calls_left_out: u32,
}

impl Reply {
    /// A reply that is an answer, with unknown usage.
    pub fn text(text: impl Into<Arc<str>>) -> Reply {
        Reply {
            text: text.into(),
            ..Reply::default()
        }
    }

    /// The number of calls that the model requested.
    pub fn called(&self) -> usize {
        self.calls
            .len()
            .saturating_add(self.calls_left_out as usize)
    }
}

/// A model that answered instead of the requested one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackUsed {
    /// Its name, as definitions write it.
    pub model: Arc<str>,
    /// The differences of its request; none: they were not recorded.
    pub sent: Option<Sent>,
}

/// The differences between a request to a fallback and the original request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Digest of the prefix, which is in the fallback's own dialect.
    pub prefix: Digest,
    /// The longest reply, within the limit of the fallback.
    pub max_output: Tokens,
}

impl FallbackUsed {
    /// A fallback of which only the name is known.
    pub fn named(model: impl Into<Arc<str>>) -> FallbackUsed {
        FallbackUsed {
            model: model.into(),
            sent: None,
        }
    }

    /// The digest of the prefix of its request, if known.
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
    /// The reply reached the maximum number of tokens.
    CutOff,
    /// The model or its provider declined to answer.
    Refused,
}

/// How the agents of a fan-out use their provider's prompt cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheWarm {
    /// The first request goes ahead; the others start at its first stream event.
    #[default]
    Leader,
    /// A separate request writes the shared prefix to the cache before any other request is sent.
    Prewarm,
    /// All start at once.
    Off,
}

/// A tool call of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's id for it.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
}

impl ToolCall {
    /// A call with this id, tool and arguments.
    pub fn new(
        id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        arguments: impl Into<Arc<str>>,
    ) -> ToolCall {
        ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        }
    }
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: Arc<str>,
    /// The result.
    pub content: Arc<str>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// The images and documents in it. Its text has a note of each.
    pub files: Vec<AttachedFile>,
}

impl ToolResult {
    /// A result without files.
    pub fn new(
        call_id: impl Into<Arc<str>>,
        content: impl Into<Arc<str>>,
        is_error: bool,
    ) -> ToolResult {
        ToolResult {
            call_id: call_id.into(),
            content: content.into(),
            is_error,
            files: Vec::new(),
        }
    }

    /// The result as text for a model that takes files of some extents: behind it are the texts of
    /// the documents that the model does not take.
    pub fn text(&self, takes: impl Fn(Extent) -> bool) -> Cow<'_, str> {
        let others = self.files.iter();
        let others = others.filter(|file| !takes(file.content.extent));
        let texts = others.filter_map(|file| Some((&file.filename, file.text.as_deref()?)));
        let mut whole = Cow::Borrowed(&*self.content);
        for (filename, text) in texts {
            let whole = whole.to_mut();
            whole.push('\n');
            whole.push_str(&document_text(filename, text));
        }
        whole
    }
}

/// Additions of a client to a request: client tools for the agent, and stop texts. The prompt lists
/// client tools like the agent's own tools. A call of a client tool ends the run: the client makes
/// the call and sends another request with the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// Their names.
    pub tools: Vec<Arc<str>>,
    /// Whether the model must call one of them.
    pub choice: Choice,
    /// Whether a reply may have at most one call of them.
    pub one: bool,
    /// Texts at which a reply ends; the reply does not contain them.
    pub stop: Vec<Arc<str>>,
    /// Maximum tokens of a reply, if the client sets it.
    pub max_output: Option<Tokens>,
}

/// Whether a model must call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The model decides.
    #[default]
    Free,
    /// It must call at least one.
    Any,
    /// It must call this one.
    This(Arc<str>),
}

impl ClientOptions {
    /// Whether the tool is a client tool.
    pub fn has(&self, tool: &str) -> bool {
        self.tools
            .iter()
            .any(|client_options| **client_options == *tool)
    }
}

/// The usage of model calls. The amounts of several calls can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens, those read from or written to a prompt cache included.
    pub input: Tokens,
    /// All output tokens, reasoning included.
    pub output: Tokens,
    /// Input tokens that were expected to be read from the provider's prompt cache.
    pub cache_expected: Tokens,
    /// Input tokens that were read from the cache.
    pub cache_read: Tokens,
    /// Input tokens that were written to the cache, if the provider reports them.
    pub cache_write: Tokens,
    /// Their cost; none: a price is unknown.
    pub cost: Option<Cost>,
}

impl Usage {
    /// No tokens and no cost.
    pub const NONE: Usage = Usage {
        input: Tokens::ZERO,
        output: Tokens::ZERO,
        cache_expected: Tokens::ZERO,
        cache_read: Tokens::ZERO,
        cache_write: Tokens::ZERO,
        cost: Some(Cost::ZERO),
    };

    /// This number of tokens, without cost.
    pub const fn free(input: Tokens, output: Tokens) -> Usage {
        Usage {
            input,
            output,
            ..Usage::NONE
        }
    }

    /// Whether the provider's cache was expected to have a prefix and did not have it.
    pub const fn missed(&self) -> bool {
        missed(self.cache_expected, self.cache_read)
    }
}

/// Whether a cache missed: less than half of the expected tokens were read, which no estimation
/// error explains.
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
