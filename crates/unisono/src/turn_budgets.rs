//! The budgets of a turn and of its runs in the types of the API.
//!
//! Those of an open turn or run come from the state of the session, which has the reservations; those
//! of an ended one from its trace.

use std::collections::BTreeMap;

use unisono_api::turn::{Run, Turn};
use unisono_api::usage::Budget;
use unisono_context::{RunId, Timestamp, TurnId};
use unisono_runtime::{Error, clock};
use unisono_session::budget::{Amount, BudgetStatus, Caps, Level, TurnCaps};
use unisono_session::trace::{RunTrace, TurnTrace};
use unisono_session::{State, Trace};

use crate::values;
use crate::view::Inspect;

#[derive(Debug, Default)]
pub(crate) struct TurnBudgets {
    turn: Vec<Budget>,
    runs: BTreeMap<String, Vec<Budget>>,
}

impl TurnBudgets {
    pub(crate) async fn read(
        session: &impl Inspect,
        trace: &Trace,
        turn: TurnId,
    ) -> Result<TurnBudgets, Error> {
        let Some(found) = trace.turn(turn).filter(|found| is_limited(found)) else {
            return Ok(TurnBudgets::default());
        };
        let now = clock::now();
        let runs = found.runs.clone();
        let look = move |state: &State| OpenBudgets::new(state, turn, &runs, now);
        let open = session.inspect(look).await?;
        Ok(TurnBudgets::of_trace(trace, found, open, now))
    }

    fn of_trace(trace: &Trace, found: &TurnTrace, open: OpenBudgets, now: Timestamp) -> Self {
        let OpenBudgets {
            turn,
            runs: mut open,
        } = open;
        let turn = turn.unwrap_or_else(|| of_turn(trace, found, now));
        let caps = &found.accepted.1.caps;
        let runs = found.runs.iter().filter_map(|id| {
            let run = trace.run(*id)?;
            let budgets = open.remove(id).unwrap_or_else(|| of_run(caps, run, now));
            (!budgets.is_empty()).then(|| (id.to_string(), to_api(&budgets)))
        });
        TurnBudgets {
            runs: runs.collect(),
            turn: to_api(&turn),
        }
    }

    pub(crate) fn add_to_turn(mut self, turn: &mut Turn) {
        for run in &mut turn.runs {
            self.add_to_run(run);
        }
        turn.budgets = self.turn;
    }

    pub(crate) fn add_to_run(&mut self, run: &mut Run) {
        run.budgets = self.runs.remove(&run.run).unwrap_or_default();
    }
}

/// The budgets in the state of the session; none of what has ended.
struct OpenBudgets {
    turn: Option<Vec<BudgetStatus>>,
    runs: BTreeMap<RunId, Vec<BudgetStatus>>,
}

impl OpenBudgets {
    fn new(state: &State, turn: TurnId, runs: &[RunId], now: Timestamp) -> OpenBudgets {
        let is_open = |run: &&RunId| state.budget().run(**run).is_some();
        let open = runs.iter().filter(is_open);
        OpenBudgets {
            turn: state.turn(turn).map(|_| state.turn_budgets(turn, now)),
            runs: open
                .map(|run| (*run, state.run_budgets(*run, now)))
                .collect(),
        }
    }
}

/// Whether the turn or one of its runs can have a budget.
fn is_limited(turn: &TurnTrace) -> bool {
    let caps = &turn.accepted.1.caps;
    let mut agents = caps.agents.iter().map(|(_, caps)| *caps);
    caps.turn != Caps::NONE || caps.run != Caps::NONE || agents.any(|caps| caps != Caps::NONE)
}

/// The budgets of a turn by what its runs and its requests for summaries used.
fn of_turn(trace: &Trace, turn: &TurnTrace, now: Timestamp) -> Vec<BudgetStatus> {
    let runs = turn.runs.iter().filter_map(|run| trace.run(*run));
    let summaries = Amount::from_usage(&turn.summaries.total);
    let spent = runs.fold(summaries, |sum, run| sum + run.charge.amount());
    let end = turn.ended.as_ref().map_or(now, |(end, _)| end.at);
    let time = turn.started.map_or(0, |started| ms(started.at, end));
    let caps = turn.accepted.1.caps.turn;
    caps.left(Level::Turn, spent, Amount::ZERO, time).collect()
}

fn of_run(caps: &TurnCaps, run: &RunTrace, now: Timestamp) -> Vec<BudgetStatus> {
    let (opened, what) = &run.opened;
    let end = run.ended.as_ref().map_or(now, |(end, _)| end.at);
    let caps = caps.for_run(what.definition);
    let (spent, time) = (run.charge.amount(), ms(opened.at, end));
    caps.left(Level::Run, spent, Amount::ZERO, time).collect()
}

fn ms(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.ms_since(from)).unwrap_or(0)
}

fn to_api(budgets: &[BudgetStatus]) -> Vec<Budget> {
    budgets.iter().map(values::budget).collect()
}
