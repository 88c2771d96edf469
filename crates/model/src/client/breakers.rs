//! The breakers of one provider: one for the provider itself, and one for each model that fails
//! there. A failing model does not delay other models.
//!
//! A failed connection means that the provider is unreachable. A refused API key may be refused for
//! one model only: it counts against the provider from the second model on.
//!
//! Times are durations since a fixed start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::breaker::{Breaker, Pass, Policy, Refused, Verdict};
use crate::dialect::Failure;
use crate::language::Class;

/// Beyond so many models, those that are not left alone are forgotten.
const MOST_MODELS: usize = 256;
/// What comes before the words of the last failure.
pub(super) const LAST: &str = "; it failed last with: ";
/// How long a request that tries whether the provider is back takes to say so.
const PROBED: Duration = Duration::from_secs(1);

/// All breakers of one provider.
#[derive(Clone, Debug)]
pub struct Breakers {
    policy: Policy,
    provider: Watched,
    /// Those that have failed once.
    models: BTreeMap<Arc<str>, Watched>,
    /// The models for which the key was refused since a request was answered.
    key_refused: BTreeSet<Arc<str>>,
}

/// A breaker, and what it saw fail last.
#[derive(Clone, Debug)]
struct Watched {
    breaker: Breaker,
    last: Option<Failure>,
}

/// How a request was let through, by its provider and by its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// By the provider's breaker.
    pub provider: Pass,
    /// By that of the model.
    pub model: Pass,
}

impl Passes {
    /// Like any other.
    pub const ORDINARY: Passes = Passes {
        provider: Pass::Ordinary,
        model: Pass::Ordinary,
    };

    /// Whether it is to show that something is back.
    pub fn is_probe(&self) -> bool {
        *self != Passes::ORDINARY
    }
}

impl Breakers {
    /// Closed ones.
    pub fn new(policy: Policy) -> Breakers {
        Breakers {
            policy,
            provider: Watched::new(policy),
            models: BTreeMap::new(),
            key_refused: BTreeSet::new(),
        }
    }

    /// Whether a request to that model would be let through now.
    ///
    /// # Errors
    /// The provider or the model is left alone: since when, and what it failed with last. That may
    /// hold what the provider said, keys included.
    pub fn check(&self, now: Duration, model: &Arc<str>) -> Result<(), Failure> {
        self.provider.check(now, "the provider")?;
        match self.models.get(model) {
            Some(watched) => watched.check(now, &format!("model `{model}`")),
            None => Ok(()),
        }
    }

    /// Lets a request through or not. Each pass is reported back.
    ///
    /// # Errors
    /// As [`Breakers::check`].
    pub fn admit(&mut self, now: Duration, model: &Arc<str>) -> Result<Passes, Failure> {
        self.check(now, model)?;
        // Both would let it through: neither refuses now.
        let admit = |watched: &mut Watched| watched.breaker.admit(now).unwrap_or(Pass::Ordinary);
        Ok(Passes {
            provider: admit(&mut self.provider),
            model: self.models.get_mut(model).map_or(Pass::Ordinary, admit),
        })
    }

    /// The answer to an attempt has begun, or has come.
    pub fn answered(&mut self, now: Duration, model: &Arc<str>, passes: Passes) {
        self.provider.report(now, passes.provider, Verdict::Answers);
        self.report(now, model, passes, Verdict::Answers);
        self.key_refused.clear();
    }

    /// An attempt was given up.
    pub fn abandoned(&mut self, now: Duration, model: &Arc<str>, passes: Passes) {
        self.provider.report(now, passes.provider, Verdict::Unknown);
        self.report(now, model, passes, Verdict::Unknown);
    }

    /// An attempt has failed. `reached`: a connection to the provider was made.
    pub fn failed(
        &mut self,
        now: Duration,
        model: &Arc<str>,
        passes: Passes,
        failure: &Failure,
        reached: bool,
    ) {
        let (provider, own) = self.verdicts(model, failure.class, reached);
        self.provider.report(now, passes.provider, provider);
        if provider == Verdict::Fails {
            self.provider.last = Some(failure.clone());
        }
        if own == Verdict::Fails {
            self.watch(now, model).last = Some(failure.clone());
        }
        self.report(now, model, passes, own);
    }

