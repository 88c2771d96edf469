//! The accounts of a session, its turns and their runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::call::Usage;
use unisono_context::cost::Cost;
use unisono_context::{Digest, RunId, Tokens, TurnId};

use super::{Amount, Caps, Level, Shortage, TurnCaps, describe_shortage, unknown_price};
use crate::ids;

/// The amounts that one level has in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Charged.
    pub spent: Amount,
    /// Reserved for calls in progress.
    pub open: Amount,
    /// Reserved for the last calls of runs that have begun.
    pub kept: Amount,
    /// Milliseconds of everything below it that has ended.
    pub time_ms: u64,
}

impl Account {
    /// Spent and reserved.
    pub fn in_use(&self) -> Amount {
        self.spent + self.open + self.kept
    }
}

/// What a run would like to ask its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRequest {
    /// Its number among the calls of the run, from 1; another number for each that is under way.
    pub call: u32,
    /// The model.
    pub model: Arc<str>,
    /// The most tokens, in and out.
    pub tokens: Tokens,
    /// The most it can cost; none: a price is not known.
    pub cost: Option<Cost>,
    /// The most that a last call after it can take; none: it is the last by itself.
    pub last: Option<(Tokens, Option<Cost>)>,
    /// Set where it can only be the last call: why.
    pub short: Option<Arc<str>>,
}

/// What is reserved for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its number among the calls of the run.
    pub call: u32,
    /// For the call.
    pub amount: Amount,
    /// For the run's last call, in place of what was kept for that before.
    pub keep: Amount,
    /// Set where this is the last call, because of a budget: which one.
    pub wrap_up: Option<Arc<str>>,
}

/// Whether a call may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may, once this is recorded.
    Granted(Reservation),
    /// Not before somebody else has freed something of that budget ([`crate::State::afford`] tells
    /// whether anybody will).
    Waits(Shortage),
    /// It may not, nor may a shorter one.
    Refused(Arc<str>),
}

/// A run's share.
#[derive(Clone, Debug, PartialEq)]
struct RunAccount {
    turn: TurnId,
    caps: Caps,
    account: Account,
    /// Calls under way, by number.
    calls: BTreeMap<u32, Reservation>,
    /// What was charged because somebody said so, not because nobody did.
    reported: Amount,
}

/// What was charged for a cancelled run of which something may come yet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CancelledCharge {
    turn: TurnId,
    charged: Amount,
    reported: Amount,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct TurnAccount {
    caps: TurnCaps,
    account: Account,
}

/// All accounts of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    caps: Caps,
    account: Account,
    turns: BTreeMap<TurnId, TurnAccount>,
    runs: BTreeMap<RunId, RunAccount>,
    lost: BTreeMap<RunId, CancelledCharge>,
}

impl Tree {
    /// A turn was accepted with these bounds; those of the session hold from now on.
    pub fn accept(&mut self, turn: TurnId, caps: TurnCaps) {
        self.caps = caps.session;
        self.turns.entry(turn).or_default().caps = caps;
        // No run: only what is above it bounds it.
        self.runs
            .insert(ids::summaries(turn), RunAccount::new(turn, Caps::NONE));
    }

    /// A run was opened.
    pub fn open(&mut self, turn: TurnId, run: RunId, definition: Digest) {
        let caps = self.turns.get(&turn).map(|turn| &turn.caps);
        let caps = caps.map_or(Caps::NONE, |caps| caps.for_run(definition));
        self.runs.insert(run, RunAccount::new(turn, caps));
    }

    /// The session's account.
    pub fn session(&self) -> &Account {
        &self.account
    }

    /// The account of a turn that has not ended.
    pub fn turn(&self, turn: TurnId) -> Option<&Account> {
        self.turns.get(&turn).map(|turn| &turn.account)
    }

    /// The account of a run that has not ended.
    pub fn run(&self, run: RunId) -> Option<&Account> {
        self.runs.get(&run).map(|run| &run.account)
    }

    /// The bounds of the session.
    pub fn session_caps(&self) -> Caps {
        self.caps
    }

    /// The bounds of a turn that has not ended.
    pub fn turn_caps(&self, turn: TurnId) -> Option<&TurnCaps> {
        self.turns.get(&turn).map(|turn| &turn.caps)
    }

