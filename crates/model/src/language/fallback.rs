//! A chain of models behind one: if the first cannot answer, the next is asked.
//!
//! Only failures that another provider may not have are passed on: a request that is wrong, too
//! long or refused would fail elsewhere too. The fallback gets a prefix in its own dialect,
//! rendered once for all requests that share it, and a maximum output within its limit. No model
//! gets the signed or encrypted reasoning of another one. A fallback whose window is too small is
//! skipped.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use unisono_context::digest::Hasher;
use unisono_context::{Cost, Digest, Tokens};

use super::recent::Recent;
use super::{
    Class, Completion, Counting, Error, FallbackUsed, Fitting, LanguageModel, Request, Sent,
};
use crate::media::Accepts;
use crate::prompt::{Prefix, Shared};

/// The number of cached prefixes of fallbacks.
const PREFIXES: usize = 16;

/// A model of the chain and its name, as in definitions.
type Link = (Arc<str>, Arc<dyn LanguageModel>);

/// The key of a fallback's prefix: the digest of all that it is rendered from, and the fallback's
/// index.
type Rendering = (Digest, usize);

/// A model and its fallbacks.
pub struct Fallback {
    first: Link,
    others: Vec<Link>,
    prefixes: Mutex<Recent<Rendering, Arc<OnceLock<Prefix>>>>,
}

impl Fallback {
    /// A chain of only this model.
    pub fn new(name: impl Into<Arc<str>>, model: Arc<dyn LanguageModel>) -> Fallback {
        Fallback {
            first: (name.into(), model),
            others: Vec::new(),
            prefixes: Mutex::new(Recent::new(PREFIXES)),
        }
    }

    /// Adds a fallback, which is asked if all earlier models failed.
    #[must_use]
    pub fn or(mut self, name: impl Into<Arc<str>>, model: Arc<dyn LanguageModel>) -> Fallback {
        self.others.push((name.into(), model));
        self
    }

    async fn ask(&self, original: Request) -> Result<super::Reply, Error> {
        let first = original.clone().without_foreign_reasoning(None);
        let mut failed = match self.first.1.complete(first).await {
            Ok(reply) => return Ok(reply),
            Err(error) if !may_fall_back(error.class) || is_reservation_used(&original, &error) => {
                return Err(error);
            }
            Err(error) => vec![error],
        };
        for (at, (name, model)) in self.others.iter().enumerate() {
            if let Some(error) = failed.last() {
                tracing::warn!(%error, next = %name, "falling back to the next model");
            }
            original.listener.report_restart();
            let request = Request {
                prefix: self.prefix(at, model.as_ref(), &original),
                listener: original.listener.clone().for_fallback(name.clone()),
                ..original.clone().without_foreign_reasoning(Some(&**name))
            };
            match ask_fallback(name, model.as_ref(), request).await {
                Ok(reply) => return Ok(reply),
                Err(error) => {
                    // A request that is too long for a fallback may fit the next one.
                    let too_long = matches!(error.class, Class::Overflow { .. });
                    let ends = is_reservation_used(&original, &error)
                        || (!too_long && !may_fall_back(error.class));
                    failed.push(error);
                    if ends {
                        break;
                    }
                }
            }
        }
        Err(combined_error(failed, &self.first.0))
    }

    /// The request's prefix as rendered by a fallback.
    fn prefix(&self, at: usize, model: &dyn LanguageModel, request: &Request) -> Prefix {
        let key = (rendered_parts(request), at);
        let slot = {
            let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
            prefixes.get_or(key, Arc::default)
        };
        slot.get_or_init(|| model.render(&request.shared())).clone()
    }
}

impl LanguageModel for Fallback {
    fn render(&self, shared: &Shared<'_>) -> Prefix {
        self.first.1.render(shared)
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(self.ask(request))
    }

    /// The first model's body; a fallback renders another one.
    fn body(&self, request: &Request) -> Option<[Bytes; 2]> {
        let request = request.clone().without_foreign_reasoning(None);
        self.first.1.body(&request)
    }

    /// The attachments that any of the models takes, since any of them may answer.
    fn accepts(&self) -> Accepts {
        let all = std::iter::once(&self.first).chain(&self.others);
        let each = all.map(|(_, model)| model.accepts());
        each.fold(Accepts::default(), |all, one| Accepts {
            images: all.images || one.images,
            documents: all.documents || one.documents,
        })
    }

    /// The cost of the most expensive model: any of them may answer.
    fn worst_cost(&self, input: Tokens, output: Tokens) -> Option<Cost> {
        let all = std::iter::once(&self.first).chain(&self.others);
        let costs = all.map(|(_, model)| model.worst_cost(input, output));
        let costs: Option<Vec<Cost>> = costs.collect();
        costs?.into_iter().max()
    }

