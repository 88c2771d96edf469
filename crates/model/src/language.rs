//! What a language model is to the runtime: a request in, a reply or an error out.
//!
//! A [`Request`] is complete in itself and cheap to clone: the context is shared, the rest is
//! the agent's own. The [`Extractive`] model answers from it without a network; [`Models`]
//! finds the model an agent's definition names.

mod extractive;
#[cfg(any(test, feature = "test-util"))]
pub mod scripted;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use unisono_context::{Snapshot, Tokens};

use crate::catalogue::EXTRACTIVE;
use crate::prompt::{Delegated, Persona, Prefix};

pub use extractive::Extractive;
pub use unisono_context::call::{ToolCall, ToolResult, Usage};

/// A reply that is under way. Dropping it gives the request up.
pub type Completion<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

/// A language model. One value serves any number of requests at once.
pub trait LanguageModel: Send + Sync {
    /// Answers a request.
    fn complete(&self, request: Request) -> Completion<'_>;
}

/// All that a model is asked with.
#[derive(Clone, Debug)]
pub struct Request {
    /// The rendered context, shared with the agent's siblings byte for byte.
    pub prefix: Prefix,
    /// The context as a value; none for an agent that gets its task only.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Who the model speaks for.
    pub persona: Persona,
    /// What it is to do.
    pub task: Arc<str>,
    /// For a lead: what its delegates came back with.
    pub results: Arc<[Delegated]>,
    /// What was said since: replies with tool calls, and what the tools answered.
    pub exchange: Vec<Exchange>,
    /// The longest reply.
    pub max_output: Tokens,
}

/// One move of an agent's own loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The model called tools.
    Reply(Reply),
    /// The tools answered, in the order of the calls.
    Results(Vec<ToolResult>),
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its text.
    pub text: Arc<str>,
    /// The tools it calls; none: the text is its answer.
    pub calls: Vec<ToolCall>,
    /// What it used.
    pub usage: Usage,
    /// Why it ended.
    pub stop: Stop,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The model was done, or waits for its tools.
    #[default]
    Complete,
    /// It had written all the tokens it was allowed.
    CutOff,
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The model failed.
    #[error("model {model}: {reason}")]
    Failed {
        /// The model, as definitions write it.
        model: Arc<str>,
        /// What happened.
        reason: Arc<str>,
    },
}

/// No client for a model is at hand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no client for model `{name}`; this program can use: {known}")]
pub struct UnknownModel {
    /// What was asked for.
    pub name: Arc<str>,
    /// Those at hand.
    pub known: Arc<str>,
}

/// The models this program can use, by the name definitions give them.
#[derive(Clone)]
pub struct Models(BTreeMap<Arc<str>, Arc<dyn LanguageModel>>);

impl Models {
    /// Adds a model, as `provider/model`. A later one of the same name wins.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<Arc<str>>,
        model: impl LanguageModel + 'static,
    ) -> Models {
        self.0.insert(name.into(), Arc::new(model));
        self
    }

    /// The model of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<Arc<dyn LanguageModel>, UnknownModel> {
        self.0.get(name).cloned().ok_or_else(|| UnknownModel {
            name: name.into(),
            known: self.names().collect::<Vec<_>>().join(", ").into(),
        })
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }
}

/// The embedded model alone.
impl Default for Models {
    fn default() -> Models {
        Models(BTreeMap::new()).with(EXTRACTIVE, Extractive)
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
