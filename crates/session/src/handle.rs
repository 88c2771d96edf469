//! One file per input; the dispatcher is only a match.

mod accept;
mod advance;
mod append;
mod calls;
mod cancel;
mod children;
mod counted;
mod delegate;
mod fork;
mod hooks;
mod import;
mod measured;
mod overdue;
mod pin;
mod prepared;
mod rendered;
mod replace_checkpoint;
mod replaced;
mod reserve;
mod revert;
mod run_ended;
mod run_stepped;
mod seal;
mod set;
mod spent;
mod step_done;
mod work;

use std::sync::Arc;

use unisono_context::snapshot::RebuildError;
use unisono_context::tokens::{Count, Counts};
use unisono_context::{Encoding, RunId, Timestamp, TurnId};

use crate::event::{Event, Fact, Outcome};
use crate::fold;
use crate::input::Input;
use crate::refusal::Refusal;
use crate::run::calls::CallPlace;
use crate::run::{Ending, Run};
use crate::state::State;

pub(crate) use advance::advance;
pub(crate) use calls::mark_in_doubt;
pub(crate) use children::cancel_orphans;
pub(crate) use prepared::drop_interrupted;
pub(crate) use reserve::settle_lost;

pub(crate) fn input(recorder: &mut Recorder<'_>, input: Input) -> Result<(), Refusal> {
    match input {
        Input::Import(import) => import::handle(recorder, import),
        Input::Accept(turn) => accept::handle(recorder, None, *turn),
        Input::AcceptKeyed { key, turn } => accept::handle(recorder, Some(key), *turn),
        Input::AcceptAfter {
            preceding,
            key,
            turn,
        } => accept::handle_after(recorder, preceding, key, *turn),
        Input::Append(new) => append::handle(recorder, new),
        Input::Fork { branch, at } => fork::handle(recorder, branch, at),
        Input::Pin {
            branch,
            messages,
            pinned,
        } => pin::handle(recorder, &branch, &messages, pinned),
        Input::Decide { call, decision, by } => calls::decide(recorder, call, decision, by),
        Input::Cancel { turn } => cancel::handle(recorder, turn),
        Input::CancelRun { run } => cancel::run(recorder, run),
        Input::Seal { branch } => seal::handle(recorder, branch),
        Input::Set { changes } => set::handle(recorder, changes),
        Input::Counted(_)
        | Input::Measured { .. }
        | Input::StepDone { .. }
        | Input::StepFailed { .. }
        | Input::SummariserUsed { .. }
        | Input::Rendered { .. } => Ok(context_report(recorder, input)?),
        Input::RunStepped { .. }
        | Input::Delegate { .. }
        | Input::CallTools { .. }
        | Input::WithdrawPermissions { .. }
        | Input::Reserve { .. }
        | Input::Settle { .. }
        | Input::Spent { .. }
        | Input::RunEnded { .. } => Ok(run_report(recorder, input)?),
        Input::ToolTask { call, task } => Ok(calls::task(recorder, call, task)?),
        Input::ToolTaskLost { call } => Ok(calls::task_lost(recorder, call)?),
        Input::ToolEnded { call, output } => Ok(calls::ended(recorder, call, output)?),
        Input::HookAnswered { place, reply } => Ok(hooks::answered(recorder, place, reply)?),
        Input::Tick => Ok(calls::expire(recorder)?),
    }
}

fn context_report(recorder: &mut Recorder<'_>, report: Input) -> Result<(), fold::Error> {
    match report {
        Input::Counted(counted) => counted::handle(recorder, counted),
        Input::Measured {
            turn,
            model,
            estimated: ours,
            reported,
        } => measured::handle(recorder, turn, &model, ours, reported),
        Input::StepDone { turn, step, result } => step_done::done(recorder, turn, step, result),
        Input::StepFailed {
            turn,
            step,
            reason,
            is_retryable: again,
        } => step_done::failed(recorder, turn, step, reason, again),
        Input::SummariserUsed { turn, model, usage } => {
            recorder.record(Fact::SummariserUsed { turn, model, usage })
        }
        Input::Rendered { turn, prefixes } => rendered::handle(recorder, turn, prefixes),
        // No other input is given to this function.
        _ => Ok(()),
    }
}

