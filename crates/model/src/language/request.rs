//! The complete request to a model.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use unisono_context::call::{CacheWarm, Choice, ClientOptions, Reply, ToolResult, Usage};
use unisono_context::snapshot::ToolSpec;
use unisono_context::{AgentId, Snapshot, Tokens};

use crate::prompt::{self, Delegated, Group, Persona, Prefix, Shared};

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
    /// Those of them whose calls are made by whoever asked the agent.
    pub client_options: ClientOptions,
    /// The tools it may call.
    pub allowed: Arc<[Arc<str>]>,
    /// The agents it may delegate to.
    pub colleagues: Arc<[Colleague]>,
    /// What it is to do.
    pub task: Arc<str>,
    /// For a lead: what its delegates came back with.
    pub results: Arc<[Delegated]>,
    /// What stands for its first rounds of replies and results, where they are left out.
    pub summary: Option<Arc<str>>,
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
    /// Whether other runs of the turn share the prefix.
    pub has_peers: bool,
    /// Its run's place among those that were given their tasks together, from 0.
    pub place: u32,
    /// How long whoever asks waits for the reply: what would be sent after that is not waited for.
    /// None: as long as the provider's settings say.
    pub patience: Option<Duration>,
    /// Set where what it may take was reserved: once something was paid for it, as for a reply that
    /// broke off, it is not sent again, and no fallback is asked. Whoever asks reserves anew.
    pub bounded: bool,
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

    /// Whether its task is the message that the shown context ends with: it is not said again.
    pub fn task_is_shown(&self) -> bool {
        prompt::is_shown(self.shared().context(), &self.task)
    }

    /// What it has to call, whatever else it is told.
    pub fn choice(&self) -> Option<&Choice> {
        let forced =
            (self.client_options.choice != Choice::Free).then_some(&self.client_options.choice);
        forced.filter(|_| !self.client_options.tools.is_empty())
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

/// Who is told of a reply while it comes in, and of what was paid for before it. Told in order, on
/// the task that reads the reply: it must not block. After a failed attempt the text begins anew.
#[derive(Clone, Default)]
pub struct Listener {
    on_text: Option<Arc<OnText>>,
    on_sign: Option<Arc<OnSign>>,
    on_paid: Option<Arc<OnPaid>>,
    on_wait: Option<Arc<OnWait>>,
}

/// What whoever asks gives up while a request waits for another one, until it is dropped.
pub type Waits = Box<dyn Any + Send>;

type OnText = dyn Fn(&str) + Send + Sync;
type OnSign = dyn Fn() + Send + Sync;
type OnPaid = dyn Fn(Usage, Option<Arc<str>>) + Send + Sync;
type OnWait = dyn Fn() -> Waits + Send + Sync;

impl Listener {
    /// Nobody.
    pub const NONE: Listener = Listener {
        on_text: None,
        on_sign: None,
        on_paid: None,
        on_wait: None,
    };

    /// A listener that is called with each piece of text.
    pub fn new(on_text: impl Fn(&str) + Send + Sync + 'static) -> Listener {
        Listener {
            on_text: Some(Arc::new(on_text)),
            ..Listener::NONE
        }
    }

    /// Has another function called with whatever comes in: text, reasoning, calls of tools, pings.
    #[must_use]
    pub fn with_signs(self, on_sign: impl Fn() + Send + Sync + 'static) -> Listener {
        Listener {
            on_sign: Some(Arc::new(on_sign)),
            ..self
        }
    }

    /// Has another function called with what is paid for besides the reply, as soon as that is
    /// known, and the model whose it was where that stands in for the one that was asked.
    #[must_use]
    pub fn with_paid(
        self,
        on_paid: impl Fn(Usage, Option<Arc<str>>) + Send + Sync + 'static,
    ) -> Listener {
        Listener {
            on_paid: Some(Arc::new(on_paid)),
            ..self
        }
    }

    /// Has another function called when the request begins to wait for its turn at the provider.
    /// What that gives is kept until the wait is over, or given up.
    #[must_use]
    pub fn with_waits(self, on_wait: impl Fn() -> Waits + Send + Sync + 'static) -> Listener {
        Listener {
            on_wait: Some(Arc::new(on_wait)),
            ..self
        }
    }

    /// Has each piece of text pass a function, which gives what is told of it.
    #[must_use]
    pub(super) fn with_text_passed_by(
        self,
        pass: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Listener {
        let Some(on_text) = self.on_text.clone() else {
            return self;
        };
        let passed: Arc<OnText> = Arc::new(move |piece| match pass(piece) {
            text if text.is_empty() => {}
            text => on_text(&text),
        });
        Listener {
            on_text: Some(passed),
            ..self
        }
    }

    /// One that is told only of what is paid for: the reply itself is nobody's.
    #[must_use]
    pub(super) fn of_payments(&self) -> Listener {
        Listener {
            on_paid: self.on_paid.clone(),
            ..Listener::NONE
        }
    }

    /// The same for a model that stands in: what is paid for is its own.
    #[must_use]
    pub(super) fn of_stand_in(self, name: Arc<str>) -> Listener {
        match self.on_paid.clone() {
            Some(on_paid) => self.with_paid(move |usage, fallback| {
                // A chain within the chain has said who it was.
                on_paid(usage, fallback.or_else(|| Some(name.clone())));
            }),
            None => self,
        }
    }

    /// Tells what was paid for besides the reply, whatever becomes of that.
    pub fn paid(&self, usage: Usage, fallback: Option<Arc<str>>) {
        if let Some(on_paid) = &self.on_paid {
            on_paid(usage, fallback);
        }
    }

    /// Tells that the request waits for its turn, until what this gives is dropped.
    pub fn waits(&self) -> Option<Waits> {
        self.on_wait.as_ref().map(|on_wait| on_wait())
    }

    /// Passes a piece of text on.
    pub fn text(&self, piece: &str) {
        self.sign();
        if let Some(on_text) = &self.on_text {
            on_text(piece);
        }
    }

    /// Tells that something came in.
    pub fn sign(&self) {
        if let Some(on_sign) = &self.on_sign {
            on_sign();
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.on_text.is_some() {
            "Listener(..)"
        } else {
            "Listener::NONE"
        })
    }
}
