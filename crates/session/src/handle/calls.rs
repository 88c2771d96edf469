//! Tool calls: requested, started, answered, decided by a person.

use std::sync::Arc;

use unisono_context::{CallId, RunId, TurnId};

use crate::event::Fact;
use crate::fold;
use crate::input::NewCall;
use crate::refusal::Refusal;
use crate::run::calls::{
    Approval, CallDecision, CallOutput, CallPlace, CallStatus, Permission, PlannedCall,
    TrackedCall, WaitingCall,
};

use super::Recorder;

/// Records the calls with their contracts and approvals, and starts those that may be made. A
/// recorded round does not change, and calls of another attempt are late.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    round: u32,
    calls: Vec<NewCall>,
) -> Result<(), fold::Error> {
    let Some(known) = recorder.attempt(run, attempt) else {
        return Ok(());
    };
    if calls.is_empty() || known.calls(round).is_some() {
        return Ok(());
    }
    let Some(turn) = recorder.state.turns.get(&known.turn) else {
        return Ok(());
    };
    let rules = &turn.rules;
    let calls = calls.into_iter().map(|call| {
        let is_denied = call.permission == Some(Permission::Denied);
        let approval = rules.approval(&known.agent, &call.tool, &call.fields);
        let approval = approval.filter(|_| !is_denied);
        let until = |ms| recorder.now.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
        PlannedCall {
            hooks: match is_denied {
                true => Vec::new(),
                false => rules.hooks_before(&call.tool),
            },
            permitted: call
                .permission
                .map(|known| known == Permission::Allowed || approval.is_some()),
            contract: rules.contract(&call.tool),
            approval: approval.map(|rule| Approval {
                rule: rule.to_string().into(),
                until: rules.approval_timeout_ms.map(until),
            }),
            call_id: call.call_id,
            tool: call.tool,
            arguments: call.arguments,
        }
    });
    let calls = calls.collect();
    recorder.record(Fact::ToolsCalled { run, round, calls })?;
    start_of_run(recorder, run)
}

/// Records the task that a server works on in place of an answer. A call that has not started, or
/// has ended, is ignored.
pub(super) fn task(
    recorder: &mut Recorder<'_>,
    call: CallPlace,
    task: Arc<str>,
) -> Result<(), fold::Error> {
    if !is_in(recorder, call, |status| *status == CallStatus::Started) {
        return Ok(());
    }
    recorder.record(Fact::ToolTaskStarted { call, task })
}

/// A call whose task is forgotten is in doubt, as a call that was lost in a crash.
pub(super) fn task_lost(recorder: &mut Recorder<'_>, call: CallPlace) -> Result<(), fold::Error> {
    if !is_in(recorder, call, |status| *status == CallStatus::Started) {
        return Ok(());
    }
    recorder.record(Fact::ToolInDoubt { call })
}

/// Records the result of a call. A call that has not started is ignored.
pub(super) fn ended(
    recorder: &mut Recorder<'_>,
    call: CallPlace,
    output: CallOutput,
) -> Result<(), fold::Error> {
    if !is_in(recorder, call, |status| *status == CallStatus::Started) {
        return Ok(());
    }
    recorder.record(Fact::ToolEnded { call, output })?;
    start_of_run(recorder, call.run)
}

/// Applies a person's decision. An approval that comes too late is a denial: the timer may be late, if
/// the session was not in memory or the machine slept.
pub(super) fn decide(
    recorder: &mut Recorder<'_>,
    id: CallId,
    decision: CallDecision,
    by: Option<Arc<str>>,
) -> Result<(), Refusal> {
    let Some(WaitingCall { place, call, .. }) =
        recorder.state.waiting_calls().find(|one| one.id == id)
    else {
        return Err(if recorder.state.decided_calls.contains(&id) {
            Refusal::AlreadyDecided(id)
        } else {
            Refusal::UnknownCall(id)
        });
    };
    if !decision.can_answer(&call.status) {
        return Err(Refusal::WrongDecision {
            call: id,
            decision: decision.name(),
            in_doubt: call.status == CallStatus::InDoubt,
        });
    }
    let is_late = decision == CallDecision::Approved && call.is_overdue(recorder.now);
    let (decision, by) = match is_late {
        true => (CallDecision::Expired, None),
        false => (decision, by),
    };
    let call = place;
    recorder.record(Fact::ToolDecided { call, decision, by })?;
    Ok(start_of_run(recorder, place.run)?)
}