    fn fit(&self, request: Request) -> Fitting<'_> {
        self.first.1.fit(request)
    }

    fn without_fallbacks(&self) -> Option<Arc<dyn LanguageModel>> {
        Some(self.first.1.clone())
    }

    /// The first model's count: the others may never be asked.
    fn count(&self, request: Request) -> Counting<'_> {
        self.first.1.count(request.without_foreign_reasoning(None))
    }
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = std::iter::once(&self.first).chain(&self.others);
        f.debug_list().entries(names.map(|(name, _)| name)).finish()
    }
}

/// The digest of all that a prefix is rendered from. The first model's prefix does not suffice: some
/// dialects have the output schema in their tails, and the native rendering has no tools.
fn rendered_parts(request: &Request) -> Digest {
    let mut parts = Hasher::new("unisono/fallback", 1);
    parts
        .digest(&request.prefix.digest())
        .opt_str(request.output_schema.as_deref())
        .u64(request.tools.len() as u64);
    for tool in request.tools.iter() {
        parts
            .str(&tool.name)
            .str(&tool.description)
            .str(&tool.input_schema);
    }
    if let Some(context) = request.shared().context() {
        parts.digest(&context.id().0);
    }
    parts.finish()
}

/// Asks a fallback within its limits. Its reply contains the sent prefix and maximum output.
async fn ask_fallback(
    name: &Arc<str>,
    model: &dyn LanguageModel,
    request: Request,
) -> Result<super::Reply, Error> {
    let request = model.fit(request).await?;
    let sent = Sent {
        prefix: request.prefix.digest(),
        max_output: request.max_output,
    };
    let mut reply = model.complete(request).await?;
    // A nested chain has already set it.
    reply.fallback.get_or_insert_with(|| FallbackUsed {
        model: name.clone(),
        sent: Some(sent),
    });
    Ok(reply)
}

/// Whether a part of the reservation for one reply is used, so that the rest may not suffice for a
/// fallback.
const fn is_reservation_used(request: &Request, error: &Error) -> bool {
    request.bounded && error.begun
}

/// Whether another provider may succeed.
const fn may_fall_back(class: Class) -> bool {
    match class {
        Class::Unauthorised
        | Class::OutOfQuota
        | Class::UnknownModel
        | Class::RateLimited { .. }
        | Class::Unavailable { .. }
        | Class::Transport
        | Class::Timeout(_)
        | Class::IncompleteStream
        | Class::CircuitOpen { .. }
        | Class::Busy => true,
        Class::Overflow { .. }
        | Class::BadRequest
        | Class::BadReply
        | Class::TooLarge
        | Class::PrefixMismatch
        | Class::Internal => false,
    }
}

/// One error for all failed models, in order. Its class is that of the first transient error, else
/// of the first model that was not asked, else of the last one; errors of too small fallbacks are
/// ignored for it.
fn combined_error(mut failed: Vec<Error>, chain: &Arc<str>) -> Error {
    if failed.len() == 1 {
        return failed.remove(0);
    }
    let reasons: Vec<String> = failed.iter().map(Error::to_string).collect();
    let transient = failed.iter().find(|error| error.class.is_transient());
    let unasked = || failed.iter().find(|error| is_unasked(error.class));
    let too_long = |error: &&Error| matches!(error.class, Class::Overflow { .. });
    let last = || failed.iter().rfind(|error| !too_long(error));
    let leading = transient.or_else(unasked).or_else(last);
    let class = leading.map_or(Class::Internal, |error| error.class);
    let pause_ms = shortest_pause(&failed);
    Error {
        model: chain.clone(),
        class: class.with_retry_after(pause_ms),
        reason: format!(
            "none of {} models answered: {}",
            failed.len(),
            reasons.join("; ")
        )
        .into(),
        request_id: leading.and_then(|error| error.request_id.clone()),
        begun: failed.iter().any(|error| error.begun),
        pause_ms,
    }
}

/// Whether no request was sent for now.
const fn is_unasked(class: Class) -> bool {
    matches!(class, Class::CircuitOpen { .. } | Class::Busy)
}

/// The time until one of the models may be asked again; none if one may be asked at once.
fn shortest_pause(failed: &[Error]) -> Option<u64> {
    let is_temporary = |error: &&Error| error.class.is_transient() || is_unasked(error.class);
    let temporary = failed.iter().filter(is_temporary);
    let pauses = temporary.map(|error| error.retry_after_ms().unwrap_or(0));
    pauses.min().filter(|pause| *pause > 0)
}

#[cfg(test)]
mod tests;
