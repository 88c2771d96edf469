//! The extensions of a program in Rust: agent kinds, tools, language models.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ractor::Actor;
use unisono_model::language::LanguageModel;

use crate::agent::{ActorAgent, Agent, AnyAgent, Msg, Stop};
use crate::mcp::ToolOffer;
use crate::tool::{AnyTool, Tool};

/// The extensions of a program in Rust, by name: agent kinds, tools, language models. A later
/// extension replaces an earlier one with the same name.
#[derive(Clone, Default)]
pub struct Extensions {
    kinds: BTreeMap<String, RegisteredKind>,
    tools: BTreeMap<Arc<str>, Arc<dyn AnyTool>>,
    models: BTreeMap<Arc<str>, Arc<dyn LanguageModel>>,
}

/// The implementation of a kind, and the part of it that must be stopped.
#[derive(Clone)]
struct RegisteredKind {
    agent: Arc<dyn AnyAgent>,
    stop: Option<Arc<dyn Stop>>,
}

impl Extensions {
    /// Adds an agent for definitions of this `kind`.
    #[must_use]
    pub fn agent(mut self, kind: impl Into<String>, agent: impl Agent) -> Extensions {
        let agent = Arc::new(agent);
        self.kinds
            .insert(kind.into(), RegisteredKind { agent, stop: None });
        self
    }

    /// Adds an actor for definitions of this `kind`: `make` returns it and its arguments. It is
    /// started with the first task, and again after it has ended; it receives [`Msg`], and is stopped
    /// with the runtime. Each runtime has its own.
    #[must_use]
    pub fn actor<A>(
        mut self,
        kind: impl Into<String>,
        make: impl Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Extensions
    where
        A: Actor<Msg = Msg>,
    {
        let kind = kind.into();
        let agent = Arc::new(ActorAgent::new(kind.as_str().into(), make));
        let stop: Option<Arc<dyn Stop>> = Some(agent.clone());
        self.kinds.insert(kind, RegisteredKind { agent, stop });
        self
    }

    /// Adds a tool for agents that list it among their `tools`.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Extensions {
        self.tools.insert(tool.spec().name, Arc::new(tool));
        self
    }

    /// Adds a language model as `provider/model`. The provider must not be a configured one.
    #[must_use]
    pub fn model(
        mut self,
        name: impl Into<Arc<str>>,
        model: impl LanguageModel + 'static,
    ) -> Extensions {
        self.models.insert(name.into(), Arc::new(model));
        self
    }

    /// The names of the kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// The names of the tools.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(|name| &**name)
    }

    /// The models, by name.
    pub fn models(&self) -> &BTreeMap<Arc<str>, Arc<dyn LanguageModel>> {
        &self.models
    }

    /// The specifications and contracts of the tools.
    pub fn offers(&self) -> Vec<ToolOffer> {
        self.tools.values().map(|tool| tool.offer()).collect()
    }

    /// The same extensions for one runtime, which shares no actor with another one.
    pub(crate) fn with_own_actors(mut self) -> Extensions {
        for kind in self.kinds.values_mut() {
            let own = kind.stop.as_ref().map(|stop| stop.unstarted());
            if let Some((agent, stop)) = own {
                let stop = Some(stop);
                *kind = RegisteredKind { agent, stop };
            }
        }
        self
    }

    pub(crate) fn kind(&self, kind: &str) -> Option<Arc<dyn AnyAgent>> {
        Some(self.kinds.get(kind)?.agent.clone())
    }

    pub(crate) fn tool_named(&self, name: &str) -> Option<Arc<dyn AnyTool>> {
        self.tools.get(name).cloned()
    }

    pub(crate) async fn stop(&self) {
        for stop in self.kinds.values().filter_map(|kind| kind.stop.as_ref()) {
            stop.stop().await;
        }
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions")
            .field("kinds", &self.kinds.keys())
            .field("tools", &self.tools.keys())
            .field("models", &self.models.keys())
            .finish()
    }
}
