//! Whether a request to a provider may be sent now: breakers, cool-down and limits together.
//!
//! A request calls [`Gate::step`] until it may be sent or is refused, and waits in between: for a
//! time, or until something is released. A request that stops waiting leaves its place in the
//! queue.
//!
//! Times are durations since a fixed start.

use std::sync::Arc;
use std::time::Duration;

use super::breaker::Verdict;
use super::breakers::{BreakerPasses, Breakers};
use super::cooldown::CoolDown;
use super::headers::ResponseHeaders;
use super::limits::{RateLimiter, Ticket, Wait};
use super::retry;
use super::share::ProviderPause;
use crate::dialect::Failure;
use crate::language::Class;
use crate::provider::{BreakerPolicy, Limits, RetryPolicy};

/// The maximum wait for the result of another request's probe. A longer wait would delay fallbacks.
const MAX_PROBE_WAIT: Duration = Duration::from_secs(5);

/// The state that all requests to one provider share.
#[derive(Clone, Debug)]
pub struct Gate {
    breakers: Breakers,
    cool_down: CoolDown,
    rate_limiter: RateLimiter,
    longest_hold: Duration,
    /// The cool-down after a refusal without a time.
    shortest_hold: Duration,
}

/// A request that waits for admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionRequest {
    /// The model's name at its provider.
    pub model: Arc<str>,
    /// Its tokens, input and maximum output.
    pub tokens: u64,
    /// Its place in the queue, if it has one.
    pub ticket: Option<Ticket>,
    /// The remaining maximum wait.
    pub patience: Duration,
    /// The time that it has waited for the results of probes.
    pub probe_wait: Duration,
}

/// An admitted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// Its model.
    pub model: Arc<str>,
    /// How the breakers admitted it.
    pub passes: BreakerPasses,
    /// The tokens it took from the limit.
    pub taken: u64,
}

/// The next action of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is sent.
    Go(BreakerPasses),
    /// It waits for this time and checks again.
    Wait(Duration),
    /// It is queued: it waits for this time or until a release, and checks again.
    Queued(Ticket, Duration),
    /// Another request tests whether the model is available again: it waits for the result, at most
    /// for this time, and checks again.
    AwaitProbe(Duration),
    /// It is rejected.
    Refused(Failure),
}

impl Gate {
    /// An open gate.
    pub fn new(limits: &Limits, retry: &RetryPolicy, breaker: BreakerPolicy) -> Gate {
        Gate {
            breakers: Breakers::new(breaker),
            cool_down: CoolDown::default(),
            rate_limiter: RateLimiter::new(limits),
            longest_hold: retry.longest_wait,
            shortest_hold: retry.base,
        }
    }

    /// Sets the number of programs that share the provider's limits.
    pub fn share(&mut self, now: Duration, programs: u32) {
        self.rate_limiter.share(now, programs);
    }

    /// Decides the next action of a request. `draw` is a random number from 0 to below 1.
    pub fn step(&mut self, now: Duration, request: &AdmissionRequest, draw: f64) -> Step {
        if let Err(refused) = self.breakers.check(now, &request.model) {
            let left = MAX_PROBE_WAIT.saturating_sub(request.probe_wait);
            let left = left.min(request.patience);
            // A refused key is not waited for.
            let is_temporary = matches!(refused.class, Class::CircuitOpen { .. });
            let waits = is_temporary && self.breakers.is_probing(now, &request.model);
            return if waits && !left.is_zero() {
                Step::AwaitProbe(left)
            } else {
                Step::Refused(refused)
            };
        }
        if let Some(wait) = self.cool_down.wait(now, draw) {
            return if wait <= request.patience {
                Step::Wait(wait)
            } else {
                Step::Refused(cool_down_failure(wait, request.patience))
            };
        }
        let wait = self.rate_limiter.wait(now, request.tokens, request.ticket);
        if wait.time.is_zero() {
            return match self.breakers.admit(now, &request.model) {
                Ok(passes) => {
                    self.rate_limiter.take(now, request.tokens, request.ticket);
                    Step::Go(passes)
                }
                Err(refused) => Step::Refused(refused),
            };
        }
        if wait.at_best > request.patience || request.patience.is_zero() {
            return Step::Refused(limit_failure(wait, request.patience));
        }
        let ticket = request
            .ticket
            .unwrap_or_else(|| self.rate_limiter.join(request.tokens));
        Step::Queued(ticket, wait.time.min(request.patience))
    }