    /// The bounds of a run that has not ended.
    pub fn run_caps(&self, run: RunId) -> Caps {
        self.runs.get(&run).map_or(Caps::NONE, |run| run.caps)
    }

    /// Whether calls of a run are bounded at any level of the session.
    pub fn is_bounded(&self, run: RunId) -> bool {
        let bounded = |caps: Caps| caps.tokens.is_some() || caps.cost.is_some();
        let mut levels = self.levels(run).into_iter().flatten();
        levels.any(|(_, _, caps)| bounded(caps))
    }

    /// Whether a call may be made now. One that does not fit beside what is reserved waits for
    /// that; where so much is spent that waiting does not help, or its run was told not to wait
    /// ([`Ask::short`]), it is the last one, for which a run that has begun has kept enough.
    pub fn afford(&self, run: RunId, ask: &ReservationRequest) -> Verdict {
        let Some(known) = self.runs.get(&run) else {
            return Verdict::Refused("the run is not open".into());
        };
        let unpriced = ask.cost.is_none() || matches!(ask.last, Some((_, None)));
        if let Some(level) = self.capped_cost(run).filter(|_| unpriced) {
            return Verdict::Refused(unknown_price(&ask.model, level));
        }
        // Asked twice, granted once.
        if let Some(made) = known.calls.get(&ask.call) {
            return Verdict::Granted(made.clone());
        }
        let amount = priced(ask.tokens, ask.cost);
        let keep = ask
            .last
            .map_or(Amount::ZERO, |(tokens, cost)| priced(tokens, cost));
        let own = known.account.kept;
        let granted = |keep, wrap_up| {
            Verdict::Granted(Reservation {
                call: ask.call,
                amount,
                keep,
                wrap_up,
            })
        };
        let short = match (&ask.short, self.fits(run, own, amount + keep)) {
            (Some(short), _) => short.clone(),
            (None, BudgetFit::Fits) => return granted(keep, None),
            (None, BudgetFit::Later(short)) => return Verdict::Waits(short),
            (None, BudgetFit::Never(short)) => describe_shortage(&short),
        };
        match self.fits(run, own, amount) {
            BudgetFit::Fits => granted(Amount::ZERO, ask.last.is_some().then_some(short)),
            BudgetFit::Later(short) => Verdict::Waits(short),
            BudgetFit::Never(short) => Verdict::Refused(short.to_string().into()),
        }
    }

    /// Reserves what was granted, in place of what was reserved for the same call before.
    pub fn reserve(&mut self, run: RunId, reservation: &Reservation) {
        let Some(known) = self.runs.get_mut(&run) else {
            return;
        };
        let before = known.calls.insert(reservation.call, reservation.clone());
        let before = before.map_or(Amount::ZERO, |before| before.amount);
        let (amount, keep, kept) = (reservation.amount, reservation.keep, known.account.kept);
        self.change_accounts(run, |account| {
            account.open = account.open + amount - before;
            account.kept = account.kept + keep - kept;
        });
    }

    /// A call has ended: charges what it used, and frees what was reserved for it. `told` is
    /// false where nobody said what it used.
    pub fn settle(&mut self, run: RunId, call: u32, used: Amount, reported: bool) {
        let Some(known) = self.runs.get_mut(&run) else {
            return;
        };
        let freed = known.calls.remove(&call);
        let freed = freed.map_or(Amount::ZERO, |call| call.amount);
        if reported {
            known.reported = known.reported + used;
        }
        self.charge(run, used, freed);
    }

    /// The turn of a run that has not ended, or of requests for summaries ([`ids::summaries`]).
    pub fn turn_of(&self, run: RunId) -> Option<TurnId> {
        self.runs.get(&run).map(|run| run.turn)
    }

