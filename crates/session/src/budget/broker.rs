//! The daemon's level: what all sessions together may use, granted to them in slices.
//!
//! A session holds a grant up to a *ceiling*: all it has ever spent and reserved stays at or
//! below that. To go further it has the ceiling raised, which is recorded here before it is told;
//! what it does not need any more it gives back by having the ceiling lowered. Both say absolute
//! numbers, so that saying them twice changes nothing and a crash between the two journals leaves
//! a ceiling that is too high at worst, never one that is too low.
//!
//! With a period, what was used in earlier ones does not count; what a session was granted and has
//! not used counts on until it asks again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::cost::Cost;
use unisono_context::{Digest, SessionId, Timestamp, Tokens};

use super::{Amount, Caps, Level, Shortage};

/// A session is granted more than it asked for while so many times that much is left.
const SPARE: u64 = 16;

/// One entry of the daemon's journal: how a session stands from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The session.
    pub session: SessionId,
    /// The period it was decided in; 0 where there are none.
    pub period: u64,
    /// All it had ever spent when the period began, or when it first asked.
    pub base: Amount,
    /// All it had ever spent when this was decided.
    pub used: Amount,
    /// The most it may ever have in use.
    pub ceiling: Amount,
    /// Whose the session is, by the digest of the name; none: nobody's.
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
    pub fn of(&self, owner: &str) -> OwnerBudget {
        OwnerBudget {
            owner: Digest::of_bytes(owner.as_bytes()),
            caps: *self.named.get(owner).unwrap_or(&self.each),
        }
    }
}

/// How a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUse {
    /// All it has ever spent.
    pub spent: Amount,
    /// That, and what is reserved.
    pub in_use: Amount,
}

/// The daemon's account, as the fold of its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Broker {
    period: u64,
    grants: BTreeMap<SessionId, Grant>,
    /// The sum over the grants: ceilings less bases.
    leased: Amount,
    /// The same of each owner.
    owned: BTreeMap<Digest, Amount>,
}

/// What the daemon may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// In a period.
    pub caps: Caps,
    /// Hours of a period, counted from 1970; none: all times are one.
    pub period_hours: Option<u32>,
}

impl Rules {
    /// The period of a time.
    pub fn period(&self, now: Timestamp) -> u64 {
        let Some(hours) = self.period_hours else {
            return 0;
        };
        let length = i64::from(hours.max(1)) * 3_600_000;
        u64::try_from(now.0.div_euclid(length)).unwrap_or(0)
    }
}

impl Broker {
    /// The fold of a journal.
    pub fn of<'l>(grants: impl IntoIterator<Item = &'l Grant>) -> Broker {
        let mut broker = Broker::default();
        for grant in grants {
            broker.apply(grant);
        }
        broker
    }

    /// Folds one entry.
    pub fn apply(&mut self, grant: &Grant) {
        if grant.period > self.period {
            self.begin(grant.period);
        }
        if let Some(before) = self.grants.insert(grant.session, *grant) {
            self.count(&before, |sum, held| sum - held);
        }
        self.count(grant, |sum, held| sum + held);
    }

    fn count(&mut self, grant: &Grant, change: fn(Amount, Amount) -> Amount) {
        let held = grant.ceiling - grant.base;
        self.leased = change(self.leased, held);
        if let Some(owner) = grant.owner {
            let owned = self.owned.entry(owner).or_default();
            *owned = change(*owned, held);
        }
    }

    /// What is granted in this period: spent, reserved, or granted and not used.
    pub fn leased(&self) -> Amount {
        self.leased
    }

    /// The same of the sessions of an owner.
    pub fn leased_by(&self, owner: Digest) -> Amount {
        self.owned.get(&owner).copied().unwrap_or_default()
    }

    /// A session's grant.
    pub fn grant(&self, session: SessionId) -> Option<&Grant> {
        self.grants.get(&session)
    }

    /// Those that held more than they had spent: what became of the rest, their journals say.
    pub fn holders(&self) -> impl Iterator<Item = SessionId> + '_ {
        let held = self.grants.values().filter(|of| of.ceiling != of.used);
        held.map(|grant| grant.session)
    }

    /// Every session's newest entry, which together make the same budget broker again.
    pub fn entries(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values()
    }

    /// Lets a session of that owner that stands so take on `needed` more, and half as much again where that is little of what is left, so that not every call asks.
    ///
    /// # Errors
    /// There is not enough left of the daemon's budget, or of the owner's.
    pub fn raise(
        &self,
        rules: &Rules,
        (session, owner): (SessionId, Option<OwnerBudget>),
        (session_use, needed): (SessionUse, Amount),
        now: Timestamp,
    ) -> Result<Grant, Shortage> {
        let broker = self.at(rules, now);
        let known = broker.grants.get(&session);
        // What it was granted in an earlier period counted there.
        let current = known.filter(|known| known.period == broker.period);
        let base = current.map_or(session_use.spent, |known| known.base);
        let own = known.map_or(Amount::ZERO, |known| known.ceiling - known.base);
        let used = session_use.in_use;
        let in_use = broker.leased - own + (used - base);
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

    /// The budget broker in the period of a time.
    pub(super) fn at(&self, rules: &Rules, now: Timestamp) -> Cow<'_, Broker> {
        let mut broker = Cow::Borrowed(self);
        if rules.period(now) > self.period {
            broker.to_mut().begin(rules.period(now));
        }
        broker
    }

    /// Takes back what a session does not need: from now on it may have no more in use than it
    /// has. None where that is known.
    pub fn lower(
        &self,
        rules: &Rules,
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

    /// As [`Broker::lower`] of a session that is no more, or cannot be read: all it held is spent,
    /// for all that is known. It counts in this period, and in none after it.
    pub fn close(&self, rules: &Rules, session: SessionId, now: Timestamp) -> Option<Grant> {
        let held = self.grants.get(&session)?.ceiling;
        let session_use = SessionUse {
            spent: held,
            in_use: held,
        };
        self.lower(rules, session, session_use, now)
    }

    /// What was used before does not count any more; who holds nothing is forgotten.
    fn begin(&mut self, period: u64) {
        self.period = period;
        self.grants.retain(|_, grant| grant.ceiling != grant.used);
        (self.leased, self.owned) = (Amount::ZERO, BTreeMap::new());
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
