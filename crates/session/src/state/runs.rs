//! What the runs of open turns wait for, and the results that they read.

use std::sync::Arc;

use unisono_context::{RunId, TurnId};

use super::State;
use crate::ids;
use crate::run::calls::{CallPlace, CallRound, CallRoundStatus, TrackedCall, WaitingCall};
use crate::run::excerpts::result_text;
use crate::run::{DelegationRound, DelegationStatus, Run, RunRole, ToolResult};
use crate::turn::Turn;

impl State {
    /// A call of an open turn.
    pub fn call(&self, place: CallPlace) -> Option<&TrackedCall> {
        let round = self.runs.get(&place.run)?.calls(place.round)?;
        round.calls.get(place.index as usize)
    }

    /// The state of the calls of a round: the answer to [`crate::Input::CallTools`].
    pub fn call_round_status(&self, run: RunId, round: u32) -> CallRoundStatus {
        let run = self.runs.get(&run).filter(|run| run.is_open());
        let round = run.and_then(|run| run.calls(round));
        round.map_or(CallRoundStatus::Unknown, CallRound::status)
    }

    /// The calls that wait for a person, of all runs at every depth, oldest turn first.
    pub fn waiting_calls(&self) -> impl Iterator<Item = WaitingCall> {
        let turns = self.turns.values();
        turns.flat_map(|turn| self.waiting_calls_of(turn))
    }

    /// The calls that wait for a person in the active turn of a branch. A new turn of the branch
    /// waits for them.
    pub fn waiting_calls_on(&self, branch: &str) -> impl Iterator<Item = WaitingCall> {
        let active = self.active_turn(branch).into_iter();
        active.flat_map(|turn| self.waiting_calls_of(turn))
    }

    /// The calls that wait for a person in the turn that a queued turn waits for; none if the turn
    /// is not queued.
    pub fn waiting_calls_ahead(&self, queued: TurnId) -> impl Iterator<Item = WaitingCall> {
        let turn = self.turn(queued);
        let active = turn.and_then(|turn| self.active_turn(&turn.accepted.branch));
        let ahead = active.filter(|active| active.accepted.id != queued);
        let ahead = ahead.into_iter();
        ahead.flat_map(|turn| self.waiting_calls_of(turn))
    }

    fn waiting_calls_of(&self, turn: &Turn) -> impl Iterator<Item = WaitingCall> {
        let runs = self.runs_of(turn);
        let calls = runs.flat_map(|run| run.open_calls().map(move |open| (run, open)));
        let waiting = calls.filter(|(_, (_, call))| call.waits_for_person());
        waiting.map(|(run, (place, call))| WaitingCall {
            id: ids::call(run.turn, place),
            place,
            turn: run.turn,
            agent: run.agent.clone(),
            call: call.clone(),
        })
    }

    /// The state of tasks that the agent of a run delegated: the answer to
    /// [`crate::Input::Delegate`].
    pub fn delegation_status(&self, run: RunId, round: u32) -> DelegationStatus {
        let run = self.runs.get(&run);
        let Some((run, round)) = run.and_then(|run| Some((run, run.round(round)?))) else {
            return DelegationStatus::Unknown;
        };
        if round.open > 0 {
            return DelegationStatus::InProgress;
        }
        let results = round.calls.iter().enumerate().map(|(index, call)| {
            let (content, is_error) = self.result_of(run, round, index);
            ToolResult::new(call.call_id.clone(), content, is_error)
        });
        DelegationStatus::Ended(results.collect())
    }

    /// The result of a call, and whether it is an error.
    pub(crate) fn result_of(
        &self,
        run: &Run,
        round: &DelegationRound,
        index: usize,
    ) -> (Arc<str>, bool) {
        let refused = round
            .calls
            .get(index)
            .and_then(|call| call.refused.as_ref());
        match refused {
            Some(reason) => (format!("[refused: {reason}]").into(), true),
            None => result_text(self.runs.get(&run.child(round, index))),
        }
    }

    /// The complete result with this name, of a delegate of the run's turn or of a task that the
    /// run delegated.
    pub fn result_by_name(&self, run: RunId, name: &str) -> Option<Arc<str>> {
        let run = self.runs.get(&run)?;
        let numbers = name.strip_prefix("delegate_")?.split('_');
        let numbers: Option<Vec<u32>> = numbers.map(|number| number.parse().ok()).collect();
        let from = match numbers?[..] {
            [number] => self.preceding_run(run, number.checked_sub(1)?)?,
            [round, number] => {
                let round = run.round(round)?;
                let index = usize::try_from(number.checked_sub(1)?).ok()?;
                round.calls.get(index)?;
                self.runs.get(&run.child(round, index))?
            }
            _ => return None,
        };
        from.ending.as_ref()?;
        Some(result_text(Some(from)).0)
    }

    /// The run of the fan-out at this index, if the run gets its result.
    fn preceding_run(&self, run: &Run, index: u32) -> Option<&Run> {
        let turn = self.turns.get(&run.turn)?;
        let gets_results = match run.role {
            RunRole::Lead => true,
            RunRole::Delegate { index: own } => turn.is_pipeline() && index < own,
            RunRole::Child { .. } => false,
        };
        let at = usize::try_from(index).ok()?;
        self.runs
            .get(turn.fan_out.get(at).filter(|_| gets_results)?)
    }
}
