//! The breakers of one provider: one for the provider itself, and one for each model that fails
//! there. A failing model does not delay other models.
//!
//! A failed connection means that the provider is unreachable. An API key may be refused for some
//! models only: that never delays the others.
//!
//! Times are durations since a fixed start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::breaker::{Breaker, BreakerOpen, Pass, Verdict};
use crate::dialect::Failure;
use crate::language::Class;
use crate::provider::BreakerPolicy;

/// Above this number of models, closed breakers are removed.
const MOST_MODELS: usize = 256;
/// Introduces the message of the last failure.
pub(super) const LAST_FAILURE: &str = "; it failed last with: ";
/// The wait suggested to callers while a probe is in flight.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// All breakers of one provider.
#[derive(Clone, Debug)]
pub struct Breakers {
    policy: BreakerPolicy,
    provider: TrackedBreaker,
    /// The models that have failed at least once.
    models: BTreeMap<Arc<str>, TrackedBreaker>,
}

#[derive(Clone, Debug)]
struct TrackedBreaker {
    breaker: Breaker,
    last: Option<Failure>,
}

/// How a request was admitted by the breakers of its provider and its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPasses {
    /// The provider's breaker.
    pub provider: Pass,
    /// The model's breaker.
    pub model: Pass,
}

impl BreakerPasses {
    /// A normal request.
    pub const ORDINARY: BreakerPasses = BreakerPasses {
        provider: Pass::Ordinary,
        model: Pass::Ordinary,
    };

    /// Whether it is a probe of the provider or the model.
    pub fn is_probe(&self) -> bool {
        *self != BreakerPasses::ORDINARY
    }
}

impl Breakers {
    /// Closed breakers.
    pub fn new(policy: BreakerPolicy) -> Breakers {
        Breakers {
            policy,
            provider: TrackedBreaker::new(policy),
            models: BTreeMap::new(),
        }
    }

    /// Checks whether a request to the model would be admitted now.
    ///
    /// # Errors
    /// The breaker of the provider or the model is open; the failure has the remaining time and the
    /// last failure, whose message may contain keys.
    pub fn check(&self, now: Duration, model: &Arc<str>) -> Result<(), Failure> {
        let own = self.models.get(model);
        let own = own.map_or(Ok(()), |own| own.check(now, &format!("model `{model}`")));
        match (self.provider.check(now, "the provider"), own) {
            (Err(provider), Err(own)) => Err(longer(provider, own)),
            (provider, own) => provider.and(own),
        }
    }

    /// Whether the result of a probe may admit a request to the model: each breaker that rejects it
    /// is waiting for a probe.
    pub fn is_probing(&self, now: Duration, model: &Arc<str>) -> bool {
        let own = self.models.get(model);
        let all = own.into_iter().chain([&self.provider]);
        let mut rejecting = all.filter(|tracked| tracked.breaker.check(now).is_err());
        rejecting.all(|tracked| tracked.breaker.is_probing())
    }

    /// Admits or rejects a request. The caller reports the result of each pass.
    pub fn admit(&mut self, now: Duration, model: &Arc<str>) -> Result<BreakerPasses, Failure> {
        self.check(now, model)?;
        // Both were checked, so neither rejects now.
        let admit =
            |tracked: &mut TrackedBreaker| tracked.breaker.admit(now).unwrap_or(Pass::Ordinary);
        Ok(BreakerPasses {
            provider: admit(&mut self.provider),
            model: self.models.get_mut(model).map_or(Pass::Ordinary, admit),
        })
    }

    /// The response to an attempt has begun ([`Verdict::Responds`]) or is complete.
    pub fn answered(
        &mut self,
        now: Duration,
        model: &Arc<str>,
        passes: BreakerPasses,
        verdict: Verdict,
    ) {
        self.provider.report(now, passes.provider, verdict);
        self.report(now, model, passes, verdict);
    }

    /// An attempt was abandoned.
    pub fn abandoned(&mut self, now: Duration, model: &Arc<str>, passes: BreakerPasses) {
        self.provider.report(now, passes.provider, Verdict::Unknown);
        self.report(now, model, passes, Verdict::Unknown);
    }