    /// Whether a call of a run is under way.
    pub fn has_call_under_way(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|run| !run.calls.is_empty())
    }

    /// Whether a run that has begun keeps something for its last call.
    pub fn keeps_last_call(&self, run: RunId) -> bool {
        let kept = self.runs.get(&run).map(|run| run.account.kept);
        kept.is_some_and(|kept| kept != Amount::ZERO)
    }

    /// What was reserved for a call that is under way.
    pub fn reserved(&self, run: RunId, call: u32) -> Option<&Reservation> {
        self.runs.get(&run)?.calls.get(&call)
    }

    /// Runs with calls under way, and what is reserved for those.
    pub fn under_way(&self) -> Vec<(RunId, Reservation)> {
        let runs = self.runs.iter();
        runs.flat_map(|(run, known)| known.calls.values().map(|call| (*run, call.clone())))
            .collect()
    }

    /// What is reserved for the calls of a run that are under way.
    pub fn calls(&self, run: RunId) -> Vec<Reservation> {
        let calls = self.runs.get(&run).map(|run| run.calls.values().cloned());
        calls.into_iter().flatten().collect()
    }

    /// A reply of the run's model is recorded. One whose provider did not say what it used is
    /// charged at its worst case.
    pub fn charge_reply(&mut self, run: RunId, usage: &Usage) {
        let Some(known) = self.runs.get_mut(&run) else {
            return;
        };
        let freed = known.take_calls();
        let used = usage_or_worst_case(usage, freed);
        known.reported = known.reported + Amount::from_usage(usage);
        self.charge(run, used, freed);
    }

    /// An attempt failed: of its calls that are under way nobody will say what they used.
    pub fn lose_attempt(&mut self, run: RunId) {
        if let Some(known) = self.runs.get_mut(&run) {
            let lost = known.take_calls();
            self.charge(run, lost, lost);
        }
    }

    /// A run has ended: what is not charged yet is, and nothing stays reserved for it. Calls
    /// under way of which nobody said how they ended count as their worst case.
    pub fn end(&mut self, run: RunId, how: RunEnd<'_>) {
        let Some(known) = self.runs.get_mut(&run) else {
            return;
        };
        let freed = known.take_calls();
        let used = match how {
            RunEnd::Finished(all) => {
                let rest = Amount::from_usage(all) - known.reported;
                Amount {
                    // Where the cost is not told, it is that of the last call at worst.
                    cost: all.cost.map_or(freed.cost, |_| rest.cost),
                    ..rest
                }
            }
            RunEnd::Failed | RunEnd::Cancelled => freed,
        };
        self.charge(run, used, freed);
        let Some(known) = self.runs.remove(&run) else {
            return;
        };
        let kept = known.account.kept;
        self.above(known.turn, |account| account.kept = account.kept - kept);
        if matches!(how, RunEnd::Cancelled) {
            let lost = CancelledCharge {
                turn: known.turn,
                charged: freed,
                reported: known.reported,
            };
            self.lost.insert(run, lost);
        }
    }

    /// Something came of a run after it was cancelled: what it used takes the place of the worst
    /// case. `whole`: of all calls of the run.
    pub fn charge_late(&mut self, run: RunId, usage: &Usage, whole: bool) {
        let Some(lost) = self.lost.get_mut(&run) else {
            return;
        };
        let mut used = Amount::from_usage(usage);
        if whole {
            used = used - lost.reported;
        }
        let (turn, refund) = (lost.turn, lost.charged);
        lost.charged = Amount::ZERO;
        lost.reported = lost.reported + used;
        self.above(turn, |account| {
            account.spent = account.spent + used - refund
        });
    }

    /// A part of what a call of a run used that was cancelled meanwhile: what is left of its worst
    /// case stays charged.
    pub fn charge_late_part(&mut self, run: RunId, usage: &Usage) {
        let Some(lost) = self.lost.get_mut(&run) else {
            return;
        };
        let used = Amount::from_usage(usage);
        let rest = lost.charged - used;
        let (turn, refund) = (lost.turn, lost.charged - rest);
        lost.charged = rest;
        lost.reported = lost.reported + used;
        self.above(turn, |account| {
            account.spent = account.spent + used - refund
        });
    }

    /// A model has replied to a request for a summary.
    pub fn charge_summary(&mut self, turn: TurnId, usage: &Usage) {
        let summaries = ids::summaries(turn);
        if self.runs.contains_key(&summaries) {
            return self.charge_reply(summaries, usage);
        }
        // The turn has ended meanwhile.
        let used = Amount::from_usage(usage);
        self.above(turn, |account| account.spent = account.spent + used);
    }

    /// A turn has ended, after so many milliseconds; its runs have before.
    pub fn end_turn(&mut self, turn: TurnId, time_ms: u64) {
        self.end(ids::summaries(turn), RunEnd::Failed);
        self.turns.remove(&turn);
        self.account.time_ms = self.account.time_ms.saturating_add(time_ms);
    }

    fn charge(&mut self, run: RunId, used: Amount, freed: Amount) {
        self.change_accounts(run, |account| {
            account.spent = account.spent + used;
            account.open = account.open - freed;
        });
    }

    /// Changes the account of a run, and those above it in the same way.
    fn change_accounts(&mut self, run: RunId, change: impl Fn(&mut Account)) {
        let Some(known) = self.runs.get_mut(&run) else {
            return;
        };
        change(&mut known.account);
        let turn = known.turn;
        self.above(turn, change);
    }

    fn above(&mut self, turn: TurnId, change: impl Fn(&mut Account)) {
        if let Some(turn) = self.turns.get_mut(&turn) {
            change(&mut turn.account);
        }
        change(&mut self.account);
    }

    /// The levels a run stands on: its own, its turn's, the session's.
    fn levels(&self, run: RunId) -> [Option<(Level, &Account, Caps)>; 3] {
        let Some(run) = self.runs.get(&run) else {
            return [None; 3];
        };
        let turn = self.turns.get(&run.turn);
        [
            Some((Level::Run, &run.account, run.caps)),
            turn.map(|turn| (Level::Turn, &turn.account, turn.caps.turn)),
            Some((Level::Session, &self.account, self.caps)),
        ]
    }

    /// The lowest level that caps the cost.
    fn capped_cost(&self, run: RunId) -> Option<Level> {
        let mut levels = self.levels(run).into_iter().flatten();
        let found = levels.find(|(_, _, caps)| caps.cost.is_some());
        found.map(|(level, ..)| level)
    }

    /// Whether so much fits at every level, in place of what the run has kept.
    fn fits(&self, run: RunId, own: Amount, needed: Amount) -> BudgetFit {
        let mut later = None;
        for (level, account, caps) in self.levels(run).into_iter().flatten() {
            let Some(short) = caps.shortage(level, account.in_use() - own, needed) else {
                continue;
            };
            if let Some(short) = caps.shortage(level, account.spent, needed) {
                return BudgetFit::Never(short);
            }
            later = Some(short);
        }
        later.map_or(BudgetFit::Fits, BudgetFit::Later)
    }
}

