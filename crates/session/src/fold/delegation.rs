//! The messages that a turn appends itself: calls and results of its delegation, and its answer.
//! They are derived from its runs and have derived ids, so the journal does not repeat them.

use std::sync::Arc;

use unisono_context::message::{NewMessage, Part, ReportedUsage, Role};
use unisono_context::{MessageId, RunId, Timestamp, Tokens, TurnId};

use crate::assignment;
use crate::event::{DelegatedCall, RunRole};
use crate::ids;
use crate::run::excerpts::result_text;
use crate::run::{DelegationRound, Ending, Run};
use crate::state::{State, StepLocation};
use crate::turn::Phase;

use super::Error;

impl State {
    /// Appends the lead's delegate calls, one per delegate, before its agents work.
    pub(super) fn append_calls(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let turn = self.turn_mut(id)?;
        let delegates = turn.team.delegates.iter().enumerate();
        let calls = delegates.map(|(index, delegate)| {
            let role = RunRole::Delegate {
                index: index as u32,
            };
            // The input is the message before.
            let by_name = delegate.task.is_none() && turn.accepted.short_calls;
            let task = (!by_name).then(|| assignment::task_of(turn, role));
            Part::ToolCall {
                id: assignment::call_id(index).into(),
                name: "delegate".into(),
                arguments: assignment::delegate_arguments(&delegate.agent.id, task.as_deref())
                    .into(),
            }
        });
        let calls = calls.collect();
        self.append_own((id, Role::Assistant), calls, None, at)?;
        Ok(())
    }

    /// Appends the delegates' results once, in the order of the fan-out; nothing if there was no
    /// delegation.
    pub(super) fn append_results(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let turn = self.turn_mut(id)?;
        let fan_out = turn.team.delegates.len();
        if fan_out == 0 || turn.runs.is_empty() {
            return Ok(());
        }
        match &mut turn.phase {
            Phase::Frozen { delivered, .. } if !*delivered => *delivered = true,
            _ => return Ok(()),
        }
        for index in 0..fan_out {
            let run = self.turn_mut(id)?.fan_out.get(index).copied();
            let (content, is_error) = result_text(run.and_then(|run| self.runs.get(&run)));
            let usage = self.reported_usage(run);
            let result = Part::tool_result(assignment::call_id(index), content, is_error);
            let written = self.append_own((id, Role::Tool), vec![result], usage, at)?;
            self.record_step_location(written, run);
        }
        Ok(())
    }

    /// Records delegated tasks of a run. The tasks of a lead appear on the branch.
    pub(super) fn delegated(
        &mut self,
        id: RunId,
        number: u32,
        calls: &[DelegatedCall],
        at: Timestamp,
    ) -> Result<(), Error> {
        let round = DelegationRound::new(number, calls);
        let (unopened, open) = (round.unopened, round.open);
        let run = self.run_mut(id)?;
        let (turn, shown) = (run.turn, run.role == RunRole::Lead);
        let text = run.reply_text(number).cloned();
        run.rounds.push(round);
        self.turn_mut(turn)?.unopened += unopened;
        if shown {
            let text = text.filter(|text| !text.trim().is_empty()).map(Part::Text);
            let calls = calls
                .iter()
                .enumerate()
                .map(|(index, call)| Part::ToolCall {
                    id: assignment::round_call_id(number, index).into(),
                    name: "delegate".into(),
                    arguments: assignment::delegate_arguments(&call.agent, Some(&call.task)).into(),
                });
            let parts = text.into_iter().chain(calls).collect();
            self.append_own((turn, Role::Assistant), parts, None, at)?;
        }
        if open == 0 {
            self.append_round(id, number, at)?;
        }
        Ok(())
    }

    /// Records that a call of a round has a run.
    pub(super) fn child_opened(&mut self, parent: RunId, number: u32) -> Result<(), Error> {
        let (turn, round) = self.round_mut(parent, number)?;
        round.unopened = round.unopened.saturating_sub(1);
        let turn = self.turn_mut(turn)?;
        turn.unopened = turn.unopened.saturating_sub(1);
        Ok(())
    }

    /// Records that a run of a round has ended.
    pub(super) fn child_ended(
        &mut self,
        parent: RunId,
        number: u32,
        at: Timestamp,
    ) -> Result<(), Error> {
        let (_, round) = self.round_mut(parent, number)?;
        round.open = round.open.saturating_sub(1);
        if round.open == 0 {
            self.append_round(parent, number, at)?;
        }
        Ok(())
    }

