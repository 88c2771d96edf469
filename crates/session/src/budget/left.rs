//! The remaining amounts of budgets, for display.

use std::collections::BTreeMap;
use std::fmt;

use unisono_context::cost::Cost;
use unisono_context::{SessionId, Timestamp};

use super::broker::{Broker, DaemonBudget, Grant, OwnerBudget, SessionUse};
use super::{Amount, Caps, Level, Resource};

/// The state of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetStatus {
    /// The level of the budget.
    pub level: Level,
    /// The resource.
    pub resource: Resource,
    /// The limit.
    pub cap: u128,
    /// The spent amount.
    pub spent: u128,
    /// The amount reserved for calls in progress and for last calls.
    pub reserved: u128,
}

impl BudgetStatus {
    /// The remaining amount.
    pub fn remaining(&self) -> u128 {
        self.cap.saturating_sub(self.spent + self.reserved)
    }

    /// Converts an amount to dollars, tokens or seconds.
    pub fn in_units(&self, amount: u128) -> f64 {
        match self.resource {
            Resource::Tokens => amount as f64,
            Resource::Cost => Cost(amount).micro_dollars() as f64 / 1e6,
            Resource::Time => amount as f64 / 1e3,
        }
    }
}

impl fmt::Display for BudgetStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |amount: u128| match self.resource {
            Resource::Tokens => format!("{amount} tokens"),
            Resource::Cost => Cost(amount).to_string(),
            Resource::Time => format!("{} s", amount / 1_000),
        };
        let (level, cap, spent) = (self.level.name(), shown(self.cap), shown(self.spent));
        write!(
            f,
            "{level}: {spent} of {cap} used, {} left",
            shown(self.remaining())
        )?;
        match self.reserved {
            0 => Ok(()),
            reserved => write!(f, ", {} reserved", shown(reserved)),
        }
    }
}

impl Caps {
    /// The limits of a level with these spent and reserved amounts.
    pub fn left(
        &self,
        level: Level,
        spent: Amount,
        reserved: Amount,
        time_ms: u64,
    ) -> impl Iterator<Item = BudgetStatus> + use<> {
        let status = |resource, cap, spent, reserved| BudgetStatus {
            level,
            resource,
            cap,
            spent,
            reserved,
        };
        let tokens = self.tokens.map(|cap| {
            let (spent, reserved) = (spent.tokens.0.into(), reserved.tokens.0.into());
            status(Resource::Tokens, cap.0.into(), spent, reserved)
        });
        let cost = self
            .cost
            .map(|cap| status(Resource::Cost, cap.0, spent.cost.0, reserved.cost.0));
        let time = self
            .time_ms
            .map(|cap| status(Resource::Time, cap.into(), time_ms.into(), 0));
        [cost, tokens, time].into_iter().flatten()
    }
}

impl Broker {
    /// The limits of the daemon. `session_use` has, for each session that held more than it had
    /// spent, the usage in its journal; the rest comes back when another session asks. A session
    /// without a readable journal counts as having spent its whole grant.
    pub fn left(
        &self,
        rules: &DaemonBudget,
        session_use: &BTreeMap<SessionId, SessionUse>,
        now: Timestamp,
    ) -> Vec<BudgetStatus> {
        let broker = self.in_period_of(rules, now);
        let (spent, reserved) = broker.used(session_use, |_| true);
        let caps = rules.caps.left(Level::Daemon, spent, reserved, 0);
        caps.collect()
    }

    /// The same of one owner. `session_use` has the sessions of the owner.
    pub fn left_of(
        &self,
        rules: &DaemonBudget,
        of: OwnerBudget,
        session_use: &BTreeMap<SessionId, SessionUse>,
        now: Timestamp,
    ) -> Vec<BudgetStatus> {
        let broker = self.in_period_of(rules, now);
        let (spent, reserved) = broker.used(session_use, |grant| grant.owner == Some(of.owner));
        let caps = of.caps.left(Level::Owner, spent, reserved, 0);
        caps.collect()
    }

    /// The amounts that some sessions spent, and reserved in addition.
    fn used(
        &self,
        session_use: &BTreeMap<SessionId, SessionUse>,
        is_meant: impl Fn(&Grant) -> bool,
    ) -> (Amount, Amount) {
        let (mut spent, mut in_use) = (Amount::ZERO, Amount::ZERO);
        for grant in self.entries().filter(|grant| is_meant(grant)) {
            let session = session_use
                .get(&grant.session)
                .copied()
                .unwrap_or(SessionUse {
                    spent: grant.ceiling,
                    in_use: grant.ceiling,
                });
            spent = spent + (session.spent - grant.base);
            in_use = in_use + (session.in_use - grant.base);
        }
        (spent, in_use - spent)
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::Tokens;

    use super::*;

    #[test]
    fn each_limit_shows_its_remaining_amount() {
        let caps = Caps {
            tokens: Some(Tokens(1_000)),
            cost: Some(Cost::from_micro_dollars(500_000)),
            time_ms: Some(60_000),
        };
        let amount = |tokens, micros| Amount {
            tokens: Tokens(tokens),
            cost: Cost::from_micro_dollars(micros),
        };
        let left = caps.left(Level::Turn, amount(700, 100_000), amount(50, 0), 12_345);
        let shown: Vec<String> = left.map(|left| left.to_string()).collect();
        assert_eq!(
            shown,
            [
                "turn: $0.10 of $0.50 used, $0.40 left",
                "turn: 700 tokens of 1000 tokens used, 250 tokens left, 50 tokens reserved",
                "turn: 12 s of 60 s used, 47 s left",
            ]
        );
        let over = caps.left(Level::Turn, amount(2_000, 0), Amount::ZERO, 0);
        assert_eq!(over.map(|left| left.remaining()).min(), Some(0));
    }
}
