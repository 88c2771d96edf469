//! The runtime's interface to a language model: a request in, a reply or an error out.
//!
//! A [`Request`] is complete in itself and cheap to clone: the context is shared, the rest is the
//! agent's own. The [`Extractive`] model answers from it without a network; [`Models`] finds the
//! model that an agent's definition names.

mod error;
mod extractive;
mod fallback;
mod recent;
pub mod remote;
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

use crate::catalogue::{ASSUMED_MAX_OUTPUT, ASSUMED_WINDOW, EXTRACTIVE};
use crate::prompt::{self, Prefix, Shared};

pub use error::{Class, Error, Stage};
pub use extractive::Extractive;
pub use fallback::Fallback;
pub use remote::Remote;
pub use request::{Colleague, Exchange, Listener, Request, Waits};
pub use stop_texts::complete_up_to_stop;
pub use unisono_context::call::{
    CacheWarm, FallbackUsed, Reply, Sent, Stop, ToolCall, ToolResult, Usage,
};

/// A reply that is under way. Dropping it gives the request up.
pub type Completion<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

/// A count that is under way. Dropping it gives it up.
pub type Counting<'a> = Pin<Box<dyn Future<Output = Result<Option<Tokens>, Error>> + Send + 'a>>;

/// A request that is being fitted to another model. Dropping it gives it up.
pub type Fitting<'a> = Pin<Box<dyn Future<Output = Result<Request, Error>> + Send + 'a>>;

/// A language model. One value serves any number of requests at once.
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
pub trait LanguageModel: Send + Sync {
    /// Renders what the runs of a group share, as this model reads it. The same input gives the
    /// same bytes on every machine and after every restart.
    fn render(&self, shared: &Shared<'_>) -> Prefix {
        prompt::render(shared.snapshot, shared.group)
    }

    /// Answers a request, whose prefix this model has rendered.
    fn complete(&self, request: Request) -> Completion<'_>;

    /// Its context window, input and output together, where it is a model of the program itself. Of
    /// others the catalogue has it.
    fn window(&self) -> Tokens {
        ASSUMED_WINDOW
    }

    /// Its longest reply, where it is a model of the program itself.
    fn max_output(&self) -> Tokens {
        ASSUMED_MAX_OUTPUT
    }

    /// The body that a request is sent as, its two pieces one after the other: what
    /// [`LanguageModel::complete`] sends, byte for byte. None for a model that sends nothing.
    fn body(&self, _request: &Request) -> Option<[Bytes; 2]> {
        None
    }

    /// The most that a call with so many tokens in and out can cost; none: a price is not known.
    fn worst_cost(&self, _input: Tokens, _output: Tokens) -> Option<Cost> {
        None
    }

    /// A request that was meant for another model, with a prefix of this one's, as this one can
    /// take it: it asks for no more output than the model can give. [`Class::Overflow`] where the
    /// model's window is too small for what it holds.
    fn fit(&self, request: Request) -> Fitting<'_> {
        Box::pin(async { Ok(request) })
    }

    /// The first of them, where several stand in for each other behind this one.
    fn alone(&self) -> Option<Arc<dyn LanguageModel>> {
        None
    }

    /// Asks the provider how many tokens a request has; none where it cannot say.
    fn count(&self, _request: Request) -> Counting<'_> {
        Box::pin(async { Ok(None) })
    }
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

/// Makes the model of a name, whatever the name.
pub type Maker = dyn Fn(&str) -> Arc<dyn LanguageModel> + Send + Sync;

/// The models this program can use, by the name definitions give them.
#[derive(Clone)]
pub struct Models {
    known: BTreeMap<Arc<str>, Arc<dyn LanguageModel>>,
    maker: Option<Arc<Maker>>,
}

impl Models {
    /// Has every other model made when it is asked for: those of turns that began under settings
    /// of another day too. The maker keeps what it made.
    #[must_use]
    pub fn made_by(
        mut self,
        maker: impl Fn(&str) -> Arc<dyn LanguageModel> + Send + Sync + 'static,
    ) -> Models {
        self.maker = Some(Arc::new(maker));
        self
    }

    /// Adds a model, as `provider/model`. A later one of the same name wins.
    #[must_use]
    pub fn with(self, name: impl Into<Arc<str>>, model: impl LanguageModel + 'static) -> Models {
        self.with_shared(name, Arc::new(model))
    }

    /// Adds a model that others hold too.
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
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<Arc<dyn LanguageModel>, UnknownModel> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let made = self.maker.as_ref().map(|make| make(name));
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

/// The embedded model alone.
impl Default for Models {
    fn default() -> Models {
        let none = Models {
            known: BTreeMap::new(),
            maker: None,
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
