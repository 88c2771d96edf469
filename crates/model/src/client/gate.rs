//! Whether a request to a provider may be sent now: breakers, cool-down and limits together.
//!
//! A request calls [`Gate::step`] until it may be sent or is refused, and waits in between: for a
//! time, or until something is released. A request that stops waiting leaves its place in the
//! queue.
//!
//! Times are durations since a fixed start.

use std::sync::Arc;
use std::time::Duration;

use super::breaker;
use super::breakers::{Breakers, Passes};
use super::cooldown::CoolDown;
use super::headers::ResponseHeaders;
use super::limits::{Limits, Meter, Ticket, Wait};
use super::retry;
use super::share::Hold;
use crate::dialect::Failure;
use crate::language::Class;

/// What all requests to one provider share.
#[derive(Clone, Debug)]
pub struct Gate {
    breakers: Breakers,
    cool_down: CoolDown,
    meter: Meter,
    /// The longest cool-down; after it somebody may try.
    longest_hold: Duration,
    /// The cool-down after a refusal that names no time.
    shortest_hold: Duration,
}

/// A request that wants to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The model it is for, as its provider knows it.
    pub model: Arc<str>,
    /// Its tokens, input and output.
    pub tokens: u64,
    /// Its place in line, once it has one.
    pub ticket: Option<Ticket>,
    /// How much longer it may wait.
    pub patience: Duration,
}

/// A request that was let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The model it is for.
    pub model: Arc<str>,
    /// How it was let through.
    pub passes: Passes,
    /// The tokens it took.
    pub taken: u64,
}

/// What a request does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is sent.
    Go(Passes),
    /// It waits and asks again.
    Wait(Duration),
    /// It stands in line there: it waits so long, or until something is given back, and asks again.
    Queued(Ticket, Duration),
    /// It is not sent.
    Refused(Failure),
}

impl Gate {
    /// An open gate.
    pub fn new(limits: &Limits, retry: &retry::Policy, breaker: breaker::Policy) -> Gate {
        Gate {
            breakers: Breakers::new(breaker),
            cool_down: CoolDown::default(),
            meter: Meter::new(limits),
            longest_hold: retry.longest_wait,
            shortest_hold: retry.base,
        }
    }

    /// The provider's limits are shared by so many programs from now on.
    pub fn share(&mut self, now: Duration, programs: u32) {
        self.meter.share(now, programs);
    }

    /// What a request does next. `draw` is a random number from 0 up to 1.
    pub fn step(&mut self, now: Duration, ask: &Ask, draw: f64) -> Step {
        if let Err(refused) = self.breakers.check(now, &ask.model) {
            return Step::Refused(refused);
        }
        if let Some(wait) = self.cool_down.wait(now, draw) {
            return if wait <= ask.patience {
                Step::Wait(wait)
            } else {
                Step::Refused(held_back(wait, ask.patience))
            };
        }
        let wait = self.meter.wait(now, ask.tokens, ask.ticket);
        if wait.time.is_zero() {
            return match self.breakers.admit(now, &ask.model) {
                Ok(passes) => {
                    self.meter.take(now, ask.tokens, ask.ticket);
                    Step::Go(passes)
                }
                Err(refused) => Step::Refused(refused),
            };
        }
        if wait.at_best > ask.patience || ask.patience.is_zero() {
            return Step::Refused(busy(wait, ask.patience));
        }
        let ticket = ask.ticket.unwrap_or_else(|| self.meter.join(ask.tokens));
        Step::Queued(ticket, wait.time.min(ask.patience))
    }

    /// A request no longer waits in line.
    pub fn leave(&mut self, ticket: Ticket) {
        self.meter.leave(ticket);
    }

    /// Takes what the headers of an answer say of the provider's limits.
    pub fn learn(&mut self, now: Duration, told: &ResponseHeaders) {
        self.meter.learn(now, told.requests, told.tokens);
    }

    /// An attempt has brought a reply, for which so many of the tokens it took were used.
    pub fn succeeded(&mut self, now: Duration, sent: &Sent, used: Option<u64>) {
        self.answers(now, sent);
        self.meter.ended(sent.taken, used);
    }

    /// The answer to an attempt has begun: where it tries whether the provider or the model is
    /// back, it is, and others need not wait for its end.
    pub fn answers(&mut self, now: Duration, sent: &Sent) {
        self.breakers.answered(now, &sent.model, sent.passes);
    }

    /// Another program was told to leave the provider alone for so much longer, or has found that one
    /// of its models fails.
    pub fn hold(&mut self, now: Duration, model: Option<&Arc<str>>, wait: Duration) {
        match model {
            Some(model) => self.breakers.hold(now, model, wait),
            None => self.cool_down.hold(now, wait.min(self.longest_hold)),
        }
    }

    /// An attempt has failed. `reached`: a connection to the provider was made. Answers what is left
    /// alone from now on because the provider said so. What the network in between did is no news for
    /// other programs, which have another one.
    pub fn failed(
        &mut self,
        now: Duration,
        sent: &Sent,
        failure: &Failure,
        reached: bool,
    ) -> Vec<Hold> {
        let class = failure.class;
        self.meter.ended(sent.taken, None);
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

    /// An attempt was given up before it ended.
    pub fn abandoned(&mut self, now: Duration, sent: &Sent) {
        self.meter.ended(sent.taken, None);
        self.breakers.abandoned(now, &sent.model, sent.passes);
    }
}

fn held_back(wait: Duration, patience: Duration) -> Failure {
    let (wait, patience) = (wait.as_secs_f64(), patience.as_secs_f64());
    Failure::new(
        Class::Busy,
        format!(
            "the provider asked to be left alone for {wait:.1} s more, longer than the \
             {patience:.1} s this request may wait"
        ),
    )
}

fn busy(wait: Wait, patience: Duration) -> Failure {
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
