//! The complete request to a model.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use unisono_context::attachment::AttachedFile;
use unisono_context::call::{CacheWarm, Choice, ClientOptions, Reply, ToolResult, Usage};
use unisono_context::snapshot::ToolSpec;
use unisono_context::{AgentId, Snapshot, Tokens};

use crate::prompt::{self, DelegateResult, Group, Persona, Prefix, Shared};

/// A complete request to a model. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Request {
    /// The rendered context, whose bytes are shared with the runs of the same group.
    pub prefix: Prefix,
    /// The group for which the prefix was rendered.
    pub group: Group,
    /// The context as a value; `None` for an agent that gets only its task.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The tools in the prefix: those of all agents of the turn, sorted.
    pub tools: Arc<[ToolSpec]>,
    /// JSON schema of the answer. Part of the prefix.
    pub output_schema: Option<Arc<str>>,
    /// The agent.
    pub persona: Persona,
    /// The options of the client: its tools, tool choice, and stop texts.
    pub client_options: ClientOptions,
    /// The tools that the agent may call.
    pub allowed: Arc<[Arc<str>]>,
    /// The agents to which it may delegate.
    pub colleagues: Arc<[Colleague]>,
    /// Its task.
    pub task: Arc<str>,
    /// For a lead: the results of its delegates.
    pub results: Arc<[DelegateResult]>,
    /// The summary of its first rounds of replies and results, if these are left out.
    pub summary: Option<Arc<str>>,
    /// The run's own exchange: replies with tool calls, and the results.
    pub exchange: Vec<Exchange>,
    /// Set for the last call of a run: the reason why it must answer now, without tool calls.
    pub wrap_up: Option<Arc<str>>,
    /// The maximum output.
    pub max_output: Tokens,
    /// Sampling temperature in thousandths; `None`: the provider's default.
    pub temperature_milli: Option<u32>,
    /// How the provider's cache is warmed.
    pub cache_warm: CacheWarm,
    /// Whether other runs of the turn share the prefix.
    pub has_peers: bool,
    /// The index of its run among the runs that started together, from 0.
    pub place: u32,
    /// The caller's maximum wait: if the request could be sent only later, the call fails at once.
    /// `None`: only the provider's timeouts apply.
    pub patience: Option<Duration>,
    /// Whether its usage is reserved: after paid usage without a reply, such as an interrupted one,
    /// it is not retried and no fallback is asked, since the caller must reserve again.
    pub bounded: bool,
    /// Receives the reply while it is streamed.
    pub listener: Listener,
}

impl Request {
    /// A request for a task alone, without tools, and with the default options.
    pub fn new(
        prefix: Prefix,
        group: Group,
        persona: Persona,
        task: Arc<str>,
        max_output: Tokens,
    ) -> Request {
        Request {
            prefix,
            group,
            snapshot: None,
            tools: Arc::from([]),
            output_schema: None,
            persona,
            client_options: ClientOptions::default(),
            allowed: Arc::from([]),
            colleagues: Arc::from([]),
            task,
            results: Arc::from([]),
            summary: None,
            exchange: Vec::new(),
            wrap_up: None,
            max_output,
            temperature_milli: None,
            cache_warm: CacheWarm::Off,
            has_peers: false,
            place: 0,
            patience: None,
            bounded: false,
            listener: Listener::NONE,
        }
    }

    /// The input of the prefix.
    pub fn shared(&self) -> Shared<'_> {
        Shared {
            snapshot: self.snapshot.as_deref(),
            group: &self.group,
            tools: &self.tools,
            output_schema: self.output_schema.as_deref(),
        }
    }

    /// Whether its task is the last message of the context, so that it is not repeated.
    pub fn is_task_in_context(&self) -> bool {
        prompt::is_newest_message(self.shared().context(), &self.task)
    }

    /// The request without the reasoning that other models sealed: signed and encrypted reasoning is
    /// refused by any model but its own. `fallback` is the model that gets the request; none: the
    /// first one.
    #[must_use]
    pub fn without_foreign_reasoning(mut self, fallback: Option<&str>) -> Request {
        for step in &mut self.exchange {
            if let Exchange::Reply(reply) = step
                && reply.fallback.as_ref().map(|by| &*by.model) != fallback
                && is_sealed(reply)
            {
                reply.verbatim = None;
            }
        }
        self
    }

    /// The files in the results of tools of its exchange. It is sent with those whose bytes are held.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut AttachedFile> {
        let results = self.exchange.iter_mut().flat_map(|step| match step {
            Exchange::Results(results) => &mut results[..],
            Exchange::Reply(_) => &mut [],
        });
        results.flat_map(|result| &mut result.files)
    }

    /// The forced tool choice, if the client has tools.
    pub fn choice(&self) -> Option<&Choice> {
        let forced =
            (self.client_options.choice != Choice::Free).then_some(&self.client_options.choice);
        forced.filter(|_| !self.client_options.tools.is_empty())
    }
}