    /// Closes the delegated tasks of an ended run for which no run was opened.
    pub(super) fn give_up_unopened(&mut self, id: RunId, at: Timestamp) -> Result<(), Error> {
        let Some(run) = self.runs.get_mut(&id) else {
            return Ok(());
        };
        let (turn, mut unopened, mut ended) = (run.turn, 0, Vec::new());
        for round in run.rounds.iter_mut().filter(|round| round.unopened > 0) {
            unopened += round.unopened;
            round.open = round.open.saturating_sub(round.unopened);
            round.unopened = 0;
            if round.open == 0 {
                ended.push(round.number);
            }
        }
        let turn = self.turn_mut(turn)?;
        turn.unopened = turn.unopened.saturating_sub(unopened);
        ended
            .into_iter()
            .try_for_each(|number| self.append_round(id, number, at))
    }

    /// Appends the results of a lead's round in the order of its calls, once all are there.
    fn append_round(&mut self, id: RunId, number: u32, at: Timestamp) -> Result<(), Error> {
        let run = self.runs.get(&id).filter(|run| run.role == RunRole::Lead);
        let Some((run, round)) = run.and_then(|run| Some((run, run.round(number)?))) else {
            return Ok(());
        };
        let turn = run.turn;
        let results = (0..round.calls.len()).map(|index| {
            let (content, is_error) = self.result_of(run, round, index);
            let result =
                Part::tool_result(assignment::round_call_id(number, index), content, is_error);
            (result, run.child(round, index))
        });
        for (result, child) in results.collect::<Vec<_>>() {
            let usage = self.reported_usage(Some(child));
            let written = self.append_own((turn, Role::Tool), vec![result], usage, at)?;
            self.record_step_location(written, Some(child));
        }
        Ok(())
    }

    pub(super) fn record_step_location(&mut self, message: MessageId, run: Option<RunId>) {
        if let Some(location) = self.location_of_run(run) {
            Arc::make_mut(&mut self.step_locations).insert(message, location);
        }
    }

    /// The location in the journal of the steps of an open run; none if it has none.
    pub(super) fn location_of_steps(&self, run: Option<RunId>) -> Option<StepLocation> {
        let has_steps = |location: &StepLocation| {
            let run = self.runs.get(&location.run);
            run.is_some_and(|run| !run.steps.is_empty())
        };
        self.location_of_run(run).filter(has_steps)
    }

    fn location_of_run(&self, run: Option<RunId>) -> Option<StepLocation> {
        let run = self.runs.get(&run?)?;
        Some(StepLocation {
            run: run.id,
            first: run.opened_as,
            last: self.events + 1,
        })
    }

    fn round_mut(
        &mut self,
        run: RunId,
        number: u32,
    ) -> Result<(TurnId, &mut DelegationRound), Error> {
        let run: &mut Run = self.runs.get_mut(&run).ok_or(Error::UnknownRun(run))?;
        let (turn, id) = (run.turn, run.id);
        let round = run.round_mut(number).ok_or(Error::UnknownRun(id))?;
        Ok((turn, round))
    }

    /// The usage that providers reported for a finished run; none if no provider reported any.
    pub(super) fn reported_usage(&self, run: Option<RunId>) -> Option<ReportedUsage> {
        let ending = self.runs.get(&run?)?.ending.as_deref()?;
        let Ending::Finished { usage, .. } = ending else {
            return None;
        };
        let (input, output) = (usage.input, usage.output);
        let reported = input > Tokens::ZERO || output > Tokens::ZERO;
        reported.then_some(ReportedUsage { input, output })
    }

    /// Appends a message of the turn to its branch, under a derived id.
    pub(super) fn append_own(
        &mut self,
        (id, role): (TurnId, Role),
        parts: Vec<Part>,
        usage: Option<ReportedUsage>,
        at: Timestamp,
    ) -> Result<MessageId, Error> {
        let turn = self.turn_mut(id)?;
        let branch = turn.accepted.branch.clone();
        let message = NewMessage {
            id: ids::message(id, turn.messages_appended),
            role,
            parts,
            author: (role == Role::Assistant).then(|| turn.team.lead.id.clone()),
            at,
            usage,
        };
        turn.messages_appended += 1;
        let id = message.id;
        self.append(Some(&branch), self.tree.head(&branch), message)?;
        Ok(id)
    }
}
