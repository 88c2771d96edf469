//! `[budget.…]`: budgets.

use std::collections::BTreeMap;

use serde::Deserialize;
use unisono_context::{Cost, Tokens};
use unisono_runtime::LiveRuns;
use unisono_session::budget::broker::DaemonBudget;
use unisono_session::budget::{Caps, OwnerBudgets};

use super::TimeText;

/// The levels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// All sessions together.
    pub daemon: Daemon,
    /// The sessions of each owner together.
    pub owner: Owner,
    /// The budgets of individual owners by name, in place of `owner`.
    pub owners: BTreeMap<String, Owner>,
    /// Each session.
    pub session: Level,
    /// Each turn.
    pub turn: Level,
    /// Each run.
    pub run: Level,
}

/// The budget of one level; none: no limit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Level {
    /// Dollars.
    pub max_cost_usd: Option<f64>,
    /// Tokens, in and out.
    pub max_tokens: Option<u64>,
    /// The maximum time: `"10m"`, or seconds.
    pub time: Option<TimeText>,
    /// Maximum active runs of a session or a turn, without runs that wait for other agents.
    pub live_runs: Option<u32>,
}

impl Level {
    /// The caps of cost and tokens, each the lower one of both levels; the others are its own.
    #[must_use]
    pub fn at_most(&self, other: &Level) -> Level {
        let dollars = [self.max_cost_usd, other.max_cost_usd];
        let tokens = [self.max_tokens, other.max_tokens];
        Level {
            max_cost_usd: dollars.into_iter().flatten().reduce(f64::min),
            max_tokens: tokens.into_iter().flatten().min(),
            ..self.clone()
        }
    }
}

/// The daemon's budget.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Daemon {
    /// Dollars per period.
    pub max_cost_usd: Option<f64>,
    /// Tokens per period, in and out.
    pub max_tokens: Option<u64>,
    /// Hours of a period; none: a single period without end.
    pub period_hours: Option<u32>,
    /// Maximum active runs, without runs that wait for other agents.
    pub live_runs: Option<u32>,
}

/// The budget of an owner; none: no limit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// Dollars per period of the daemon's budget.
    pub max_cost_usd: Option<f64>,
    /// Tokens per period of the daemon's budget, in and out.
    pub max_tokens: Option<u64>,
}

impl Owner {
    fn caps(&self) -> Caps {
        Caps {
            tokens: self.max_tokens.map(Tokens),
            cost: self.max_cost_usd.map(dollars),
            time_ms: None,
        }
    }
}

/// Dollars as written; digits below a micro-dollar are rounded up.
pub fn dollars(amount: f64) -> Cost {
    // The schema keeps it between 0 and a million.
    Cost::from_micro_dollars((amount * 1e6 - 1e-3).ceil().max(0.0) as u64)
}

impl Level {
    /// The caps of a turn.
    pub fn caps(&self) -> Caps {
        Caps {
            tokens: self.max_tokens.map(Tokens),
            cost: self.max_cost_usd.map(dollars),
            time_ms: self.time.as_ref().map(TimeText::ms),
        }
    }
}

impl Daemon {
    /// The budget of all sessions together; none without a limit.
    pub fn rules(&self) -> Option<DaemonBudget> {
        let caps = Caps {
            tokens: self.max_tokens.map(Tokens),
            cost: self.max_cost_usd.map(dollars),
            time_ms: None,
        };
        (caps != Caps::NONE).then_some(DaemonBudget {
            caps,
            period_hours: self.period_hours,
        })
    }
}

impl Budget {
    /// The budgets of owners.
    pub fn owner_budgets(&self) -> OwnerBudgets {
        let named = self.owners.iter();
        OwnerBudgets {
            each: self.owner.caps(),
            named: named
                .map(|(name, owner)| (name.as_str().into(), owner.caps()))
                .collect(),
        }
    }

    /// The budget of all sessions together, and the periods of owners' budgets; none: neither is
    /// limited.
    pub fn rules(&self) -> Option<DaemonBudget> {
        let periods = || DaemonBudget {
            caps: Caps::NONE,
            period_hours: self.daemon.period_hours,
        };
        let owned = !self.owner_budgets().is_none();
        self.daemon.rules().or_else(|| owned.then(periods))
    }

    /// The limits of active runs.
    pub fn live_runs(&self) -> LiveRuns {
        let number =
            |most: Option<u32>| most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        LiveRuns {
            daemon: number(self.daemon.live_runs),
            session: number(self.session.live_runs),
            turn: number(self.turn.live_runs),
        }
    }

    /// The lowest level that caps the cost of a run, besides the agent's own cap.
    pub fn caps_cost(&self) -> Option<&'static str> {
        let levels = [
            ("budget.run", self.run.max_cost_usd),
            ("budget.turn", self.turn.max_cost_usd),
            ("budget.session", self.session.max_cost_usd),
            ("budget.owner", self.owner.max_cost_usd),
            (
                "budget.owners",
                self.owners.values().find_map(|of| of.max_cost_usd),
            ),
            ("budget.daemon", self.daemon.max_cost_usd),
        ];
        let mut capped = levels.into_iter().filter(|(_, cap)| cap.is_some());
        capped.next().map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_micro_dollars_and_never_less() {
        for (written, micros) in [
            (0.0, 0),
            (0.000_001, 1),
            (0.07, 70_000),
            (0.1 + 0.2, 300_000),
            (1.0, 1_000_000),
            (0.000_000_5, 1),
            (1e6, 1_000_000_000_000),
        ] {
            assert_eq!(
                dollars(written),
                Cost::from_micro_dollars(micros),
                "{written}"
            );
        }
    }
}
