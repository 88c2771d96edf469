//! All that a model is asked with.

use std::fmt;
use std::sync::Arc;

use unisono_context::call::{CacheWarm, Reply, ToolResult};
use unisono_context::snapshot::ToolSpec;
use unisono_context::{AgentId, Snapshot, Tokens};

use crate::prompt::{Delegated, Group, Persona, Prefix, Shared};

/// All that a model is asked with. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Request {
    /// The rendered context, shared with the agent's siblings byte for byte.
    pub prefix: Prefix,
    /// What the prefix was rendered for.
    pub group: Group,
    /// The context as a value; none for an agent that gets its task only.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The tools the prefix lists: those of every agent of the turn, sorted.
    pub tools: Arc<[ToolSpec]>,
    /// JSON schema that the answer must fit. Part of the prefix.
    pub output_schema: Option<Arc<str>>,
    /// Who the model speaks for.
    pub persona: Persona,
    /// The tools it may call.
    pub allowed: Arc<[Arc<str>]>,
    /// The agents it may delegate to.
    pub colleagues: Arc<[Colleague]>,
    /// What it is to do.
    pub task: Arc<str>,
    /// For a lead: what its delegates came back with.
    pub results: Arc<[Delegated]>,
    /// What was said since: replies with tool calls, and what the tools answered.
    pub exchange: Vec<Exchange>,
    /// Set for the last call of a run: why it must answer now, without calling tools.
    pub wrap_up: Option<Arc<str>>,
    /// The longest reply.
    pub max_output: Tokens,
    /// Sampling temperature in thousandths; none: the provider's default.
    pub temperature_milli: Option<u32>,
    /// How the provider's cache is warmed.
    pub cache_warm: CacheWarm,
    /// Runs of the turn that share the prefix, this one included.
    pub peers: u32,
    /// Its run's place among those that were given their tasks together, from 0.
    pub place: u32,
    /// Told of the reply while it comes in.
    pub listener: Listener,
}

impl Request {
    /// What the prefix is rendered from.
    pub fn shared(&self) -> Shared<'_> {
        Shared {
            snapshot: self.snapshot.as_deref(),
            group: &self.group,
            tools: &self.tools,
            output_schema: self.output_schema.as_deref(),
        }
    }
}

/// An agent that a lead may give a task to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colleague {
    /// Its name.
    pub agent: AgentId,
    /// What it is for.
    pub description: Arc<str>,
}

/// One move of an agent's own loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The model called tools.
    Reply(Reply),
    /// The tools answered, in the order of the calls.
    Results(Vec<ToolResult>),
}

/// Who is told of a reply's text while it comes in. Told in order, on the task that reads the
/// reply: it must not block. After a failed attempt the text begins anew.
#[derive(Clone, Default)]
pub struct Listener(Option<Arc<OnText>>);

type OnText = dyn Fn(&str) + Send + Sync;

impl Listener {
    /// Nobody.
    pub const NONE: Listener = Listener(None);

    /// A listener that is called with each piece of text.
    pub fn new(on_text: impl Fn(&str) + Send + Sync + 'static) -> Listener {
        Listener(Some(Arc::new(on_text)))
    }

    /// Passes a piece of text on.
    pub fn text(&self, piece: &str) {
        if let Some(on_text) = &self.0 {
            on_text(piece);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Listener(..)"
        } else {
            "Listener::NONE"
        })
    }
}
