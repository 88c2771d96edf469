//! The daemon's level: the budget of all sessions together, granted to them in slices.
//!
//! A session has a grant up to a *ceiling*: the total that it has ever spent and reserved stays at
//! or below the ceiling. To use more, it has the ceiling raised, which is recorded here before the
//! session gets it. To return unused amounts, it has the ceiling lowered. Both requests contain
//! absolute numbers, so a repetition changes nothing, and a crash between the two journals leaves a
//! ceiling that is too high at worst, never too low. Some usage is known only afterwards, such as that
//! of a coding agent. It can exceed the ceiling: the session then reports it at once, and the broker
//! raises the ceiling.
//!
//! With a period, the usage of earlier periods does not count. An unused grant of a session still
//! counts until the session asks again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::cost::Cost;
use unisono_context::{Digest, SessionId, Timestamp, Tokens};

use super::{Amount, Caps, Level, Shortage};

/// A session gets more than it asked for while at least this multiple of the amount is left.
const SPARE: u64 = 16;

/// An entry of the daemon's journal: the grant of a session from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The session.
    pub session: SessionId,
    /// The period of the decision, as [`DaemonBudget::period`]; 0 if there are no periods.
    pub period: u64,
    /// The total that it had spent when the period began, or when it first asked.
    pub base: Amount,
    /// The total that it had spent at the time of the decision.
    pub used: Amount,
    /// The limit of the total that it may ever have in use.
    pub ceiling: Amount,
    /// The digest of the name of the session's owner; `None` without an owner.
    pub owner: Option<Digest>,
}

/// What the sessions of one owner may use together: the level between the daemon and its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerBudget {
    /// The digest of the owner's name.
    pub owner: Digest,
    /// In a period of the daemon.
    pub caps: Caps,
}

/// The budgets of all owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerBudgets {
    /// Of each owner that is not named.
    pub each: Caps,
    /// By name.
    pub named: BTreeMap<Arc<str>, Caps>,
}

impl OwnerBudgets {
    /// Whether nothing is bounded.
    pub fn is_none(&self) -> bool {
        let mut all = self.named.values().chain([&self.each]);
        all.all(|caps| *caps == Caps::NONE)
    }

    /// That of an owner.
    pub fn owner_budget(&self, owner: &str) -> OwnerBudget {
        OwnerBudget {
            owner: Digest::of_bytes(owner.as_bytes()),
            caps: *self.named.get(owner).unwrap_or(&self.each),
        }
    }
}

/// The usage of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUse {
    /// The total that it has spent.
    pub spent: Amount,
    /// The total that it has spent, plus its reservations.
    pub in_use: Amount,
}

/// The daemon's account, as the fold of its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Broker {
    period: u64,
    grants: BTreeMap<SessionId, Grant>,
    /// The sum of all grants: ceilings minus bases.
    granted: Amount,
    /// The same of each owner.
    owned: BTreeMap<Digest, Amount>,
}

/// The budget of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaemonBudget {
    /// The limits of one period.
    pub caps: Caps,
    /// Hours of a period, counted from 1970; none: one period for all times.
    pub period_hours: Option<u32>,
}

impl DaemonBudget {
    /// The period at a time: the hour since 1970 in which it began. Periods of another length are
    /// compared with it, too.
    pub fn period(&self, now: Timestamp) -> u64 {
        let Some(hours) = self.period_hours else {
            return 0;
        };
        let hours = i64::from(hours.max(1));
        let number = now.0.div_euclid(hours * 3_600_000);
        u64::try_from(number * hours).unwrap_or(0)
    }
}

