//! The accounts of a session, its turns and their runs.

mod cancelled;

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::call::Usage;
use unisono_context::cost::Cost;
use unisono_context::{Digest, RunId, Tokens, TurnId};

use super::{Amount, Caps, Level, Shortage, TurnCaps, describe_shortage, unknown_price};
use crate::ids;
use cancelled::CancelledCharge;

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

    fn charge(&mut self, used: Amount, freed: Amount) {
        self.spent = self.spent + used;
        self.open = self.open - freed;
    }
}

/// A request to reserve the next model call of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRequest {
    /// The number of the call in the run, from 1. Each call in progress has its own number.
    pub call: u32,
    /// The model.
    pub model: Arc<str>,
    /// The maximum number of tokens, input and output.
    pub tokens: Tokens,
    /// The maximum cost; none: a price is unknown.
    pub cost: Option<Cost>,
    /// The maximum of a last call after it; none: this call is the last one.
    pub last: Option<(Tokens, Option<Cost>)>,
    /// The reason why it can only be the last call, if it can.
    pub short: Option<Arc<str>>,
}

impl ReservationRequest {
    /// Whether a price is unknown.
    pub fn is_unpriced(&self) -> bool {
        self.cost.is_none() || matches!(self.last, Some((_, None)))
    }
}

/// The reservation of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The number of the call in the run.
    pub call: u32,
    /// The amount for the call.
    pub amount: Amount,
    /// The amount for the run's last call. It replaces the amount that was kept for that before.
    pub keep: Amount,
    /// The budget because of which this is the last call; none: it is not the last.
    pub wrap_up: Option<Arc<str>>,
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be made once this reservation is recorded.
    Granted(Reservation),
    /// It waits until somebody releases a part of that budget ([`crate::State::afford`] says
    /// whether anybody will).
    Waits(Shortage),
    /// It may not be made, and neither may a shorter one.
    Refused(Arc<str>),
}

#[derive(Clone, Debug, PartialEq)]
struct RunAccount {
    turn: TurnId,
    caps: Caps,
    account: Account,
    /// Calls in progress, by number: few.
    calls: Vec<Reservation>,
    /// The charged amounts that were reported, without the worst cases that were charged instead.
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
    turns: BTreeMap<TurnId, Box<TurnAccount>>,
    runs: BTreeMap<RunId, RunAccount>,
    /// Cancelled runs whose late output may still arrive; copies for inspection share it.
    lost: Arc<BTreeMap<RunId, CancelledCharge>>,
}

impl Tree {
    /// Opens the account of an accepted turn. Its limits for the session apply from now on.
    pub fn accept(&mut self, turn: TurnId, caps: TurnCaps) {
        self.caps = caps.session;
        self.turns.entry(turn).or_default().caps = caps;
        self.open_summaries(turn);
    }

    /// Opens the account for requests for summaries. Only the levels above limit them.
    pub fn open_summaries(&mut self, turn: TurnId) {
        let account = RunAccount::new(turn, Caps::NONE);
        self.runs.insert(ids::summaries(turn), account);
    }

    /// Closes that account. Calls in progress count as their worst case.
    pub fn close_summaries(&mut self, turn: TurnId) {
        self.end(ids::summaries(turn), RunEnd::Failed);
    }

    /// Opens the account of a run.
    pub fn open(&mut self, turn: TurnId, run: RunId, definition: Digest) {
        let turns = self.turns.get(&turn);
        let caps = turns.map_or(Caps::NONE, |turn| turn.caps.for_run(definition));
        self.runs.insert(run, RunAccount::new(turn, caps));
    }

    /// The session's account.
    pub fn session(&self) -> &Account {
        &self.account
    }

    /// The account of an open turn.
    pub fn turn(&self, turn: TurnId) -> Option<&Account> {
        self.turns.get(&turn).map(|turn| &turn.account)
    }

    /// The account of an open run.
    pub fn run(&self, run: RunId) -> Option<&Account> {
        self.runs.get(&run).map(|run| &run.account)
    }

    /// The limits of the session.
    pub fn session_caps(&self) -> Caps {
        self.caps
    }

    /// The limits of an open turn.
    pub fn turn_caps(&self, turn: TurnId) -> Option<&TurnCaps> {
        self.turns.get(&turn).map(|turn| &turn.caps)
    }

    /// The limits of an open run.
    pub fn run_caps(&self, run: RunId) -> Caps {
        self.runs.get(&run).map_or(Caps::NONE, |run| run.caps)
    }

    /// Whether calls of a run are limited at any level of the session.
    pub fn is_bounded(&self, run: RunId) -> bool {
        let bounded = |caps: Caps| caps.tokens.is_some() || caps.cost.is_some();
        let levels = self.runs.get(&run).map(|known| self.levels(known));
        let mut levels = levels.into_iter().flatten().flatten();
        levels.any(|(_, _, caps)| bounded(caps))
    }

