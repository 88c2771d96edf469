//! Decides whether a run's next model call is within its budgets, including time.

use unisono_context::{RunId, Timestamp, TurnId};

use crate::budget::{
    self, BudgetStatus, Level, ReservationRequest, Resource, Shortage, Tree, Verdict,
};
use crate::ids;
use crate::run::Run;
use crate::state::State;
use crate::turn::{Phase, Turn};

/// The share of the remaining time for the last call: a tenth.
const LAST_CALL_SHARE: u64 = 10;

impl State {
    /// The spent and reserved amounts.
    pub fn budget(&self) -> &Tree {
        &self.budget
    }

    /// The limits of the session, and of one of its open turns.
    pub fn budgets(&self, turn: Option<TurnId>, now: Timestamp) -> Vec<BudgetStatus> {
        let of_turn = turn.map(|turn| self.turn_budgets(turn, now));
        let of_turn = of_turn.into_iter().flatten();
        of_turn.chain(self.session_budgets(now)).collect()
    }

    /// The limits of the session.
    pub fn session_budgets(&self, now: Timestamp) -> Vec<BudgetStatus> {
        let tree = self.budget();
        let open = self.open_turns();
        let under_way = open.map(|turn| turn.elapsed_ms(now)).sum::<u64>();
        let account = tree.session();
        let reserved = account.open + account.kept;
        let time = account.time_ms.saturating_add(under_way);
        let caps = tree.session_caps();
        caps.left(Level::Session, account.spent, reserved, time)
            .collect()
    }

    /// The limits of an open turn; none of another one.
    pub fn turn_budgets(&self, turn: TurnId, now: Timestamp) -> Vec<BudgetStatus> {
        let tree = self.budget();
        let of_turn = tree.turn(turn).zip(tree.turn_caps(turn));
        let Some(((account, caps), turn)) = of_turn.zip(self.turn(turn)) else {
            return Vec::new();
        };
        let (reserved, time) = (account.open + account.kept, turn.elapsed_ms(now));
        let left = caps.turn.left(Level::Turn, account.spent, reserved, time);
        left.collect()
    }

    /// The limits of an open run; none of another one.
    pub fn run_budgets(&self, run: RunId, now: Timestamp) -> Vec<BudgetStatus> {
        let Some((account, known)) = self.budget.run(run).zip(self.runs.get(&run)) else {
            return Vec::new();
        };
        let (reserved, time) = (account.open + account.kept, elapsed(known.opened_at, now));
        let caps = self.budget.run_caps(run);
        let left = caps.left(Level::Run, account.spent, reserved, time);
        left.collect()
    }

    /// Whether model calls of a run are limited, so that they must be reserved first
    /// ([`crate::Input::Reserve`]).
    pub fn is_bounded(&self, run: RunId) -> bool {
        let of_run = self.runs.get(&run);
        let turn = self.budget.turn_of(run);
        let turn = turn.and_then(|turn| self.turns.get(&turn));
        let timed = turn.is_some_and(|turn| {
            let mut levels = self.times(turn, of_run.map(|run| (run.id, run.opened_at)));
            levels.any(|(_, cap, _)| cap.is_some())
        });
        timed || self.budget.is_bounded(run)
    }

