//! What is left of budgets, for those who look.

use std::collections::BTreeMap;
use std::fmt;

use unisono_context::cost::Cost;
use unisono_context::{SessionId, Timestamp, TurnId};

use super::house::{House, Rules, Standing};
use super::{Amount, Caps, Level, Resource};
use crate::state::State;

/// How one bound stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Whose budget.
    pub level: Level,
    /// Of what.
    pub resource: Resource,
    /// The most.
    pub cap: u128,
    /// What is used up.
    pub spent: u128,
    /// What is set aside for calls under way, and for last ones.
    pub set_aside: u128,
}

impl Left {
    /// What can still be taken.
    pub fn left(&self) -> u128 {
        self.cap.saturating_sub(self.spent + self.set_aside)
    }

    /// An amount of it in dollars, tokens or seconds.
    pub fn in_units(&self, amount: u128) -> f64 {
        match self.resource {
            Resource::Tokens => amount as f64,
            Resource::Cost => Cost(amount).micro_dollars() as f64 / 1e6,
            Resource::Time => amount as f64 / 1e3,
        }
    }
}

impl fmt::Display for Left {
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
            shown(self.left())
        )?;
        match self.set_aside {
            0 => Ok(()),
            set_aside => write!(f, ", {} set aside", shown(set_aside)),
        }
    }
}

impl Caps {
    /// How the bounds of a level stand that has used so much, and has set so much aside.
    pub fn left(
        &self,
        level: Level,
        spent: Amount,
        set_aside: Amount,
        time_ms: u64,
    ) -> impl Iterator<Item = Left> + use<> {
        let of = |resource, cap, spent, set_aside| Left {
            level,
            resource,
            cap,
            spent,
            set_aside,
        };
        let tokens = self.tokens.map(|cap| {
            let (spent, set_aside) = (spent.tokens.0.into(), set_aside.tokens.0.into());
            of(Resource::Tokens, cap.0.into(), spent, set_aside)
        });
        let cost = self
            .cost
            .map(|cap| of(Resource::Cost, cap.0, spent.cost.0, set_aside.cost.0));
        let time = self
            .time_ms
            .map(|cap| of(Resource::Time, cap.into(), time_ms.into(), 0));
        [cost, tokens, time].into_iter().flatten()
    }
}

impl State {
    /// How the bounds of the session stand, and those of one of its open turns.
    pub fn budgets(&self, turn: Option<TurnId>, now: Timestamp) -> Vec<Left> {
        let tree = self.budget();
        let open = self.open_turns();
        let under_way = open.map(|turn| turn.elapsed_ms(now)).sum::<u64>();
        let account = tree.session();
        let set_aside = account.open + account.kept;
        let time = account.time_ms.saturating_add(under_way);
        let caps = tree.session_caps();
        let session = caps.left(Level::Session, account.spent, set_aside, time);
        let of_turn = turn.and_then(|id| {
            let (account, caps) = (tree.turn(id)?, tree.turn_caps(id)?.turn);
            let (set_aside, time) = (account.open + account.kept, self.turn(id)?.elapsed_ms(now));
            Some(caps.left(Level::Turn, account.spent, set_aside, time))
        });
        of_turn.into_iter().flatten().chain(session).collect()
    }
}

impl House {
    /// How the bounds of the daemon stand. `standing`: of each session that holds more than it had
    /// spent, what its journal says; what it holds beyond that comes back when another asks. One
    /// whose journal says nothing has spent all it held for all that is known.
    pub fn left(
        &self,
        rules: &Rules,
        standing: &BTreeMap<SessionId, Standing>,
        now: Timestamp,
    ) -> Vec<Left> {
        let house = self.at(rules, now);
        let (mut spent, mut in_use) = (Amount::ZERO, Amount::ZERO);
        for lease in house.entries() {
            let of = standing.get(&lease.session).copied().unwrap_or(Standing {
                spent: lease.ceiling,
                in_use: lease.ceiling,
            });
            spent = spent + (of.spent - lease.base);
            in_use = in_use + (of.in_use - lease.base);
        }
        let caps = rules.caps.left(Level::Daemon, spent, in_use - spent, 0);
        caps.collect()
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::Tokens;

    use super::*;

    #[test]
    fn each_bound_says_what_is_left_of_it() {
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
                "turn: 700 tokens of 1000 tokens used, 250 tokens left, 50 tokens set aside",
                "turn: 12 s of 60 s used, 47 s left",
            ]
        );
        let over = caps.left(Level::Turn, amount(2_000, 0), Amount::ZERO, 0);
        assert_eq!(over.map(|left| left.left()).min(), Some(0));
    }
}