    /// Whether a call may be made now. A call that does not fit beside the reservations waits for
    /// them. If so much is spent that waiting does not help, or the run must not wait
    /// ([`ReservationRequest::short`]), it is the last call; a run that has begun has kept enough
    /// for it.
    pub fn afford(&self, run: RunId, ask: &ReservationRequest) -> Verdict {
        let Some(known) = self.runs.get(&run) else {
            return Verdict::Refused("the run is not open".into());
        };
        if ask.is_unpriced()
            && let Some(level) = self.capped_cost(known)
        {
            return Verdict::Refused(unknown_price(&ask.model, level));
        }
        // A repeated request is granted once.
        if let Some(made) = known.call(ask.call) {
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
        let short = match (&ask.short, self.fits(known, own, amount + keep)) {
            (Some(short), _) => short.clone(),
            (None, BudgetFit::Fits) => return granted(keep, None),
            (None, BudgetFit::Later(short)) => return Verdict::Waits(short),
            (None, BudgetFit::Never(short)) => describe_shortage(&short),
        };
        match self.fits(known, own, amount) {
            BudgetFit::Fits => granted(Amount::ZERO, ask.last.is_some().then_some(short)),
            BudgetFit::Later(short) => Verdict::Waits(short),
            BudgetFit::Never(short) => Verdict::Refused(short.to_string().into()),
        }
    }

    /// Makes a granted reservation. It replaces an earlier one of the same call.
    pub fn reserve(&mut self, run: RunId, reservation: &Reservation) {
        let Some(known) = self.runs.get_mut(&run) else {
            return;
        };
        let before = known.take_call(reservation.call);
        let before_it = |call: &Reservation| call.call < reservation.call;
        let at = known.calls.partition_point(before_it);
        known.calls.insert(at, reservation.clone());
        let (amount, keep, kept) = (reservation.amount, reservation.keep, known.account.kept);
        let change = |account: &mut Account| {
            account.open = account.open + amount - before;
            account.kept = account.kept + keep - kept;
        };
        change(&mut known.account);
        let turn = known.turn;
        self.above(turn, change);
    }

    /// Charges the usage of a call that has ended, and releases its reservation. `reported` is
    /// false if the usage is unknown.
    pub fn settle(&mut self, run: RunId, call: u32, used: Amount, reported: bool) {
        let Some(known) = self.runs.get_mut(&run) else {
            return;
        };
        let freed = known.take_call(call);
        if reported {
            known.reported = known.reported + used;
        }
        let turn = known.charge(used, freed);
        self.above(turn, |account| account.charge(used, freed));
    }

    /// The turn of an open run, or of requests for summaries ([`ids::summaries`]).
    pub fn turn_of(&self, run: RunId) -> Option<TurnId> {
        self.runs.get(&run).map(|run| run.turn)
    }

    /// Whether a call of the run is in progress that will release more than the smallest amount.
    pub fn has_call_under_way(&self, run: RunId) -> bool {
        let mut calls = self.calls(run).iter();
        calls.any(|call| !call.amount.is_within(Amount::LEAST))
    }

    /// Whether the run has begun and keeps an amount for its last call.
    pub fn keeps_last_call(&self, run: RunId) -> bool {
        let kept = self.runs.get(&run).map(|run| run.account.kept);
        kept.is_some_and(|kept| kept != Amount::ZERO)
    }

    /// The reservation of a call in progress.
    pub fn reserved(&self, run: RunId, call: u32) -> Option<&Reservation> {
        self.runs.get(&run)?.call(call)
    }

    /// Runs with calls in progress, and the reservations of these calls.
    pub fn under_way(&self) -> Vec<(RunId, Reservation)> {
        let runs = self.runs.iter();
        runs.flat_map(|(run, known)| known.calls.iter().map(|call| (*run, call.clone())))
            .collect()
    }

    /// The reservations of the calls in progress of a run.
    pub fn calls(&self, run: RunId) -> &[Reservation] {
        self.runs.get(&run).map_or(&[], |run| &run.calls)
    }

    /// Charges a recorded reply of the run's model: its usage, or its worst case if the provider
    /// did not report the usage.
    pub fn charge_reply(&mut self, run: RunId, usage: &Usage) {
        let Some(known) = self.runs.get_mut(&run) else {
            return;
        };
        let freed = known.take_calls();
        let used = usage_or_worst_case(usage, freed);
        known.reported = known.reported + Amount::from_usage(usage);
        let turn = known.charge(used, freed);
        self.above(turn, |account| account.charge(used, freed));
    }

    /// Charges the calls in progress of a failed attempt: their usage will never be known.
    pub fn lose_attempt(&mut self, run: RunId) {
        if let Some(known) = self.runs.get_mut(&run) {
            let lost = known.take_calls();
            let turn = known.charge(lost, lost);
            self.above(turn, |account| account.charge(lost, lost));
        }
    }

    /// Closes the account of a run: charges the rest of its usage and releases its reservations.
    /// Calls in progress with unknown usage count as their worst case.
    pub fn end(&mut self, run: RunId, how: RunEnd<'_>) {
        let Some(mut known) = self.runs.remove(&run) else {
            return;
        };
        let (freed, kept) = (known.take_calls(), known.account.kept);
        let used = match how {
            RunEnd::Finished(all) => rest_or_worst_case(all, known.reported, freed),
            RunEnd::Failed | RunEnd::Cancelled => freed,
        };
        self.above(known.turn, |account| {
            account.charge(used, freed);
            account.kept = account.kept - kept;
        });
        if matches!(how, RunEnd::Cancelled) {
            let lost = CancelledCharge {
                turn: known.turn,
                charged: freed,
                reported: known.reported,
            };
            Arc::make_mut(&mut self.lost).insert(run, lost);
        }
    }

    /// Charges a reply to a request for a summary.
    pub fn charge_summary(&mut self, turn: TurnId, usage: &Usage) {
        let summaries = ids::summaries(turn);
        if self.runs.contains_key(&summaries) {
            return self.charge_reply(summaries, usage);
        }
        // The turn has ended meanwhile.
        let used = Amount::from_usage(usage);
        self.above(turn, |account| account.spent = account.spent + used);
    }

    /// Closes the account of a turn after this many milliseconds. Its runs are closed before.
    pub fn end_turn(&mut self, turn: TurnId, time_ms: u64) {
        self.close_summaries(turn);
        self.turns.remove(&turn);
        self.account.time_ms = self.account.time_ms.saturating_add(time_ms);
    }

    fn above(&mut self, turn: TurnId, change: impl Fn(&mut Account)) {
        if let Some(turn) = self.turns.get_mut(&turn) {
            change(&mut turn.account);
        }
        change(&mut self.account);
    }

    /// The levels of a run: its own, its turn's and the session's.
    fn levels<'a>(&'a self, run: &'a RunAccount) -> [Option<(Level, &'a Account, Caps)>; 3] {
        let turn = self.turns.get(&run.turn);
        [
            Some((Level::Run, &run.account, run.caps)),
            turn.map(|turn| (Level::Turn, &turn.account, turn.caps.turn)),
            Some((Level::Session, &self.account, self.caps)),
        ]
    }

    /// The lowest level with a cost limit.
    fn capped_cost(&self, run: &RunAccount) -> Option<Level> {
        let mut levels = self.levels(run).into_iter().flatten();
        levels.find_map(|(level, _, caps)| caps.cost.is_some().then_some(level))
    }

    /// Whether an amount fits at every level, in place of the amount that the run has kept.
    fn fits(&self, run: &RunAccount, own: Amount, needed: Amount) -> BudgetFit {
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

/// The end of a run, for its account.
#[derive(Clone, Copy, Debug)]
pub enum RunEnd<'u> {
    /// With a result; this is the usage of all its calls.
    Finished(&'u Usage),
    /// Without a result.
    Failed,
    /// Cancelled: late output may still arrive.
    Cancelled,
}

enum BudgetFit {
    Fits,
    /// After a reservation is released.
    Later(Shortage),
    /// Too much is spent.
    Never(Shortage),
}

impl RunAccount {
    fn new(turn: TurnId, caps: Caps) -> RunAccount {
        RunAccount {
            turn,
            caps,
            account: Account::default(),
            calls: Vec::new(),
            reported: Amount::ZERO,
        }
    }

    fn call(&self, number: u32) -> Option<&Reservation> {
        self.calls.iter().find(|call| call.call == number)
    }

    /// Removes the reservation of a call and returns its amount.
    fn take_call(&mut self, number: u32) -> Amount {
        let at = self.calls.iter().position(|call| call.call == number);
        at.map_or(Amount::ZERO, |at| self.calls.remove(at).amount)
    }

    fn take_calls(&mut self) -> Amount {
        let calls = self.calls.drain(..);
        calls.fold(Amount::ZERO, |sum, call| sum + call.amount)
    }

    /// Charges the run's own account; returns its turn.
    fn charge(&mut self, used: Amount, freed: Amount) -> TurnId {
        self.account.charge(used, freed);
        self.turn
    }
}

/// The usage of a call, or its worst case if the provider did not report it.
pub(crate) fn usage_or_worst_case(usage: &Usage, worst: Amount) -> Amount {
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

/// The part of a run's usage that was not reported before, or the worst case of its last call if the
/// provider did not report the usage of that one.
pub(crate) fn rest_or_worst_case(all: &Usage, reported: Amount, worst: Amount) -> Amount {
    let rest = Amount::from_usage(all) - reported;
    Amount {
        tokens: if rest.tokens == Tokens::ZERO {
            worst.tokens
        } else {
            rest.tokens
        },
        cost: all.cost.map_or(worst.cost, |_| rest.cost),
    }
}

fn priced(tokens: Tokens, cost: Option<Cost>) -> Amount {
    Amount {
        tokens,
        cost: cost.unwrap_or(Cost::ZERO),
    }
}