    /// An attempt failed. `reached`: a connection to the provider was made.
    pub fn failed(
        &mut self,
        now: Duration,
        model: &Arc<str>,
        passes: BreakerPasses,
        failure: &Failure,
        reached: bool,
    ) {
        let (provider, own) = verdicts(failure.class, reached);
        self.provider.report(now, passes.provider, provider);
        if provider == Verdict::Fails {
            self.provider.last = Some(failure.clone());
        }
        if own == Verdict::Fails {
            self.track(now, model).last = Some(failure.clone());
        }
        self.report(now, model, passes, own);
    }

    /// Pauses requests to a model as long as another program does.
    pub fn hold(&mut self, now: Duration, model: &Arc<str>, wait: Duration) {
        let watched = self.track(now, model);
        watched.breaker.hold(now, wait);
        let class = Class::UNAVAILABLE;
        watched
            .last
            .get_or_insert_with(|| Failure::new(class, "errors that another daemon met"));
    }

    /// The rest of a model's pause; none without a pause, or while a request probes the model.
    pub fn left_alone(&self, now: Duration, model: &Arc<str>) -> Option<Duration> {
        let refused = self.models.get(model)?.breaker.check(now).err()?;
        Some(refused.left).filter(|left| !left.is_zero())
    }

    fn report(&mut self, now: Duration, model: &Arc<str>, passes: BreakerPasses, verdict: Verdict) {
        if let Some(tracked) = self.models.get_mut(model) {
            tracked.report(now, passes.model, verdict);
        }
    }

    /// The breaker of a model. If there are too many, closed ones are removed.
    fn track(&mut self, now: Duration, model: &Arc<str>) -> &mut TrackedBreaker {
        if self.models.len() >= MOST_MODELS && !self.models.contains_key(model) {
            self.models
                .retain(|_, other| other.breaker.check(now).is_err());
        }
        let new = || TrackedBreaker::new(self.policy);
        self.models.entry(model.clone()).or_insert_with(new)
    }
}

/// The verdicts of a failed attempt about its provider and its model.
fn verdicts(class: Class, reached: bool) -> (Verdict, Verdict) {
    if !reached {
        return (Verdict::Fails, Verdict::Unknown);
    }
    match Verdict::from_class(class) {
        // A status is an answer of the provider; silence and broken streams tell nothing about it.
        _ if matches!(class, Class::Unauthorised | Class::Unavailable { .. }) => {
            (Verdict::Answers, Verdict::Fails)
        }
        Verdict::Answers | Verdict::Responds => (Verdict::Answers, Verdict::Answers),
        own @ (Verdict::Fails | Verdict::Unknown) => (Verdict::Unknown, own),
    }
}

/// The failure with the longer pause. The pause of a refused key has no end.
fn longer(a: Failure, b: Failure) -> Failure {
    let pause = |failure: &Failure| failure.class.retry_after_ms().unwrap_or(u64::MAX);
    if pause(&b) > pause(&a) { b } else { a }
}

impl TrackedBreaker {
    fn new(policy: BreakerPolicy) -> TrackedBreaker {
        TrackedBreaker {
            breaker: Breaker::new(policy),
            last: None,
        }
    }

    fn report(&mut self, now: Duration, pass: Pass, verdict: Verdict) {
        self.breaker.report(now, pass, verdict);
    }

    fn check(&self, now: Duration, who: &str) -> Result<(), Failure> {
        let Err(BreakerOpen { left }) = self.breaker.check(now) else {
            return Ok(());
        };
        let why = self.last.as_ref().map_or("", |last| last.reason.as_str());
        // A refused key stays refused, so no caller should wait.
        if self.last.as_ref().map(|last| last.class) == Some(Class::Unauthorised) {
            return Err(Failure::new(Class::Unauthorised, why));
        }
        let state = if left.is_zero() {
            format!("{who} failed too often; one request is testing whether it is available again")
        } else {
            let left = left.as_secs_f64();
            format!("{who} failed too often; requests to it are paused for {left:.1} s more")
        };
        let left = if left.is_zero() { PROBE_WAIT } else { left };
        let retry_after_ms = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let reason = match why {
            "" => state,
            why => format!("{state}{LAST_FAILURE}{why}"),
        };
        Err(Failure::new(Class::CircuitOpen { retry_after_ms }, reason))
    }
}

#[cfg(test)]
mod tests;
