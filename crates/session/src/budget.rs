//! Limits of runs: the budget tree, as values.
//!
//! ```text
//! daemon, owner ── grant a slice to ──► session ─┬─ turn ─┬─ run ── call, call, …
//! (budget broker)                                │        └─ run
//!                                                └─ turn
//! ```
//!
//! Before each model call its worst case is reserved at every level ([`Tree::afford`]), plus the
//! amount of one last call of the same run. After the call, its usage is charged and the rest is
//! released. Reserved and spent amounts together never exceed a cap. Everything follows from the
//! session's journal, so a restart finds the same reservations.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;

use unisono_context::call::Usage;
use unisono_context::cost::Cost;
use unisono_context::{Digest, Tokens};

pub mod broker;
mod left;
mod tree;

pub use broker::{Broker, Grant, OwnerBudget, OwnerBudgets, SessionUse};
pub use left::BudgetStatus;
pub use tree::{Account, Reservation, ReservationRequest, RunEnd, Tree, Verdict};
pub(crate) use tree::{rest_or_worst_case, usage_or_worst_case};

/// The error code of everything that ends because a budget is exhausted.
pub const EXCEEDED: &str = "budget_exceeded";

/// A used or reserved amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Tokens in and out.
    pub tokens: Tokens,
    /// The cost of these tokens.
    pub cost: Cost,
}

impl Amount {
    /// Zero.
    pub const ZERO: Amount = Amount {
        tokens: Tokens::ZERO,
        cost: Cost::ZERO,
    };

    /// The smallest amount. It is reserved for work whose use is only known afterwards.
    pub const LEAST: Amount = Amount {
        tokens: Tokens(1),
        cost: Cost(1),
    };

    /// The usage of a call; an unknown cost counts as zero.
    pub fn from_usage(usage: &Usage) -> Amount {
        Amount {
            tokens: usage.input + usage.output,
            cost: usage.cost.unwrap_or(Cost::ZERO),
        }
    }

    /// The larger value of each resource.
    #[must_use]
    pub fn max(self, other: Amount) -> Amount {
        Amount {
            tokens: self.tokens.max(other.tokens),
            cost: self.cost.max(other.cost),
        }
    }

    /// Whether each value is at most the other's.
    pub fn is_within(self, other: Amount) -> bool {
        self.tokens <= other.tokens && self.cost <= other.cost
    }
}

impl Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        Amount {
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
        }
    }
}

/// The difference, at least zero.
impl Sub for Amount {
    type Output = Amount;

    fn sub(self, other: Amount) -> Amount {
        Amount {
            tokens: self.tokens.minus(other.tokens),
            cost: Cost(self.cost.0.saturating_sub(other.cost.0)),
        }
    }
}

/// The limits of one level; none: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Tokens in and out, all calls together.
    pub tokens: Option<Tokens>,
    /// Cost of all calls.
    pub cost: Option<Cost>,
    /// Milliseconds: of a run since it was opened, of a turn since it began, of a session the sum
    /// of its turns.
    pub time_ms: Option<u64>,
}

impl Caps {
    /// No limits.
    pub const NONE: Caps = Caps {
        tokens: None,
        cost: None,
        time_ms: None,
    };

    /// The tighter limit of each resource.
    #[must_use]
    pub fn and(self, other: Caps) -> Caps {
        fn tighter<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        Caps {
            tokens: tighter(self.tokens, other.tokens),
            cost: tighter(self.cost, other.cost),
            time_ms: tighter(self.time_ms, other.time_ms),
        }
    }

    /// The first resource that a level with `in_use` has too little of for `needed` more.
    pub fn shortage(&self, level: Level, in_use: Amount, needed: Amount) -> Option<Shortage> {
        let short = |resource, cap: u128, used: u128, needed: u128| {
            (used.saturating_add(needed) > cap && needed > 0).then_some(Shortage {
                level,
                resource,
                cap,
                used,
                needed,
            })
        };
        let tokens = self.tokens.and_then(|cap| {
            let (used, needed) = (in_use.tokens.0, needed.tokens.0);
            short(Resource::Tokens, cap.0.into(), used.into(), needed.into())
        });
        let cost = |cap: Cost| short(Resource::Cost, cap.0, in_use.cost.0, needed.cost.0);
        tokens.or_else(|| self.cost.and_then(cost))
    }
}