    /// The remaining time in which a breaker admits no request to the model.
    pub fn pause_ms(&self, now: Duration, model: &Arc<str>) -> Option<u64> {
        let refused = self.breakers.check(now, model).err()?;
        refused.class.retry_after_ms()
    }

    /// A request leaves the queue.
    pub fn leave(&mut self, ticket: Ticket) {
        self.rate_limiter.leave(ticket);
    }

    /// Learns the provider's limits from the headers of a response.
    pub fn learn(&mut self, now: Duration, response_headers: &ResponseHeaders) {
        self.rate_limiter
            .learn(now, response_headers.requests, response_headers.tokens);
    }

    /// An attempt succeeded and used this many tokens, if known.
    pub fn succeeded(&mut self, now: Duration, sent: &SentRequest, used: Option<u64>) {
        self.breakers
            .answered(now, &sent.model, sent.passes, Verdict::Answers);
        self.rate_limiter.settle(sent.taken, used);
    }

    /// The response to an attempt has begun. A probe has then succeeded, and other requests need
    /// not wait for its end.
    pub fn response_started(&mut self, now: Duration, sent: &SentRequest) {
        self.breakers
            .answered(now, &sent.model, sent.passes, Verdict::Responds);
    }

    /// Pauses requests as long as another program does: to a failing model, or to the provider.
    pub fn hold(&mut self, now: Duration, model: Option<&Arc<str>>, wait: Duration) {
        match model {
            Some(model) => self.breakers.hold(now, model, wait),
            None => self.cool_down.hold(now, wait.min(self.longest_hold)),
        }
    }

    /// An attempt failed. `reached`: a connection to the provider was made. Returns the pauses that
    /// other programs should make too. Network faults are not among them: each program has its own
    /// network.
    pub fn failed(
        &mut self,
        now: Duration,
        sent: &SentRequest,
        failure: &Failure,
        reached: bool,
    ) -> Vec<ProviderPause> {
        let class = failure.class;
        self.rate_limiter.settle(sent.taken, None);
        self.breakers
            .failed(now, &sent.model, sent.passes, failure, reached);
        let mut held = Vec::new();
        if matches!(class, Class::Unavailable { .. })
            && let Some(left) = self.breakers.left_alone(now, &sent.model)
        {
            held.push((Some(sent.model.clone()), left));
        }
        let hold = match (class, retry::retry_after(class)) {
            (_, Some(asked)) => asked.min(self.longest_hold),
            (Class::RateLimited { .. }, None) => self.shortest_hold,
            _ => return held,
        };
        self.cool_down.hold(now, hold);
        held.push((None, hold));
        held
    }

    /// An attempt was abandoned before its end.
    pub fn abandoned(&mut self, now: Duration, sent: &SentRequest) {
        self.rate_limiter.settle(sent.taken, None);
        self.breakers.abandoned(now, &sent.model, sent.passes);
    }
}

fn cool_down_failure(wait: Duration, patience: Duration) -> Failure {
    let (wait, patience) = (wait.as_secs_f64(), patience.as_secs_f64());
    Failure::new(
        Class::Busy,
        format!(
            "the provider asked for a pause of {wait:.1} s more, longer than the \
             {patience:.1} s this request may wait"
        ),
    )
}

fn limit_failure(wait: Wait, patience: Duration) -> Failure {
    let Wait {
        time,
        at_best,
        what,
    } = wait;
    let reason = if at_best > patience {
        let (wait, patience) = (at_best.as_secs_f64(), patience.as_secs_f64());
        format!(
            "the limit of {what} a minute has no room for {wait:.1} s, longer than the \
             {patience:.1} s this request may wait; raise the limit or ask less at once"
        )
    } else {
        let wait = time.as_secs_f64();
        format!(
            "the limit of {what} a minute had no room in the time this request may wait, and has \
             none for {wait:.1} s more; raise the limit or ask less at once"
        )
    };
    Failure::new(Class::Busy, reason)
}

#[cfg(test)]
mod tests;
