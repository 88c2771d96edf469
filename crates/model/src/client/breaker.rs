//! A circuit breaker of a provider or of one of its models: after several consecutive failures no
//! request is sent for a while; then one request tests whether it works again.
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

/// When a provider is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Failures in a row; 0: never.
    pub failures: u32,
    /// For how long.
    pub cool_down: Duration,
}

/// The breaker of one provider, or of one model.
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: Policy,
    state: State,
    /// Probes let through so far.
    probes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Requests pass; so many have failed in a row.
    Closed(u32),
    /// No request passes until then.
    Open(Duration),
    /// The request of that number has been let through to see whether the provider is back.
    Probing(u64),
}

/// How a request was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Like any other.
    Ordinary,
    /// To see whether the provider is back, with a number of its own: another answer may have
    /// closed the breaker meanwhile, and a later probe may be under way.
    Probe(u64),
}

/// What an attempt says of its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It answers, be it with a refusal.
    Answers,
    /// It does not.
    Fails,
    /// Nothing: the attempt was given up.
    Unknown,
}

/// A request that may not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How long the provider is left alone from now on; nothing while a probe is under way.
    pub left: Duration,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(policy: Policy) -> Breaker {
        Breaker {
            policy,
            state: State::Closed(0),
            probes: 0,
        }
    }

    /// Lets a request through or not. Each pass is reported back.
    ///
    /// # Errors
    /// The provider is left alone.
    pub fn admit(&mut self, now: Duration) -> Result<Pass, Refused> {
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

    /// Whether a request would be let through now.
    ///
    /// # Errors
    /// The provider is left alone.
    pub fn check(&self, now: Duration) -> Result<(), Refused> {
        match self.state {
            State::Open(until) if now < until => Err(Refused { left: until - now }),
            State::Probing(_) => Err(Refused {
                left: Duration::ZERO,
            }),
            State::Open(_) | State::Closed(_) => Ok(()),
        }
    }

    /// Takes what an attempt has shown.
    pub fn report(&mut self, now: Duration, pass: Pass, verdict: Verdict) {
        self.state = match (self.state, pass, verdict) {
            (_, _, Verdict::Answers) => State::Closed(0),
            (State::Closed(failures), _, Verdict::Fails) => self.failed(now, failures + 1),
            (State::Probing(awaited), Pass::Probe(probe), Verdict::Fails) if probe == awaited => {
                self.opened(now)
            }
            // The next request is the probe.
            (State::Probing(awaited), Pass::Probe(probe), Verdict::Unknown) if probe == awaited => {
                State::Open(now)
            }
            (state, ..) => state,
        };
    }

    /// Another program has left it alone for so much longer: this one does, too, as long as its own
    /// policy says at most.
    pub fn hold(&mut self, now: Duration, wait: Duration) {
        let until = now.saturating_add(wait.min(self.policy.cool_down));
        let is_longer = match self.state {
            State::Closed(_) => true,
            State::Open(known) => known < until,
            State::Probing(_) => false,
        };
        if self.policy.failures > 0 && is_longer {
            self.state = State::Open(until);
        }
    }

    fn failed(&self, now: Duration, failures: u32) -> State {
        match self.policy.failures {
            most if most > 0 && failures >= most => self.opened(now),
            _ => State::Closed(failures),
        }
    }

    fn opened(&self, now: Duration) -> State {
        State::Open(now.saturating_add(self.policy.cool_down))
    }
}

impl Verdict {
    /// What a failure says of the provider. Limits are not failures: a cool-down minds them.
    pub fn of(class: Class) -> Verdict {
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

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            failures: 5,
            cool_down: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests;
