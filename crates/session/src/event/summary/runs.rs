//! Facts about runs and the budget of their model calls.

use std::fmt::{self, Formatter};

use super::run;
use crate::budget::{Amount, Reservation};
use crate::event::{Fact, LateOutput, OpenedRun, RunRole};
use crate::run::{AuxiliaryUsage, DelegatedCall, Ending, Step};

pub(super) fn format(fact: &Fact, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
    match fact {
        Fact::RunOpened { run } => format_opened(run, f)?,
        Fact::RunStepped { run: id, step } => {
            write!(f, "{}: ", run(*id))?;
            format_stepped(step, f)?;
        }
        Fact::Delegated {
            run: id,
            round,
            calls,
        } => {
            write!(f, "{}: ", run(*id))?;
            format_delegated(*round, calls, f)?;
        }
        Fact::RunRetried {
            run: id,
            attempt,
            reason,
            ..
        } => write!(f, "{}: attempt {attempt} after: {reason}", run(*id))?,
        Fact::RunEnded { run: id, ending } => {
            write!(f, "{}: ", run(*id))?;
            format_ended(ending, f)?;
        }
        Fact::LateOutputReceived {
            run: id,
            attempt,
            late,
        } => {
            let what = late_output(late);
            write!(f, "{}: {what} of attempt {attempt}", run(*id))?;
        }
        Fact::Reserved {
            run: id,
            reservation,
        } => {
            write!(f, "{}: ", run(*id))?;
            format_reserved(reservation, f)?;
        }
        Fact::CallSettled {
            run: id,
            call,
            used: Amount { tokens, cost },
            is_reported,
        } => {
            let (id, how) = (run(*id), if *is_reported { "" } else { " at worst" });
            write!(f, "{id}: call {call}, {tokens} tokens and {cost}{how}")?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn format_opened(opened: &OpenedRun, f: &mut Formatter<'_>) -> fmt::Result {
    let id = run(opened.id);
    match opened.role {
        RunRole::Lead => write!(f, "{id}: lead {}", opened.agent),
        RunRole::Delegate { index } => write!(f, "{id}: delegate {} {}", index + 1, opened.agent),
        RunRole::Child {
            parent,
            round,
            index,
        } => {
            let (parent, number) = (run(parent), index + 1);
            write!(
                f,
                "{id}: task {number} of round {round} of {parent} {}",
                opened.agent
            )
        }
    }
}

fn format_stepped(step: &Step, f: &mut Formatter<'_>) -> fmt::Result {
    match step {
        Step::Model(reply) => write!(f, "model reply with {} tool calls", reply.called()),
        Step::Tools(results) => write!(f, "{} tool results", results.len()),
        Step::Named { name, .. } => write!(f, "step {name}"),
        Step::Narrowed { room, output } => {
            write!(f, "headroom of {room} tokens")?;
            match output {
                Some(output) => write!(f, ", replies of {output}"),
                None => Ok(()),
            }
        }
        Step::Summarised { replaced, .. } => {
            write!(f, "a summary of its first {replaced} steps")
        }
        Step::Spent(AuxiliaryUsage { usage, .. }) => {
            let tokens = usage.input + usage.output;
            write!(f, "{tokens} tokens in addition to its replies")
        }
    }
}

fn format_delegated(round: u32, calls: &[DelegatedCall], f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{} tasks in round {round}", calls.len())?;
    match calls.iter().filter(|call| call.refused.is_some()).count() {
        0 => Ok(()),
        refused => write!(f, ", {refused} refused"),
    }
}

fn format_ended(ending: &Ending, f: &mut Formatter<'_>) -> fmt::Result {
    match ending {
        Ending::Finished { partial: None, .. } => f.write_str("finished"),
        Ending::Finished {
            partial: Some(why), ..
        } => write!(f, "finished partially: {why}"),
        Ending::Failed { cause, reason, .. } => write!(f, "failed ({}): {reason}", cause.code()),
        Ending::Cancelled => f.write_str("cancelled"),
    }
}

fn late_output(late: &LateOutput) -> &str {
    match late {
        LateOutput::Reply(_) => "a reply",
        LateOutput::Answer { .. } => "an answer",
        LateOutput::Spent(_) => "a cost in addition to a reply",
        LateOutput::Named { name, .. } => name,
        LateOutput::Incomplete { .. } => "the beginning of a reply",
    }
}

fn format_reserved(reservation: &Reservation, f: &mut Formatter<'_>) -> fmt::Result {
    let Amount { tokens, cost } = reservation.amount;
    let call = reservation.call;
    write!(f, "call {call}, up to {tokens} tokens and {cost}")?;
    let last = reservation.wrap_up.as_ref();
    last.map_or(Ok(()), |why| write!(f, "; its last: {why}"))
}