/// Denies calls whose approval timed out.
pub(super) fn expire(recorder: &mut Recorder<'_>) -> Result<(), fold::Error> {
    let now = recorder.now;
    let waiting = recorder.state.waiting_calls();
    let late = waiting.filter(|waiting| waiting.call.is_overdue(now));
    for call in late.map(|waiting| waiting.place).collect::<Vec<_>>() {
        let (decision, by) = (CallDecision::Expired, None);
        recorder.record(Fact::ToolDecided { call, decision, by })?;
        start_of_run(recorder, call.run)?;
    }
    Ok(())
}

/// Withdraws the requests for permission of a round: the agent does not need them any more. Those of
/// another attempt are withdrawn already.
pub(super) fn withdraw(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    round: u32,
) -> Result<(), fold::Error> {
    if recorder.attempt(run, attempt).is_none() {
        return Ok(());
    }
    let why = "[withdrawn: the agent does not ask for this permission any more]";
    withdraw_where(recorder, run, why, |call| call.round == round)
}

/// Withdraws the requests for permission of a run's last attempt: its program is gone.
pub(super) fn withdraw_permissions(
    recorder: &mut Recorder<'_>,
    run: RunId,
) -> Result<(), fold::Error> {
    let why = "[withdrawn: the program that asked for permission has ended]";
    withdraw_where(recorder, run, why, |_| true)
}

fn withdraw_where(
    recorder: &mut Recorder<'_>,
    run: RunId,
    why: &str,
    is_meant: impl Fn(CallPlace) -> bool,
) -> Result<(), fold::Error> {
    let open = recorder.state.runs.get(&run).into_iter();
    let open = open.flat_map(|run| run.open_calls());
    let asked = open.filter(|(place, call)| call.planned.permitted.is_some() && is_meant(*place));
    for call in asked.map(|(place, _)| place).collect::<Vec<_>>() {
        let output = CallOutput::text(why, true);
        recorder.record(Fact::ToolEnded { call, output })?;
    }
    Ok(())
}

/// After a restart, calls that had started and may not be repeated are in doubt, except those whose
/// server works on a task, which can be polled. Requests for permission are withdrawn.
pub(crate) fn mark_in_doubt(recorder: &mut Recorder<'_>) -> Result<(), fold::Error> {
    for run in recorder.state.runs.keys().copied().collect::<Vec<_>>() {
        withdraw_permissions(recorder, run)?;
    }
    let calls = recorder
        .state
        .runs
        .values()
        .flat_map(|run| run.open_calls());
    let lost = calls.filter(|(_, call)| {
        call.status == CallStatus::Started
            && call.task.is_none()
            && !call.planned.contract.is_repeatable()
    });
    for call in lost.map(|(place, _)| place).collect::<Vec<_>>() {
        recorder.record(Fact::ToolInDoubt { call })?;
    }
    Ok(())
}

/// Starts the calls of a turn that were approved while the session was not in memory.
pub(super) fn start_of_turn(recorder: &mut Recorder<'_>, turn: TurnId) -> Result<(), fold::Error> {
    let turn = recorder.state.turns.get(&turn);
    let runs = turn
        .into_iter()
        .flat_map(|turn| recorder.state.runs_of(turn));
    let open = runs.filter(|run| run.open_calls().next().is_some());
    let open: Vec<RunId> = open.map(|run| run.id).collect();
    open.into_iter()
        .try_for_each(|run| start_of_run(recorder, run))
}

/// Starts the calls of a run that may be made now, and answers those that its agent makes itself. A
/// session that is only inspected starts none: a call that is started and not made would be in
/// doubt later.
pub(super) fn start_of_run(recorder: &mut Recorder<'_>, run: RunId) -> Result<(), fold::Error> {
    let Some(known) = recorder.state.runs.get(&run).filter(|run| run.is_open()) else {
        return Ok(());
    };
    let turn = recorder.state.turns.get(&known.turn);
    if turn.is_none_or(|turn| turn.prefixes.0.is_none()) {
        return Ok(());
    }
    let rounds = known.calls.iter();
    let calls = rounds.flat_map(|round| {
        let place = move |index| CallPlace {
            run,
            round: round.number,
            index,
        };
        round.startable().into_iter().map(place)
    });
    for call in calls.collect::<Vec<_>>() {
        let output = recorder
            .state
            .call(call)
            .and_then(TrackedCall::permission_output);
        recorder.record(match output {
            Some(output) => Fact::ToolEnded { call, output },
            None => Fact::ToolStarted { call },
        })?;
    }
    Ok(())
}

fn is_in(recorder: &Recorder<'_>, place: CallPlace, wanted: impl Fn(&CallStatus) -> bool) -> bool {
    let run = recorder
        .state
        .runs
        .get(&place.run)
        .filter(|run| run.is_open());
    let call = run.and_then(|_| recorder.state.call(place));
    call.is_some_and(|call| wanted(&call.status))
}
