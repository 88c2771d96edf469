//! Inputs, one file each; the dispatcher is only a match.

mod accept;
mod advance;
mod counted;
mod fork;
mod import;
mod rendered;
mod run_ended;
mod step_done;

use std::sync::Arc;

use unisono_context::snapshot::RebuildError;
use unisono_context::{Timestamp, TurnId};

use crate::event::{Event, Fact, Outcome};
use crate::machine::{Input, Refusal};
use crate::run::Ending;
use crate::state::State;

pub(crate) use advance::advance;

/// Takes one input.
pub(crate) fn input(tx: &mut Tx<'_>, input: Input) -> Result<(), Refusal> {
    match input {
        Input::Import(import) => import::handle(tx, import),
        Input::Accept(turn) => accept::handle(tx, turn),
        Input::Fork { branch, at } => fork::handle(tx, branch, at),
        Input::Counted(counted) => counted::handle(tx, counted),
        Input::StepDone { turn, step, result } => step_done::done(tx, turn, step, result),
        Input::StepFailed { turn, step, reason } => step_done::failed(tx, turn, step, reason),
        Input::Rendered { turn, prefixes } => rendered::handle(tx, turn, prefixes),
        Input::RunStepped { run, attempt, step } => run_ended::stepped(tx, run, attempt, step),
        Input::RunEnded { run, attempt, end } => run_ended::ended(tx, run, attempt, end),
        Input::Cancel { turn } => tx.end_turn(turn, Outcome::Cancelled),
        Input::Tick => Ok(()),
    }
}

/// Decisions in the making: each is folded into the state as soon as it is taken.
pub(crate) struct Tx<'m> {
    state: &'m mut State,
    events: Vec<Event>,
    now: Timestamp,
}

impl<'m> Tx<'m> {
    pub(crate) fn new(state: &'m mut State, now: Timestamp) -> Tx<'m> {
        Tx {
            state,
            events: Vec::new(),
            now,
        }
    }

    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }

    fn record(&mut self, fact: Fact) -> Result<(), Refusal> {
        let event = Event { at: self.now, fact };
        self.state.apply(&event)?;
        self.events.push(event);
        Ok(())
    }

    /// Ends a turn: its open runs first, so that every run ends in a recorded state.
    fn end_turn(&mut self, turn: TurnId, outcome: Outcome) -> Result<(), Refusal> {
        let open = self
            .state
            .turns
            .get(&turn)
            .ok_or(Refusal::UnknownTurn(turn))?;
        let runs: Vec<_> = self
            .state
            .runs_of(open)
            .filter(|run| run.is_open())
            .map(|run| run.id)
            .collect();
        for run in runs {
            self.record(Fact::RunEnded {
                run,
                ending: Arc::new(Ending::Cancelled),
            })?;
        }
        self.record(Fact::TurnEnded { turn, outcome })
    }

    fn fail_turn(&mut self, turn: TurnId, code: &str, reason: String) -> Result<(), Refusal> {
        let outcome = Outcome::Failed {
            code: code.into(),
            reason: reason.into(),
        };
        self.end_turn(turn, outcome)
    }

    pub(crate) fn fail_mismatch(
        &mut self,
        turn: TurnId,
        error: &RebuildError,
    ) -> Result<(), Refusal> {
        self.fail_turn(turn, "snapshot_mismatch", error.to_string())
    }
}
