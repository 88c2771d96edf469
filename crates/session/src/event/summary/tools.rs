//! Facts about tool calls and hooks.

use std::fmt::{self, Formatter};

use super::run;
use crate::event::{Fact, HookAnswer};
use crate::run::calls::{CallDecision, CallOutput, CallPlace, PlannedCall};

pub(super) fn format(fact: &Fact, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
    match fact {
        Fact::ToolsCalled {
            run: id,
            round,
            calls,
        } => {
            write!(f, "{}: round {round},", run(*id))?;
            calls.iter().try_for_each(|call| planned_call(call, f))?;
        }
        Fact::ToolStarted { call: place } | Fact::ToolInDoubt { call: place } => call(*place, f)?,
        Fact::ToolTaskStarted { call, task } => task_started(*call, task, f)?,
        Fact::ToolEnded { call, output } => ended(*call, output, f)?,
        Fact::ToolsAnswered { run: id, round } => {
            write!(f, "{}: the tools of round {round} have answered", run(*id))?;
        }
        Fact::ToolDecided {
            call: place,
            decision,
            by,
        } => decided(*place, decision, by.as_deref(), f)?,
        Fact::HookAnswered { hook, answer, .. } => {
            write!(f, "{hook}: {}", format_hook_answer(answer))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn planned_call(call: &PlannedCall, f: &mut Formatter<'_>) -> fmt::Result {
    let held = call.approval.as_ref().map_or("", |_| ", to be approved");
    write!(f, " {} ({}{held})", call.tool, call.contract.name())
}

fn call(place: CallPlace, f: &mut Formatter<'_>) -> fmt::Result {
    let (round, number) = (place.round, place.index + 1);
    write!(f, "{}: call {number} of round {round}", run(place.run))
}

fn task_started(place: CallPlace, task: &str, f: &mut Formatter<'_>) -> fmt::Result {
    call(place, f)?;
    write!(f, ": task {task}")
}

fn ended(place: CallPlace, output: &CallOutput, f: &mut Formatter<'_>) -> fmt::Result {
    call(place, f)?;
    let failed = if output.is_error { " failed:" } else { "" };
    write!(f, ":{failed} {} bytes", output.content.len())
}

/// What was decided about a call, and by whom.
fn decided(
    place: CallPlace,
    decision: &CallDecision,
    by: Option<&str>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    call(place, f)?;
    write!(f, ": {}", decision.name())?;
    by.map_or(Ok(()), |by| write!(f, " by {by}"))
}

/// What came of asking a hook.
fn format_hook_answer(answer: &HookAnswer) -> String {
    match (&answer.denied, &answer.failed) {
        (Some(reason), _) => format!("denied: {reason}"),
        (None, Some(reason)) => format!("no answer: {reason}"),
        (None, None) => {
            let what = match answer.instructions.is_some() {
                true => "instructions",
                false => "permitted",
            };
            let reason = answer.reason.iter().map(|reason| format!(": {reason}"));
            what.to_owned() + &reason.collect::<String>()
        }
    }
}