    /// Whether a call of a run may be made now; none if its attempt is not in progress. It waits
    /// only while an amount may be released: `waits` says which runs' calls wait for their budgets.
    pub fn afford(
        &self,
        (run, attempt): (RunId, u32),
        ask: &ReservationRequest,
        waits: impl Fn(RunId) -> bool,
        now: Timestamp,
    ) -> Option<Verdict> {
        if self.is_preparing(run) {
            // It does not wait for others, and nobody waits for it.
            let verdict = self.budget.afford(run, ask);
            return Some(match verdict {
                Verdict::Waits(short) => Verdict::Refused(short.to_string().into()),
                verdict => verdict,
            });
        }
        let (turn, opened) = match self.runs.get(&run) {
            Some(known) if known.is_open() && known.attempt == attempt => {
                (known.turn, Some((run, known.opened_at)))
            }
            Some(_) => return None,
            None => (self.summarising_turn(run, attempt)?, None),
        };
        let turn = self.turns.get(&turn)?;
        let mut ask = ask.clone();
        // A repeated call has the same reason and the same bytes.
        if let Some(why) = self.runs.get(&run).and_then(Run::wrap_up_reason) {
            ask.short.get_or_insert_with(|| why.clone());
        }
        for (level, cap, since) in self.times(turn, opened) {
            let Some(cap) = cap else { continue };
            let elapsed = elapsed(since, now);
            if elapsed >= cap {
                let why = out_of_time(level, cap).to_string();
                return Some(Verdict::Refused(why.into()));
            }
            if elapsed >= cap - cap / LAST_CALL_SHARE {
                ask.short
                    .get_or_insert_with(|| budget::describe_shortage(&out_of_time(level, cap)));
            }
        }
        loop {
            let verdict = self.budget.afford(run, &ask);
            let Verdict::Waits(short) = verdict else {
                return Some(verdict);
            };
            if self.may_free(short.level, run, &waits) {
                return Some(verdict);
            }
            if ask.short.is_some() {
                return Some(Verdict::Refused(short.to_string().into()));
            }
            ask.short = Some(budget::describe_shortage(&short));
        }
    }

    /// Whether an amount at a level may be released while a run waits: a call is in progress, or a
    /// run with a kept amount can continue by itself.
    fn may_free(&self, level: Level, asker: RunId, waits: &impl Fn(RunId) -> bool) -> bool {
        let turn = self.budget.turn_of(asker);
        let beside = |of: TurnId| match level {
            Level::Run => false,
            Level::Turn => Some(of) == turn,
            Level::Session | Level::Owner | Level::Daemon => true,
        };
        let is_above = !matches!(level, Level::Run | Level::Turn);
        if is_above && self.has_preparation_call() {
            return true;
        }
        let turns = self.turns.iter().filter(|(of, _)| beside(**of));
        let mut turns = turns.map(|(_, turn)| turn);
        turns.any(|turn| self.frees_in(turn, Some(asker), waits))
            || self.budget.has_call_under_way(asker)
    }

    /// Whether a part of the session's budgets will be released without any other release before.
    pub fn is_spending(&self, waits: impl Fn(RunId) -> bool) -> bool {
        let mut turns = self.turns.values();
        self.has_preparation_call() || turns.any(|turn| self.frees_in(turn, None, &waits))
    }

    /// Whether a call for a summary that is written ahead is in progress.
    fn has_preparation_call(&self) -> bool {
        let mut accounts = self
            .preparations_in_progress()
            .map(|of| ids::summaries(of.planned.turn));
        accounts.any(|account| self.budget.has_call_under_way(account))
    }

    fn frees_in(&self, turn: &Turn, but: Option<RunId>, waits: &impl Fn(RunId) -> bool) -> bool {
        let summaries = self
            .budget
            .has_call_under_way(ids::summaries(turn.accepted.id));
        let mut runs = self.runs_of(turn).filter(|run| Some(run.id) != but);
        summaries || runs.any(|run| self.will_free(run, waits))
    }

    /// The turn whose compaction step, in progress, requests summaries.
    pub(crate) fn summarising_turn(&self, run: RunId, step: u32) -> Option<TurnId> {
        let turn = self.turns.get(&self.budget.turn_of(run)?)?;
        let at_it = matches!(turn.phase, Phase::Compacting(_)) && turn.steps_planned == step;
        at_it.then_some(turn.accepted.id)
    }

    /// Whether the reservation of a run will be released by itself. A run that waits for others, or
    /// for a person, keeps its reservation.
    fn will_free(&self, run: &Run, waits: &impl Fn(RunId) -> bool) -> bool {
        if self.budget.has_call_under_way(run.id) {
            return true;
        }
        self.budget.keeps_last_call(run.id)
            && !waits(run.id)
            && run.awaited_children() == 0
            && !run.waits_for_person()
    }

