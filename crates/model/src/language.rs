//! The runtime's interface to a language model: a request in, a reply or an error out.
//!
//! A [`Request`] is complete in itself and cheap to clone: the context is shared, the rest is the
//! agent's own. The [`Extractive`] model answers from it without a network; [`Models`] finds the
//! model that an agent's definition names.

mod error;
mod extractive;
mod fallback;
pub(crate) mod recent;
mod request;
#[cfg(any(test, feature = "test-util"))]
pub mod scripted;
mod stop_texts;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use unisono_context::{Cost, Tokens};

use crate::extractive::EXTRACTIVE;
use crate::media::Accepts;
use crate::prompt::{self, Prefix, Shared};

pub use error::{Class, Error, Stage};
pub use extractive::Extractive;
pub use fallback::Fallback;
pub use request::{Colleague, Exchange, Listener, Request, WaitGuard};
pub use stop_texts::complete_up_to_stop;
pub use unisono_context::call::{
    CacheWarm, FallbackUsed, Reply, Sent, Stop, ToolCall, ToolResult, Usage,
};

/// The window of a model without one in the catalogue.
pub const ASSUMED_WINDOW: Tokens = Tokens(128_000);
/// The maximum output of a model without one in the catalogue.
pub const ASSUMED_MAX_OUTPUT: Tokens = Tokens(8_192);

/// A pending reply. Dropping it cancels the request.
pub type Completion<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

/// A pending count. Dropping it cancels it.
pub type Counting<'a> = Pin<Box<dyn Future<Output = Result<Option<Tokens>, Error>> + Send + 'a>>;

/// A request that is being fitted to another model. Dropping it cancels this.
pub type Fitting<'a> = Pin<Box<dyn Future<Output = Result<Request, Error>> + Send + 'a>>;

/// A language model, for any number of concurrent requests.
///
/// ```
/// use unisono_model::language::{Completion, LanguageModel, Reply, Request};
///
/// struct Echo;
///
/// impl LanguageModel for Echo {
///     fn complete(&self, request: Request) -> Completion<'_> {
///         Box::pin(async move { Ok(Reply::text(&*request.task)) })
///     }
/// }
/// assert!(Echo.window().0 > 0);
/// ```
///
/// An async function, or a closure that returns a future, is a language model as well:
///
/// ```
/// use unisono_model::language::{Error, Models, Reply, Request};
///
/// async fn echo(request: Request) -> Result<Reply, Error> {
///     Ok(Reply::text(request.task))
/// }
/// let models = Models::default().with("own/echo", echo);
/// assert!(models.get("own/echo").is_ok());
/// ```
pub trait LanguageModel: Send + Sync {
    /// Renders the shared part of a group's requests in this model's format. The same input gives
    /// the same bytes on every machine and after every restart.
    fn render(&self, shared: &Shared<'_>) -> Prefix {
        prompt::render(shared.snapshot, shared.group)
    }

    /// Answers a request whose prefix this model has rendered. The [`Class`] of an error decides
    /// about fallbacks and further attempts.
    fn complete(&self, request: Request) -> Completion<'_>;

    /// The context window, input and output together, of a model that the program registers. The
    /// windows of other models are in the catalogue.
    fn window(&self) -> Tokens {
        ASSUMED_WINDOW
    }

    /// The maximum output of a model that the program registers.
    fn max_output(&self) -> Tokens {
        ASSUMED_MAX_OUTPUT
    }

    /// The attachments that it takes. It gets notes of all others.
    fn accepts(&self) -> Accepts {
        Accepts::default()
    }

    /// The body of a request in its two pieces: exactly the bytes that [`LanguageModel::complete`]
    /// sends. `None` for a model that sends nothing.
    fn body(&self, _request: &Request) -> Option<[Bytes; 2]> {
        None
    }

    /// The maximum cost of a call with these input and output tokens; `None` if a price is unknown: a
    /// cost budget then refuses the call.
    fn worst_cost(&self, _input: Tokens, _output: Tokens) -> Option<Cost> {
        None
    }

    /// Fits a request for another model, with a prefix of this one, to this model: reduces the
    /// maximum output to the model's limit. [`Class::Overflow`] if the model's window is too small.
    fn fit(&self, request: Request) -> Fitting<'_> {
        Box::pin(async { Ok(request) })
    }

    /// The first model, if this is a chain of fallbacks.
    fn without_fallbacks(&self) -> Option<Arc<dyn LanguageModel>> {
        None
    }

    /// Asks the provider for the tokens of a request; `None` if it cannot count.
    fn count(&self, _request: Request) -> Counting<'_> {
        Box::pin(async { Ok(None) })
    }
}

impl<F, Replying> LanguageModel for F
where
    F: Fn(Request) -> Replying + Send + Sync,
    Replying: Future<Output = Result<Reply, Error>> + Send + 'static,
{
    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(self(request))
    }
}

/// There is no client for a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no client for model `{name}`; this program can use: {known}")]
pub struct UnknownModel {
    /// The requested name.
    pub name: Arc<str>,
    /// The available models.
    pub known: Arc<str>,
}

/// Makes a model for any name.
pub type ModelFactory = dyn Fn(&str) -> Arc<dyn LanguageModel> + Send + Sync;

/// The available models, by their names in definitions.
#[derive(Clone)]
pub struct Models {
    known: BTreeMap<Arc<str>, Arc<dyn LanguageModel>>,
    factory: Option<Arc<ModelFactory>>,
}

impl Models {
    /// Makes all other models on demand, including those of turns that began under other settings.
    /// The factory caches its models.
    #[must_use]
    pub fn with_factory(
        mut self,
        factory: impl Fn(&str) -> Arc<dyn LanguageModel> + Send + Sync + 'static,
    ) -> Models {
        self.factory = Some(Arc::new(factory));
        self
    }

    /// Adds a model as `provider/model`. It replaces an earlier one of the same name.
    #[must_use]
    pub fn with(self, name: impl Into<Arc<str>>, model: impl LanguageModel + 'static) -> Models {
        self.with_shared(name, Arc::new(model))
    }

    /// Adds a shared model.
    #[must_use]
    pub fn with_shared(
        mut self,
        name: impl Into<Arc<str>>,
        model: Arc<dyn LanguageModel>,
    ) -> Models {
        self.known.insert(name.into(), model);
        self
    }

    /// The model of that name.
    pub fn get(&self, name: &str) -> Result<Arc<dyn LanguageModel>, UnknownModel> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let made = self.factory.as_ref().map(|make| make(name));
        made.ok_or_else(|| UnknownModel {
            name: name.into(),
            known: self
                .known
                .keys()
                .map(|name| &**name)
                .collect::<Vec<_>>()
                .join(", ")
                .into(),
        })
    }
}

/// Only the embedded model.
impl Default for Models {
    fn default() -> Models {
        let none = Models {
            known: BTreeMap::new(),
            factory: None,
        };
        none.with(EXTRACTIVE, Extractive)
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.known.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