    /// Another program has left a model alone for so much longer.
    pub fn hold(&mut self, now: Duration, model: &Arc<str>, wait: Duration) {
        let watched = self.watch(now, model);
        watched.breaker.hold(now, wait);
        let class = Class::Unavailable {
            retry_after_ms: None,
        };
        watched
            .last
            .get_or_insert_with(|| Failure::new(class, "errors that another daemon met"));
    }

    /// How much longer a model is left alone; none: it is not, or a request tries whether it is back.
    pub fn left_alone(&self, now: Duration, model: &Arc<str>) -> Option<Duration> {
        let refused = self.models.get(model)?.breaker.check(now).err()?;
        Some(refused.left).filter(|left| !left.is_zero())
    }

    fn report(&mut self, now: Duration, model: &Arc<str>, passes: Passes, verdict: Verdict) {
        if let Some(watched) = self.models.get_mut(model) {
            watched.report(now, passes.model, verdict);
        }
    }

    /// The breaker of a model. Where there are too many, those that let requests through are
    /// forgotten.
    fn watch(&mut self, now: Duration, model: &Arc<str>) -> &mut Watched {
        if self.models.len() >= MOST_MODELS && !self.models.contains_key(model) {
            self.models
                .retain(|_, other| other.breaker.check(now).is_err());
        }
        let new = || Watched::new(self.policy);
        self.models.entry(model.clone()).or_insert_with(new)
    }

    /// What a failure says of the provider, and of the model.
    fn verdicts(&mut self, model: &Arc<str>, class: Class, reached: bool) -> (Verdict, Verdict) {
        if !reached {
            return (Verdict::Fails, Verdict::Unknown);
        }
        match Verdict::of(class) {
            _ if class == Class::Unauthorised => {
                if self.key_refused.len() < MOST_MODELS {
                    self.key_refused.insert(model.clone());
                }
                match self.key_refused.len() {
                    0 | 1 => (Verdict::Unknown, Verdict::Fails),
                    _ => (Verdict::Fails, Verdict::Fails),
                }
            }
            Verdict::Answers => {
                self.key_refused.clear();
                (Verdict::Answers, Verdict::Answers)
            }
            // A status is an answer of the provider's; silence and broken streams say nothing of it.
            Verdict::Fails if matches!(class, Class::Unavailable { .. }) => {
                (Verdict::Answers, Verdict::Fails)
            }
            own @ (Verdict::Fails | Verdict::Unknown) => (Verdict::Unknown, own),
        }
    }
}

impl Watched {
    fn new(policy: Policy) -> Watched {
        Watched {
            breaker: Breaker::new(policy),
            last: None,
        }
    }

    fn report(&mut self, now: Duration, pass: Pass, verdict: Verdict) {
        self.breaker.report(now, pass, verdict);
    }

    fn check(&self, now: Duration, who: &str) -> Result<(), Failure> {
        let Err(Refused { left }) = self.breaker.check(now) else {
            return Ok(());
        };
        let why = self.last.as_ref().map_or("", |last| last.reason.as_str());
        // A key that is refused is no better after a wait: no caller is to wait for that.
        if self.last.as_ref().map(|last| last.class) == Some(Class::Unauthorised) {
            return Err(Failure::new(Class::Unauthorised, why));
        }
        let state = if left.is_zero() {
            format!("{who} failed too often; one request is trying whether it is back")
        } else {
            let left = left.as_secs_f64();
            format!("{who} failed too often and is left alone for {left:.1} s more")
        };
        let left = if left.is_zero() { PROBED } else { left };
        let retry_after_ms = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let reason = match why {
            "" => state,
            why => format!("{state}{LAST}{why}"),
        };
        Err(Failure::new(Class::CircuitOpen { retry_after_ms }, reason))
    }
}

#[cfg(test)]
mod tests;