    /// The deadline of a turn by its budgets, and the exceeded budget.
    pub(crate) fn turn_deadline(&self, turn: &Turn) -> Option<(Timestamp, Shortage)> {
        let deadlines = self.times(turn, None).filter_map(|(level, cap, since)| {
            let cap = cap?;
            let left = i64::try_from(cap).unwrap_or(i64::MAX);
            Some((since.plus_ms(left), out_of_time(level, cap)))
        });
        deadlines.min_by_key(|(at, _)| *at)
    }

    /// The time at which a turn exceeds its limit, and the limit. None while a person must decide:
    /// that time does not count, and the full limit applies again after it.
    pub(crate) fn turn_limit(&self, turn: &Turn) -> Option<(Timestamp, u64)> {
        let limit = self.budget.turn_caps(turn.accepted.id)?.limit_ms?;
        if self.runs_of(turn).any(Run::waits_for_person) {
            return None;
        }
        let from = turn.resumed_at.0.unwrap_or(turn.counts_from);
        let from = from.max(turn.counts_from);
        Some((
            from.plus_ms(i64::try_from(limit).unwrap_or(i64::MAX)),
            limit,
        ))
    }

    pub(crate) fn run_deadline(&self, run: RunId) -> Option<(Timestamp, Shortage)> {
        let run = self.runs.get(&run)?;
        let cap = self.budget.run_caps(run.id).time_ms?;
        let at = run
            .opened_at
            .plus_ms(i64::try_from(cap).unwrap_or(i64::MAX));
        Some((at, out_of_time(Level::Run, cap)))
    }

    /// The time limits of a turn and of one of its runs: level, maximum, start.
    fn times(
        &self,
        turn: &Turn,
        run: Option<(RunId, Timestamp)>,
    ) -> impl Iterator<Item = (Level, Option<u64>, Timestamp)> + use<> {
        let started = turn.started_at;
        let caps = self.budget.turn_caps(turn.accepted.id);
        let of_turn = caps.and_then(|caps| caps.turn.time_ms);
        let before = self.budget.session().time_ms;
        let earlier = started.plus_ms(-i64::try_from(before).unwrap_or(i64::MAX));
        let of_session = self.budget.session_caps().time_ms;
        let of_run = run.map(|(run, opened)| {
            let cap = self.budget.run_caps(run).time_ms;
            (Level::Run, cap, opened)
        });
        let above = [
            (Level::Turn, of_turn, started),
            (Level::Session, of_session, earlier),
        ];
        of_run.into_iter().chain(above)
    }

    pub(crate) fn has_timed_runs(&self, turn: &Turn) -> bool {
        let caps = self.budget.turn_caps(turn.accepted.id);
        caps.is_some_and(|caps| {
            let mut agents = caps.agents.iter().map(|(_, caps)| caps);
            caps.run.time_ms.is_some() || agents.any(|caps| caps.time_ms.is_some())
        })
    }

    /// The next deadline of an open turn or one of its runs.
    pub(crate) fn next_deadline(&self, turn: &Turn) -> Option<Timestamp> {
        if turn.phase == Phase::Queued {
            return None;
        }
        let budget = self.turn_deadline(turn).map(|(at, _)| at);
        let limit = self.turn_limit(turn).map(|(at, _)| at);
        let own = budget.into_iter().chain(limit).min();
        if !self.has_timed_runs(turn) {
            return own;
        }
        let open = self.runs_of(turn).filter(|run| run.is_open());
        let runs = open.filter_map(|run| self.run_deadline(run.id).map(|(at, _)| at));
        runs.chain(own).min()
    }

    /// The spent and reserved amounts of the session over all its turns, which its grant must
    /// cover.
    pub fn session_use(&self) -> budget::SessionUse {
        let account = self.budget.session();
        budget::SessionUse {
            spent: account.spent,
            in_use: account.in_use(),
        }
    }
}

fn elapsed(since: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.ms_since(since)).unwrap_or(0)
}

fn out_of_time(level: Level, cap: u64) -> Shortage {
    Shortage {
        level,
        resource: Resource::Time,
        cap: cap.into(),
        used: cap.into(),
        needed: 0,
    }
}