/// The limits with which a turn was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnCaps {
    /// Of the session, from now on.
    pub session: Caps,
    /// Of the turn.
    pub turn: Caps,
    /// Of each of its runs.
    pub run: Caps,
    /// Additional limits for the runs of single agents, by the digests of their definitions.
    pub agents: Vec<(Digest, Caps)>,
    /// The maximum time of the turn in milliseconds, without waits for people and restarts. The
    /// turn then ends without an answer: this is not a budget, so no run is wrapped up.
    pub limit_ms: Option<u64>,
}

impl TurnCaps {
    /// Whether there is no limit.
    pub fn is_none(&self) -> bool {
        let own = [self.session, self.turn, self.run];
        let agents = self.agents.iter().map(|(_, caps)| *caps);
        let mut levels = own.into_iter().chain(agents);
        self.limit_ms.is_none() && levels.all(|caps| caps == Caps::NONE)
    }

    /// The limits of a run of this agent.
    pub fn for_run(&self, definition: Digest) -> Caps {
        let mut own = self.agents.iter().filter(|(of, _)| *of == definition);
        own.next().map_or(self.run, |(_, caps)| self.run.and(*caps))
    }
}

/// The level of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// One agent's work on one task.
    Run,
    /// All work on one input.
    Turn,
    /// All turns of a session.
    Session,
    /// All sessions of one owner.
    Owner,
    /// All sessions.
    Daemon,
}

unisono_context::names!(Level.name {
    Run = "run",
    Turn = "turn",
    Session = "session",
    Owner = "owner",
    Daemon = "daemon",
});

unisono_context::names!(Resource.name {
    Tokens = "tokens",
    Cost = "cost",
    Time = "time",
});

/// A limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Tokens in and out.
    Tokens,
    /// Money, in pico-dollars.
    Cost,
    /// Milliseconds.
    Time,
}

/// A budget is too small for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Shortage {
    /// The level of the budget.
    pub level: Level,
    /// The resource.
    pub resource: Resource,
    /// The limit.
    pub cap: u128,
    /// The amount that is spent or reserved.
    pub used: u128,
    /// The amount that the call may use.
    pub needed: u128,
}

impl Shortage {
    /// Whether it would end if this amount of its level was returned.
    pub fn would_end_with(&self, returned: Amount) -> bool {
        let returned = match self.resource {
            Resource::Tokens => u128::from(returned.tokens.0),
            Resource::Cost => returned.cost.0,
            Resource::Time => 0,
        };
        self.used.saturating_add(self.needed) <= self.cap.saturating_add(returned)
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        match self.resource {
            Resource::Tokens => write!(
                f,
                "the {level}'s budget of {} tokens has {} left, and the next call may take {}",
                self.cap,
                self.cap.saturating_sub(self.used),
                self.needed
            ),
            Resource::Cost => write!(
                f,
                "the {level}'s budget of {} has {} left, and the next call may cost {}",
                Cost(self.cap),
                Cost(self.cap.saturating_sub(self.used)),
                Cost(self.needed)
            ),
            Resource::Time => write!(
                f,
                "the {level}'s time of {} s is used up",
                self.cap as f64 / 1e3
            ),
        }
    }
}

/// The text for a partial answer that was caused by this shortage.
pub fn describe_shortage(short: &Shortage) -> Arc<str> {
    format!("{EXCEEDED}: {short}").into()
}

/// The reason why a model without a price cannot be called.
pub fn unknown_price(model: &str, level: Level) -> Arc<str> {
    let level = level.name();
    format!(
        "the price of model {model} is not known, and the {level}'s budget caps the \
         cost; give it a price in models.toml, or take the cap away"
    )
    .into()
}

#[cfg(test)]
mod tests;