impl Broker {
    /// Folds a journal.
    #[cfg(test)]
    pub(crate) fn from_grants<'l>(grants: impl IntoIterator<Item = &'l Grant>) -> Broker {
        let mut broker = Broker::default();
        for grant in grants {
            broker.apply(grant);
        }
        broker
    }

    /// Folds one entry.
    pub fn apply(&mut self, grant: &Grant) {
        if grant.period > self.period {
            self.begin_period(grant.period);
        }
        if let Some(before) = self.grants.insert(grant.session, *grant) {
            self.count(&before, |sum, held| sum - held);
        }
        self.count(grant, |sum, held| sum + held);
    }

    fn count(&mut self, grant: &Grant, change: fn(Amount, Amount) -> Amount) {
        let held = grant.ceiling - grant.base;
        self.granted = change(self.granted, held);
        if let Some(owner) = grant.owner {
            let owned = self.owned.entry(owner).or_default();
            *owned = change(*owned, held);
        }
    }

    /// The amount granted in this period: spent, reserved, or unused.
    pub fn granted(&self) -> Amount {
        self.granted
    }

    /// The same of the sessions of an owner.
    pub fn leased_by(&self, owner: Digest) -> Amount {
        self.owned.get(&owner).copied().unwrap_or_default()
    }

    /// A session's grant.
    pub fn grant(&self, session: SessionId) -> Option<&Grant> {
        self.grants.get(&session)
    }

    /// Sessions that hold more than they had spent; their journals say how much of it they have
    /// used.
    pub fn holders(&self) -> impl Iterator<Item = SessionId> + '_ {
        let held = self.grants.values().filter(|of| of.ceiling != of.used);
        held.map(|grant| grant.session)
    }

    /// The part of the grants of all sessions except `but` that was unspent when they were last
    /// decided; they cannot return more. With an owner: of that owner's sessions.
    pub fn unspent(&self, but: SessionId, owner: Option<Digest>) -> Amount {
        let others = self.grants.values().filter(|of| of.session != but);
        let others = others.filter(|of| owner.is_none_or(|owner| of.owner == Some(owner)));
        others.fold(Amount::ZERO, |sum, of| sum + (of.ceiling - of.used))
    }

    /// The newest entry of every session. Folding them gives the same broker.
    pub fn entries(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values()
    }

    /// Raises the ceiling of a session by `needed`, and by half as much again if that is little
    /// compared with the rest, so that not every call needs a request.
    ///
    /// # Errors
    /// The rest of the daemon's budget, or of the owner's, is too small.
    pub fn raise(
        &self,
        rules: &DaemonBudget,
        (session, owner): (SessionId, Option<OwnerBudget>),
        (session_use, needed): (SessionUse, Amount),
        now: Timestamp,
    ) -> Result<Grant, Shortage> {
        let broker = self.in_period_of(rules, now);
        let known = broker.grants.get(&session);
        // A grant of an earlier period counted in that period.
        let current = known.filter(|known| known.period == broker.period);
        let base = current.map_or(session_use.spent, |known| known.base);
        let own = known.map_or(Amount::ZERO, |known| known.ceiling - known.base);
        let used = session_use.in_use;
        let in_use = broker.granted - own + (used - base);
        let of_owner = owner.map(|of| {
            let known = known.filter(|known| known.owner == Some(of.owner));
            let own = known.map_or(Amount::ZERO, |known| known.ceiling - known.base);
            let in_use = broker.leased_by(of.owner) - own + (used - base);
            (Level::Owner, of.caps, in_use)
        });
        let levels = [Some((Level::Daemon, rules.caps, in_use)), of_owner];
        let short_of = |more: Amount| {
            let mut levels = levels.iter().flatten();
            levels.find_map(|(level, caps, in_use)| caps.shortage(*level, *in_use, more))
        };
        if let Some(short) = short_of(needed) {
            return Err(short);
        }
        let spare = half(needed);
        let plenty = Amount {
            tokens: spare.tokens.times(SPARE),
            cost: Cost(spare.cost.0.saturating_mul(SPARE.into())),
        };
        let scarce = short_of(needed + plenty);
        let grant = Grant {
            session,
            period: broker.period,
            base,
            used: session_use.spent,
            ceiling: match scarce {
                Some(_) => used + needed,
                None => used + needed + spare,
            },
            owner: owner.map(|of| of.owner),
        };
        Ok(grant)
    }

    pub(super) fn in_period_of(&self, rules: &DaemonBudget, now: Timestamp) -> Cow<'_, Broker> {
        let mut broker = Cow::Borrowed(self);
        if rules.period(now) > self.period {
            broker.to_mut().begin_period(rules.period(now));
        }
        broker
    }

    /// Takes back the unused part of a session's grant: its ceiling becomes the amount that it has
    /// in use. None if the ceiling is already there.
    pub fn lower(
        &self,
        rules: &DaemonBudget,
        session: SessionId,
        session_use: SessionUse,
        now: Timestamp,
    ) -> Option<Grant> {
        let known = self.grants.get(&session)?;
        let grant = Grant {
            used: session_use.spent,
            ceiling: session_use.in_use,
            ..*known
        };
        let changed = grant != *known;
        changed.then(|| {
            let period = rules.period(now).max(self.period);
            let base = if period > self.period {
                known.used
            } else {
                known.base
            };
            Grant {
                period,
                base,
                ..grant
            }
        })
    }

    /// Like [`Broker::lower`] for a session that is deleted or unreadable: its whole grant counts
    /// as spent, in this period and in none after it.
    pub fn close(&self, rules: &DaemonBudget, session: SessionId, now: Timestamp) -> Option<Grant> {
        let held = self.grants.get(&session)?.ceiling;
        let session_use = SessionUse {
            spent: held,
            in_use: held,
        };
        self.lower(rules, session, session_use, now)
    }

    /// Resets the usage of earlier periods and forgets sessions without a grant.
    fn begin_period(&mut self, period: u64) {
        self.period = period;
        self.grants.retain(|_, grant| grant.ceiling != grant.used);
        (self.granted, self.owned) = (Amount::ZERO, BTreeMap::new());
        for grant in self.grants.values_mut() {
            grant.base = grant.used;
        }
        for grant in self.grants.clone().values() {
            self.count(grant, |sum, held| sum + held);
        }
    }
}

fn half(amount: Amount) -> Amount {
    Amount {
        tokens: Tokens(amount.tokens.0 / 2),
        cost: Cost(amount.cost.0 / 2),
    }
}
