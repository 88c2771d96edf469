//! The daemon's level: what all sessions together may use, leased to them in slices.
//!
//! A session holds a lease up to a *ceiling*: all it has ever spent and set aside stays at or
//! below that. To go further it has the ceiling raised, which is recorded here before it is told;
//! what it does not need any more it gives back by having the ceiling lowered. Both say absolute
//! numbers, so that saying them twice changes nothing and a crash between the two journals leaves
//! a ceiling that is too high at worst, never one that is too low.
//!
//! With a period, what was used in earlier ones does not count; what a session was lent and has
//! not used counts on until it asks again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use unisono_context::cost::Cost;
use unisono_context::{SessionId, Timestamp, Tokens};

use super::{Amount, Caps, Level, Shortage};

/// A session is lent more than it asked for while so many times that much is left.
const SPARE: u64 = 16;

/// One entry of the daemon's journal: how a session stands from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
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
}

/// How a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// All it has ever spent.
    pub spent: Amount,
    /// That, and what is set aside.
    pub in_use: Amount,
}

/// The daemon's account, as the fold of its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct House {
    period: u64,
    leases: BTreeMap<SessionId, Lease>,
    /// The sum over the leases: ceilings less bases.
    leased: Amount,
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

impl House {
    /// The fold of a journal.
    pub fn of<'l>(leases: impl IntoIterator<Item = &'l Lease>) -> House {
        let mut house = House::default();
        for lease in leases {
            house.apply(lease);
        }
        house
    }

    /// Folds one entry.
    pub fn apply(&mut self, lease: &Lease) {
        if lease.period > self.period {
            self.begin(lease.period);
        }
        let before = self.leases.insert(lease.session, *lease);
        let before = before.map_or(Amount::ZERO, |before| before.ceiling - before.base);
        self.leased = self.leased + (lease.ceiling - lease.base) - before;
    }

    /// What is leased in this period: spent, set aside, or lent and not used.
    pub fn leased(&self) -> Amount {
        self.leased
    }

    /// A session's lease.
    pub fn lease(&self, session: SessionId) -> Option<&Lease> {
        self.leases.get(&session)
    }

    /// Those that held more than they had spent: what became of the rest, their journals say.
    pub fn holders(&self) -> impl Iterator<Item = SessionId> + '_ {
        let held = self.leases.values().filter(|of| of.ceiling != of.used);
        held.map(|lease| lease.session)
    }

    /// Every session's newest entry, which together make the same house again.
    pub fn entries(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// Lets a session that stands so take on `needed` more, and half as much again where that is little of what is left, so that not every call asks.
    ///
    /// # Errors
    /// There is not enough left.
    pub fn raise(
        &self,
        rules: &Rules,
        session: SessionId,
        (standing, needed): (Standing, Amount),
        now: Timestamp,
    ) -> Result<Lease, Shortage> {
        let house = self.at(rules, now);
        let known = house.leases.get(&session);
        // What it was lent in an earlier period counted there.
        let current = known.filter(|known| known.period == house.period);
        let base = current.map_or(standing.spent, |known| known.base);
        let own = known.map_or(Amount::ZERO, |known| known.ceiling - known.base);
        let used = standing.in_use;
        let in_use = house.leased - own + (used - base);
        if let Some(short) = rules.caps.shortage(Level::Daemon, in_use, needed) {
            return Err(short);
        }
        let spare = half(needed);
        let plenty = Amount {
            tokens: spare.tokens.times(SPARE),
            cost: Cost(spare.cost.0.saturating_mul(SPARE.into())),
        };
        let scarce = rules.caps.shortage(Level::Daemon, in_use + needed, plenty);
        let lease = Lease {
            session,
            period: house.period,
            base,
            used: standing.spent,
            ceiling: match scarce {
                Some(_) => used + needed,
                None => used + needed + spare,
            },
        };
        Ok(lease)
    }

    /// The house in the period of a time.
    pub(super) fn at(&self, rules: &Rules, now: Timestamp) -> Cow<'_, House> {
        let mut house = Cow::Borrowed(self);
        if rules.period(now) > self.period {
            house.to_mut().begin(rules.period(now));
        }
        house
    }

    /// Takes back what a session does not need: from now on it may have no more in use than it
    /// has. None where that is known.
    pub fn lower(
        &self,
        rules: &Rules,
        session: SessionId,
        standing: Standing,
        now: Timestamp,
    ) -> Option<Lease> {
        let known = self.leases.get(&session)?;
        let lease = Lease {
            used: standing.spent,
            ceiling: standing.in_use,
            ..*known
        };
        let changed = lease != *known;
        changed.then(|| {
            let period = rules.period(now).max(self.period);
            let base = if period > self.period {
                known.used
            } else {
                known.base
            };
            Lease {
                period,
                base,
                ..lease
            }
        })
    }

    /// As [`House::lower`] of a session that is no more, or cannot be read: all it held is spent,
    /// for all that is known. It counts in this period, and in none after it.
    pub fn close(&self, rules: &Rules, session: SessionId, now: Timestamp) -> Option<Lease> {
        let held = self.leases.get(&session)?.ceiling;
        let standing = Standing {
            spent: held,
            in_use: held,
        };
        self.lower(rules, session, standing, now)
    }

    /// What was used before does not count any more; who holds nothing is forgotten.
    fn begin(&mut self, period: u64) {
        self.period = period;
        self.leases.retain(|_, lease| lease.ceiling != lease.used);
        self.leased = Amount::ZERO;
        for lease in self.leases.values_mut() {
            lease.base = lease.used;
            self.leased = self.leased + (lease.ceiling - lease.base);
        }
    }
}

fn half(amount: Amount) -> Amount {
    Amount {
        tokens: Tokens(amount.tokens.0 / 2),
        cost: Cost(amount.cost.0 / 2),
    }
}
