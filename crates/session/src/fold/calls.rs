//! Folds facts about tool calls.

use std::sync::Arc;

use unisono_context::{RunId, Timestamp};

use crate::run::Step;
use crate::run::calls::{
    CallDecision, CallOutput, CallPlace, CallRound, CallStatus, PlannedCall, TrackedCall,
};
use crate::state::State;

use super::Error;

impl State {
    pub(super) fn tools_called(
        &mut self,
        run: RunId,
        round: u32,
        calls: &[PlannedCall],
        at: Timestamp,
    ) -> Result<(), Error> {
        let round = CallRound::new(round, calls, at);
        self.run_mut(run)?.calls.push(round);
        Ok(())
    }

    /// Appends the results of a round to its run as a step.
    pub(super) fn tools_answered(&mut self, run: RunId, round: u32) -> Result<(), Error> {
        let run_state = self.run_mut(run)?;
        let results = run_state.calls(round).and_then(CallRound::results);
        let missing = CallPlace {
            run,
            round,
            index: 0,
        };
        let results = results.ok_or(Error::UnknownCall(missing))?;
        run_state.steps.push(Arc::new(Step::Tools(results)));
        Ok(())
    }

    pub(super) fn set_call_status(
        &mut self,
        place: CallPlace,
        status: CallStatus,
    ) -> Result<(), Error> {
        self.call_mut(place)?.status = status;
        Ok(())
    }

    /// Starts a call, perhaps once more: an earlier task does not count.
    pub(super) fn start_call(&mut self, place: CallPlace) -> Result<(), Error> {
        let call = self.call_mut(place)?;
        (call.status, call.task) = (CallStatus::Started, None);
        Ok(())
    }

    pub(super) fn set_call_task(&mut self, place: CallPlace, task: &Arc<str>) -> Result<(), Error> {
        self.call_mut(place)?.task = Some(task.clone());
        Ok(())
    }

    pub(super) fn end_call(
        &mut self,
        place: CallPlace,
        output: &CallOutput,
        at: Timestamp,
    ) -> Result<(), Error> {
        let kept = output.attached_bytes();
        self.attached_bytes = self.attached_bytes.saturating_add(kept);
        let call = self.call_mut(place)?;
        let was_held = call.waits_for_person();
        call.status = CallStatus::Ended(output.clone());
        if was_held {
            self.restart_limit(place.run, at)?;
        }
        Ok(())
    }

    pub(super) fn tool_decided(
        &mut self,
        place: CallPlace,
        decision: &CallDecision,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.set_call_status(place, decision.status())?;
        self.restart_limit(place.run, at)?;
        let id = self.call_id(place);
        Arc::make_mut(&mut self.decided_calls).extend(id);
        Ok(())
    }

    /// A call of an open run waits for a person no longer: the time limit of its turn begins again.
    fn restart_limit(&mut self, run: RunId, at: Timestamp) -> Result<(), Error> {
        let turn = self.run_mut(run)?.turn;
        self.turn_mut(turn)?.counts_from = at;
        Ok(())
    }

    fn call_mut(&mut self, place: CallPlace) -> Result<&mut TrackedCall, Error> {
        let run = self.run_mut(place.run)?;
        let mut rounds = run.calls.iter_mut();
        let round = rounds.find(|round| round.number == place.round);
        let call = round.and_then(|round| round.calls.get_mut(place.index as usize));
        call.ok_or(Error::UnknownCall(place))
    }
}