/// How a run ended, as far as its account is concerned.
#[derive(Clone, Copy, Debug)]
pub enum RunEnd<'u> {
    /// With a result; all of its calls used so much.
    Finished(&'u Usage),
    /// Without one.
    Failed,
    /// Somebody stopped it: something may come of it yet.
    Cancelled,
}

enum BudgetFit {
    Fits,
    /// Once something that is reserved was freed.
    Later(Shortage),
    /// So much is spent.
    Never(Shortage),
}

impl RunAccount {
    fn new(turn: TurnId, caps: Caps) -> RunAccount {
        RunAccount {
            turn,
            caps,
            account: Account::default(),
            calls: BTreeMap::new(),
            reported: Amount::ZERO,
        }
    }

    fn take_calls(&mut self) -> Amount {
        let calls = std::mem::take(&mut self.calls);
        calls
            .into_values()
            .fold(Amount::ZERO, |sum, call| sum + call.amount)
    }
}

/// What a call used; where its provider did not say so, its worst case.
fn usage_or_worst_case(usage: &Usage, worst: Amount) -> Amount {
    let used = Amount::from_usage(usage);
    Amount {
        tokens: if used.tokens == Tokens::ZERO {
            worst.tokens
        } else {
            used.tokens
        },
        cost: usage.cost.unwrap_or(worst.cost),
    }
}

fn priced(tokens: Tokens, cost: Option<Cost>) -> Amount {
    Amount {
        tokens,
        cost: cost.unwrap_or(Cost::ZERO),
    }
}