fn run_report(recorder: &mut Recorder<'_>, report: Input) -> Result<(), fold::Error> {
    match report {
        Input::RunStepped { run, attempt, step } => {
            run_stepped::handle(recorder, run, attempt, step)
        }
        Input::Delegate {
            run,
            attempt,
            round,
            calls,
        } => delegate::handle(recorder, run, attempt, round, calls),
        Input::CallTools {
            run,
            attempt,
            round,
            calls,
        } => calls::handle(recorder, run, attempt, round, calls),
        Input::WithdrawPermissions {
            run,
            attempt,
            round,
        } => calls::withdraw(recorder, run, attempt, round),
        Input::Reserve { run, attempt, ask } => reserve::handle(recorder, run, attempt, &ask),
        Input::Settle {
            run,
            attempt,
            call,
            end,
        } => reserve::settle(recorder, run, attempt, call, &end),
        Input::Spent {
            run,
            attempt,
            call,
            spent,
        } => spent::handle(recorder, run, attempt, call, spent),
        Input::RunEnded { run, attempt, end } => run_ended::handle(recorder, run, attempt, end),
        // No other input is given to this function.
        _ => Ok(()),
    }
}

/// The counts of a text in every encoding; a missing count is estimated from the bytes of the text.
fn complete_counts(counts: Counts, bytes: impl Fn() -> usize) -> Counts {
    with_estimates(counts, || Count::approximate(bytes() as u64))
}

/// The counts in every encoding, with the estimate in place of each missing one.
fn with_estimates(counts: Counts, estimate: impl Fn() -> Count) -> Counts {
    let count = |encoding| counts.get(encoding).unwrap_or_else(&estimate);
    let all = Encoding::ALL.into_iter();
    all.map(|encoding| (encoding, count(encoding))).collect()
}

/// The due effects that a decision can have changed, so that the end of one of a thousand runs does
/// not cost a look at all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affected {
    /// None: a step of a run is only stored.
    Nothing,
    /// Only those of this run.
    Run(RunId),
    All,
}

/// Decisions in progress: each is folded into the state as soon as it is made.
pub(crate) struct Recorder<'m> {
    state: &'m mut State,
    events: Vec<Event>,
    now: Timestamp,
}

impl<'m> Recorder<'m> {
    pub(crate) fn new(state: &'m mut State, now: Timestamp) -> Recorder<'m> {
        Recorder {
            state,
            events: Vec::new(),
            now,
        }
    }

    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// The due effects that the decisions can have changed.
    pub(crate) fn affected(&self) -> Affected {
        let mut reach = Affected::Nothing;
        for event in &self.events {
            reach = match (&event.fact, reach) {
                (
                    Fact::RunStepped { .. }
                    | Fact::ToolsAnswered { .. }
                    | Fact::LateOutputReceived { .. }
                    | Fact::SummariserUsed { .. }
                    | Fact::Reserved { .. }
                    | Fact::CallSettled { .. },
                    reach,
                ) => reach,
                (
                    Fact::RunEnded { run, .. }
                    | Fact::RunRetried { run, .. }
                    | Fact::ToolsCalled { run, .. }
                    | Fact::ToolStarted {
                        call: CallPlace { run, .. },
                    }
                    | Fact::ToolTaskStarted {
                        call: CallPlace { run, .. },
                        ..
                    }
                    | Fact::ToolEnded {
                        call: CallPlace { run, .. },
                        ..
                    },
                    reach,
                ) if reach == Affected::Nothing || reach == Affected::Run(*run) => {
                    Affected::Run(*run)
                }
                _ => return Affected::All,
            };
        }
        reach
    }

    pub(crate) fn record(&mut self, fact: Fact) -> Result<(), fold::Error> {
        let event = Event { at: self.now, fact };
        self.state.apply(&event)?;
        self.events.push(event);
        Ok(())
    }

    /// The run, if this attempt is in progress.
    fn attempt(&self, run: RunId, attempt: u32) -> Option<&Run> {
        let run = self.state.runs.get(&run)?;
        (run.is_open() && run.attempt == attempt).then_some(run)
    }

    /// Ends a turn after its open runs, so that every run has a recorded ending. A turn that is not
    /// open is ignored.
    fn end_turn(&mut self, id: TurnId, outcome: Outcome) -> Result<(), fold::Error> {
        let Some(turn) = self.state.turns.get(&id) else {
            return Ok(());
        };
        let prepares = turn.accepted.prepare.is_some() && outcome == Outcome::Answered;
        let answered = prepares.then(|| turn.clone());
        let open = self.state.runs_of(turn).filter(|run| run.is_open());
        let open: Vec<_> = open.map(|run| run.id).collect();
        for run in open {
            let ending = Arc::new(Ending::Cancelled);
            self.record(Fact::RunEnded { run, ending })?;
        }
        self.record(Fact::TurnEnded { turn: id, outcome })?;
        answered.map_or(Ok(()), |turn| prepared::after_turn(self, &turn))
    }

    fn fail_turn(&mut self, turn: TurnId, code: &str, reason: String) -> Result<(), fold::Error> {
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
    ) -> Result<(), fold::Error> {
        self.fail_turn(turn, "snapshot_mismatch", error.to_string())
    }
}