/// Whether the form of a reply at its provider may have data that only its model can read. It is a
/// list, or a message with members that a server wants back; plain reasoning is another member.
fn is_sealed(reply: &Reply) -> bool {
    #[derive(Deserialize)]
    struct Message {
        reasoning_details: Option<IgnoredAny>,
        extra_content: Option<IgnoredAny>,
    }
    let verbatim = reply.verbatim.as_deref().unwrap_or_default();
    let has_seal =
        |message: Message| message.reasoning_details.is_some() || message.extra_content.is_some();
    verbatim.trim_start().starts_with('[') || serde_json::from_str(verbatim).is_ok_and(has_seal)
}

/// An agent to which a lead may delegate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colleague {
    /// Its name.
    pub agent: AgentId,
    /// Its purpose.
    pub description: Arc<str>,
}

/// One step of an agent's own exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// A reply with tool calls.
    Reply(Reply),
    /// The results of the tools, in the order of the calls.
    Results(Vec<ToolResult>),
}

/// Callbacks for a reply while it is streamed, and for usage besides it. They are called in order
/// on the task that reads the reply and must not block. After a failed attempt the text starts
/// again.
#[derive(Clone, Default)]
pub struct Listener {
    on_text: Option<Arc<OnText>>,
    on_restart: Option<Arc<OnActivity>>,
    on_activity: Option<Arc<OnActivity>>,
    on_usage: Option<Arc<OnUsage>>,
    on_wait: Option<Arc<OnWait>>,
    on_pause: Option<Arc<OnPause>>,
    on_cache_ready: Option<Arc<OnActivity>>,
}

/// A guard of the caller for the time of a wait, such as a released permit. Dropping it ends the
/// wait.
pub type WaitGuard = Box<dyn Any + Send>;

type OnText = dyn Fn(&str) + Send + Sync;
type OnActivity = dyn Fn() + Send + Sync;
type OnUsage = dyn Fn(Usage, Option<Arc<str>>) + Send + Sync;
type OnWait = dyn Fn() -> WaitGuard + Send + Sync;
type OnPause = dyn Fn(Duration, &str) + Send + Sync;

impl Listener {
    /// No callbacks.
    pub const NONE: Listener = Listener {
        on_text: None,
        on_restart: None,
        on_activity: None,
        on_usage: None,
        on_wait: None,
        on_pause: None,
        on_cache_ready: None,
    };

    /// A listener that is called with each piece of text.
    pub fn new(on_text: impl Fn(&str) + Send + Sync + 'static) -> Listener {
        Listener {
            on_text: Some(Arc::new(on_text)),
            ..Listener::NONE
        }
    }

    /// Adds a callback for the begin of another attempt: the text starts again.
    #[must_use]
    pub fn with_restart(self, on_restart: impl Fn() + Send + Sync + 'static) -> Listener {
        Listener {
            on_restart: Some(Arc::new(on_restart)),
            ..self
        }
    }

    /// Adds a callback for any received data: text, reasoning, tool calls, pings.
    #[must_use]
    pub fn with_activity(self, on_activity: impl Fn() + Send + Sync + 'static) -> Listener {
        Listener {
            on_activity: Some(Arc::new(on_activity)),
            ..self
        }
    }

