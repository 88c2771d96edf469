//! A circuit breaker of a provider or of one of its models: after several consecutive failures no
//! request is sent for a while; then one request tests whether it works again. If this request fails,
//! the next pause is twice as long.
//!
//! ```text
//! closed ──consecutive failures──► open ──cool-down──► probing ──answered──► closed
//!                                   ▲                     │
//!                                   └───────failed────────┘
//! ```
//!
//! Times are durations since a fixed start.

use std::time::Duration;

use crate::language::{Class, Stage};
use crate::provider::BreakerPolicy;

/// The breaker of one provider, or of one model.
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    state: State,
    probes: u64,
    /// How often it opened since the last answer.
    openings: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Requests pass. The number is that of consecutive failures.
    Closed(u32),
    /// No request passes until this time.
    Open(Duration),
    /// The probe with this number is in flight.
    Probing(u64),
}

/// How a request was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A normal request.
    Ordinary,
    /// A probe, with its number: a response to another request may have closed the breaker
    /// meanwhile, and a later probe may be in flight.
    Probe(u64),
}

/// The result of an attempt for the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A response has begun. It may break off.
    Responds,
    /// The provider answers, possibly with a refusal.
    Answers,
    /// The provider fails.
    Fails,
    /// Unknown: the attempt was abandoned.
    Unknown,
}

/// The breaker is open: the request may not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOpen {
    /// The remaining time; zero while a probe is in flight.
    pub left: Duration,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(policy: BreakerPolicy) -> Breaker {
        Breaker {
            policy,
            state: State::Closed(0),
            probes: 0,
            openings: 0,
        }
    }

    /// Admits or rejects a request. The caller reports the result of each pass.
    pub fn admit(&mut self, now: Duration) -> Result<Pass, BreakerOpen> {
        self.check(now)?;
        match self.state {
            State::Closed(_) => Ok(Pass::Ordinary),
            State::Open(_) | State::Probing(_) => {
                self.probes += 1;
                self.state = State::Probing(self.probes);
                Ok(Pass::Probe(self.probes))
            }
        }
    }

    /// Checks whether a request would be admitted now.
    pub fn check(&self, now: Duration) -> Result<(), BreakerOpen> {
        match self.state {
            State::Open(until) if now < until => Err(BreakerOpen { left: until - now }),
            State::Probing(_) => Err(BreakerOpen {
                left: Duration::ZERO,
            }),
            State::Open(_) | State::Closed(_) => Ok(()),
        }
    }

    /// Whether a request is testing the provider.
    pub fn is_probing(&self) -> bool {
        matches!(self.state, State::Probing(_))
    }

    /// Records the result of an attempt.
    pub fn report(&mut self, now: Duration, pass: Pass, verdict: Verdict) {
        self.state = match (self.state, pass, verdict) {
            (_, _, Verdict::Responds) => State::Closed(0),
            (_, _, Verdict::Answers) => {
                self.openings = 0;
                State::Closed(0)
            }
            (State::Closed(failures), _, Verdict::Fails) => self.failed(now, failures + 1),
            (State::Probing(awaited), Pass::Probe(probe), Verdict::Fails) if probe == awaited => {
                self.opened(now)
            }
            // The next request becomes the probe.
            (State::Probing(awaited), Pass::Probe(probe), Verdict::Unknown) if probe == awaited => {
                State::Open(now)
            }
            (state, ..) => state,
        };
    }

    /// Opens it for the pause of another program, at most for the maximum of its own policy.
    pub fn hold(&mut self, now: Duration, wait: Duration) {
        let until = now.saturating_add(wait.min(self.policy.cool_down_max));
        let is_longer = match self.state {
            State::Closed(_) => true,
            State::Open(known) => known < until,
            State::Probing(_) => false,
        };
        if self.policy.failures > 0 && is_longer {
            self.state = State::Open(until);
        }
    }

    fn failed(&mut self, now: Duration, failures: u32) -> State {
        match self.policy.failures {
            most if most > 0 && failures >= most => self.opened(now),
            _ => State::Closed(failures),
        }
    }

    fn opened(&mut self, now: Duration) -> State {
        let doubled = self
            .policy
            .cool_down
            .saturating_mul(1 << self.openings.min(16));
        self.openings = self.openings.saturating_add(1);
        State::Open(now.saturating_add(doubled.min(self.policy.cool_down_max)))
    }
}

impl Verdict {
    /// The verdict of a failure. Rate limits are not failures: the cool-down handles them.
    pub fn from_class(class: Class) -> Verdict {
        match class {
            Class::Unavailable { .. }
            | Class::Transport
            | Class::IncompleteStream
            | Class::Timeout(Stage::Connect | Stage::FirstByte | Stage::Idle) => Verdict::Fails,
            Class::Unauthorised
            | Class::OutOfQuota
            | Class::UnknownModel
            | Class::Overflow { .. }
            | Class::BadRequest
            | Class::RateLimited { .. }
            | Class::TooLarge => Verdict::Answers,
            Class::Timeout(Stage::Total)
            | Class::BadReply
            | Class::CircuitOpen { .. }
            | Class::Busy
            | Class::PrefixMismatch
            | Class::Internal => Verdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