    /// Adds a callback for usage that is paid for in addition to the reply, with the name of the
    /// fallback that caused it, if any.
    #[must_use]
    pub fn with_usage(
        self,
        on_usage: impl Fn(Usage, Option<Arc<str>>) + Send + Sync + 'static,
    ) -> Listener {
        Listener {
            on_usage: Some(Arc::new(on_usage)),
            ..self
        }
    }

    /// Adds a callback for the begin of a wait at the provider. Its guard is kept until the wait is
    /// over or cancelled.
    #[must_use]
    pub fn with_wait_guard(
        self,
        on_wait: impl Fn() -> WaitGuard + Send + Sync + 'static,
    ) -> Listener {
        Listener {
            on_wait: Some(Arc::new(on_wait)),
            ..self
        }
    }

    /// Adds a callback for the begin of a pause before a request to the provider, with its length
    /// at most and its reason.
    #[must_use]
    pub fn with_pause(self, on_pause: impl Fn(Duration, &str) + Send + Sync + 'static) -> Listener {
        Listener {
            on_pause: Some(Arc::new(on_pause)),
            ..self
        }
    }

    /// Adds a callback for the end of a wait for the provider's cache.
    #[must_use]
    pub fn with_cache_ready(self, on_cache_ready: impl Fn() + Send + Sync + 'static) -> Listener {
        Listener {
            on_cache_ready: Some(Arc::new(on_cache_ready)),
            ..self
        }
    }

    /// Filters each piece of text with a function, which returns the text to pass on. `restart` is
    /// called before the text starts again.
    #[must_use]
    pub(crate) fn with_text_filter(
        self,
        pass: impl Fn(&str) -> String + Send + Sync + 'static,
        restart: impl Fn() + Send + Sync + 'static,
    ) -> Listener {
        let Some(on_text) = self.on_text.clone() else {
            return self;
        };
        let passed: Arc<OnText> = Arc::new(move |piece| match pass(piece) {
            text if text.is_empty() => {}
            text => on_text(&text),
        });
        let on_restart = self.on_restart.clone();
        let restarted: Arc<OnActivity> = Arc::new(move || {
            restart();
            if let Some(on_restart) = &on_restart {
                on_restart();
            }
        });
        Listener {
            on_text: Some(passed),
            on_restart: Some(restarted),
            ..self
        }
    }

    #[must_use]
    pub(crate) fn usage_only(&self) -> Listener {
        Listener {
            on_usage: self.on_usage.clone(),
            ..Listener::NONE
        }
    }

    /// The listener for a fallback: usage is reported with its name.
    #[must_use]
    pub(super) fn for_fallback(self, name: Arc<str>) -> Listener {
        match self.on_usage.clone() {
            Some(on_usage) => self.with_usage(move |usage, fallback| {
                // A nested chain has already set it.
                on_usage(usage, fallback.or_else(|| Some(name.clone())));
            }),
            None => self,
        }
    }

    /// Reports usage that is paid for in addition to the reply, even if there is none.
    pub fn report_usage(&self, usage: Usage, fallback: Option<Arc<str>>) {
        if let Some(on_usage) = &self.on_usage {
            on_usage(usage, fallback);
        }
    }

    /// Reports the begin of a wait, which ends when the guard is dropped.
    pub fn begin_wait(&self) -> Option<WaitGuard> {
        self.on_wait.as_ref().map(|on_wait| on_wait())
    }

    /// Reports the begin of a pause before a request to the provider.
    pub fn report_pause(&self, pause: Duration, reason: &str) {
        if let Some(on_pause) = &self.on_pause {
            on_pause(pause, reason);
        }
    }

    /// Reports that a wait for the provider's cache is over.
    pub fn report_cache_ready(&self) {
        if let Some(on_cache_ready) = &self.on_cache_ready {
            on_cache_ready();
        }
    }

    /// Reports a piece of text.
    pub fn report_text(&self, piece: &str) {
        self.report_activity();
        if let Some(on_text) = &self.on_text {
            on_text(piece);
        }
    }

    /// Reports that another attempt begins, with its wait: the text starts again.
    pub fn report_restart(&self) {
        if let Some(on_restart) = &self.on_restart {
            on_restart();
        }
    }

    /// Reports received data.
    pub fn report_activity(&self) {
        if let Some(on_activity) = &self.on_activity {
            on_activity();
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
