//! Facts as single lines, for logs, progress and golden tests.

use std::fmt::{self, Display, Formatter};

use unisono_context::checkpoint::{Body, Span, Tier};
use unisono_context::compaction::{ContextPart, Cover, Step as PlanStep};
use unisono_context::snapshot::Manifest;
use unisono_context::tokens::Count;
use unisono_context::{RunId, TurnId};

use super::{AcceptedTurn, Fact, HookAnswer, LateOutput, OpenedRun, Outcome, RunRole, Work};
use crate::budget::{Amount, TurnCaps};
use crate::run::calls::{CallDecision, CallOutput, CallPlace, PlannedCall};
use crate::run::{AuxiliaryUsage, Ending, Step};

/// The last eight hex digits of an id. The first digits are the time, which related ids share.
struct ShortId(u128);

impl Display for ShortId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 as u32)
    }
}

fn turn(id: TurnId) -> ShortId {
    ShortId(id.as_u128())
}

fn run(id: RunId) -> ShortId {
    ShortId(id.as_u128())
}

/// The name, the short id of the turn or run, and the most important values.
impl Display for Fact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.name())?;
        match self {
            Fact::Created { title, .. } => write!(f, "{title:?}"),
            Fact::Appended { message, .. } => {
                write!(
                    f,
                    "{} message {}",
                    message.role,
                    ShortId(message.id.as_u128())
                )
            }
            Fact::BranchSet { branch, head } => {
                write!(f, "{branch} at message {}", ShortId(head.as_u128()))
            }
            Fact::Counted { encoding, counts } => {
                let total: Count = counts.iter().map(|(_, count)| *count).sum();
                let (messages, name) = (counts.len(), encoding.name());
                write!(f, "{messages} messages: {} tokens of {name}", total.tokens)
            }
            Fact::PreambleCounted {
                encoding, count, ..
            } => write!(f, "{} tokens of {}", count.tokens, encoding.name()),
            Fact::Defined { definition } => {
                let digest = definition.digest().short();
                write!(f, "agent {} as {digest}", definition.id)
            }
            Fact::TurnAccepted { turn } => format_accepted(turn, f),
            Fact::TurnStarted { turn: id } => turn(*id).fmt(f),
            Fact::CompactionPlanned { turn: id, plan } => {
                write!(f, "{}: ", turn(*id))?;
                format_planned(&plan.step, f)?;
                write!(f, "; {} tokens, target {}", plan.before, plan.target)?;
                if plan.tightened {
                    f.write_str("; less is kept than requested")?;
                }
                Ok(())
            }
            Fact::Altered {
                turn: id,
                alterations,
            } => {
                if let Some(id) = id {
                    write!(f, "{}: ", turn(*id))?;
                }
                write!(f, "{} messages", alterations.len())
            }
            Fact::Compacted { checkpoint, .. } => {
                let kind = match &checkpoint.body {
                    Body::Summary(_) => "summary",
                    Body::Tombstone => "note",
                };
                let (number, original) = (checkpoint.number, checkpoint.original);
                write!(f, "{kind} {number} stands for ")?;
                format_spans(&checkpoint.covers, f)?;
                let after = checkpoint.counts.get(unisono_context::Encoding::ALL[0]);
                let after = after.unwrap_or_default().tokens;
                write!(f, ": {original} tokens become {after}")
            }
            Fact::CompactionFailed { turn: id, reason } => write!(f, "{}: {reason}", turn(*id)),
            Fact::SummariserUsed {
                turn: id,
                model,
                usage,
            } => {
                let (input, output) = (usage.input, usage.output);
                write!(f, "{}: {model}, {input} tokens in, {output} out", turn(*id))
            }
            Fact::Frozen {
                turn: id,
                snapshot,
                manifest,
            } => {
                write!(f, "{}: snapshot {}, ", turn(*id), snapshot.short())?;
                format_contents(manifest, f)
            }
            Fact::RunOpened { run } => format_opened(run, f),
            Fact::RunStepped { run: id, step } => {
                write!(f, "{}: ", run(*id))?;
                format_stepped(step, f)
            }
            Fact::Delegated {
                run: id,
                round,
                calls,
            } => {
                write!(f, "{}: {} tasks in round {round}", run(*id), calls.len())?;
                match calls.iter().filter(|call| call.refused.is_some()).count() {
                    0 => Ok(()),
                    refused => write!(f, ", {refused} refused"),
                }
            }
            Fact::RunRetried {
                run: id,
                attempt,
                reason,
                ..
            } => write!(f, "{}: attempt {attempt} after: {reason}", run(*id)),
            Fact::RunEnded { run: id, ending } => {
                write!(f, "{}: ", run(*id))?;
                format_ended(ending, f)
            }
            Fact::TurnEnded { turn: id, outcome } => write!(f, "{}: {outcome}", turn(*id)),
            Fact::LateOutputReceived {
                run: id,
                attempt,
                late,
            } => {
                let what = late_output(late);
                write!(f, "{}: {what} of attempt {attempt}", run(*id))
            }
            Fact::Pinned { messages } | Fact::Unpinned { messages } => {
                write!(f, "{} messages", messages.len())
            }
            Fact::Reverted { checkpoint, .. } => {
                write!(f, "checkpoint {}", ShortId(checkpoint.as_u128()))
            }
            Fact::InstructionsSet { text } => write!(f, "{} bytes", text.len()),
            Fact::PhrasesSet { phrases } => write!(f, "{phrases:?}"),
            Fact::TopicsDecided { turn: id, ends, .. } => {
                write!(f, "{}:", turn(*id))?;
                if ends.is_empty() {
                    return f.write_str(" no topic ended");
                }
                ends.iter()
                    .try_for_each(|end| write!(f, " {} by {}", end.opener, end.by.name()))
            }
            Fact::TopicSealed { branch, last } => {
                write!(f, "{branch} at message {}", ShortId(last.as_u128()))
            }
            Fact::Measured {
                turn: id,
                calibration,
            } => {
                let ratio = f64::from(calibration.ratio.0) / 1e6;
                write!(
                    f,
                    "{}: {} counts {ratio:.3} for an estimated token",
                    turn(*id),
                    calibration.model
                )
            }
            Fact::TopicsImported {
                decided,
                sealed,
                notes,
            } => {
                let ends = decided.iter().flat_map(|topics| &topics.ends).count();
                write!(f, "{ends} ended, {} sealed", sealed.len())?;
                match notes.tightened.len() {
                    0 => Ok(()),
                    tightened => write!(f, ", {tightened} summaries kept less"),
                }
            }
            Fact::ToolRulesSet { rules } => {
                let (tools, held) = (rules.contracts.len(), rules.approvals.len());
                write!(f, "{tools} tools, {held} rules about approval")
            }
            Fact::ToolsCalled {
                run: id,
                round,
                calls,
            } => {
                write!(f, "{}: round {round},", run(*id))?;
                calls.iter().try_for_each(|call| planned_call(call, f))
            }
            Fact::ToolStarted { call: place } | Fact::ToolInDoubt { call: place } => {
                call(*place, f)
            }
            Fact::ToolTaskStarted { call, task } => task_started(*call, task, f),
            Fact::ToolEnded { call, output } => ended(*call, output, f),
            Fact::ToolsAnswered { run: id, round } => {
                write!(f, "{}: the tools of round {round} have answered", run(*id))
            }
            Fact::ToolDecided {
                call: place,
                decision,
                by,
            } => decided(*place, decision, by.as_deref(), f),
            Fact::HookAnswered { hook, answer, .. } => {
                write!(f, "{hook}: {}", format_hook_answer(answer))
            }
            Fact::Reserved {
                run: id,
                reservation,
            } => {
                let Amount { tokens, cost } = reservation.amount;
                let call = reservation.call;
                write!(
                    f,
                    "{}: call {call}, up to {tokens} tokens and {cost}",
                    run(*id)
                )?;
                let last = reservation.wrap_up.as_ref();
                last.map_or(Ok(()), |why| write!(f, "; its last: {why}"))
            }
            Fact::CallSettled {
                run: id,
                call,
                used: Amount { tokens, cost },
                is_reported,
            } => {
                let how = if *is_reported { "" } else { " at worst" };
                write!(
                    f,
                    "{}: call {call}, {tokens} tokens and {cost}{how}",
                    run(*id)
                )
            }
            Fact::Posted {
                branch, message, ..
            } => {
                let id = ShortId(message.id.as_u128());
                write!(f, "{} message {id} on {branch}", message.role)
            }
            Fact::CallCapSet { calls } => write!(f, "{calls} a reply"),
            Fact::PreparationPlanned { preparation } => {
                write!(f, "after {}: ", turn(preparation.turn))?;
                format_planned(&preparation.plan.step, f)
            }
            Fact::SummaryPrepared { turn: id, summary } => {
                write!(f, "after {}: by {}", turn(*id), summary.model)
            }
            Fact::PreparationDropped {
                turn: id, reason, ..
            } => write!(f, "after {}: {reason}", turn(*id)),
            Fact::SettingsSet { settings } => {
                let mut each = settings.iter();
                let first = each.next();
                first.map_or(Ok(()), |(key, value)| write!(f, "{key}={value}"))?;
                each.try_for_each(|(key, value)| write!(f, " {key}={value}"))
            }
        }
    }
}

fn late_output(late: &LateOutput) -> &str {
    match late {
        LateOutput::Reply(_) => "a reply",
        LateOutput::Answer { .. } => "an answer",
        LateOutput::Spent(_) => "a cost in addition to a reply",
        LateOutput::Named { name, .. } => name,
    }
}

fn planned_call(call: &PlannedCall, f: &mut Formatter<'_>) -> fmt::Result {
    let held = call.approval.as_ref().map_or("", |_| ", to be approved");
    write!(f, " {} ({}{held})", call.tool, call.contract.name())
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

fn format_caps(caps: &TurnCaps, f: &mut Formatter<'_>) -> fmt::Result {
    if !caps.is_none() {
        f.write_str(", at most")?;
    }
    for (level, caps) in [
        ("session", caps.session),
        ("turn", caps.turn),
        ("run", caps.run),
    ] {
        if let Some(tokens) = caps.tokens {
            write!(f, " {level} {tokens} tokens")?;
        }
        if let Some(cost) = caps.cost {
            write!(f, " {level} {cost}")?;
        }
        if let Some(ms) = caps.time_ms {
            write!(f, " {level} {ms} ms")?;
        }
    }
    match caps.agents.len() {
        0 => {}
        agents => write!(f, " and of {agents} agents")?,
    }
    caps.limit_ms
        .map_or(Ok(()), |ms| write!(f, " within {ms} ms"))
}

fn format_accepted(accepted: &AcceptedTurn, f: &mut Formatter<'_>) -> fmt::Result {
    let work = match &accepted.work {
        Work::Answer { .. } => "answer",
        Work::Compact { .. } => "compact",
        Work::CompactPart { part, .. } => match part {
            ContextPart::Topic { .. } => "compact a topic",
            ContextPart::Attention => "compact the current topic",
            ContextPart::Large { .. } => "cut large messages",
        },
        Work::Revert { .. } => "revert",
        Work::Regenerate { .. } => "regenerate",
        Work::Edit { .. } => "edit",
    };
    let (id, branch) = (turn(accepted.id), &accepted.branch);
    write!(f, "{id}: {work} on {branch}")?;
    match accepted.delegates.len() {
        0 => {}
        delegates => write!(f, " with {delegates} delegates")?,
    }
    if let Some(key) = &accepted.key {
        write!(f, " under {:?}", key.name)?;
    }
    format_caps(&accepted.caps, f)
}

fn format_planned(step: &PlanStep, f: &mut Formatter<'_>) -> fmt::Result {
    let covered = |cover: &Cover, f: &mut Formatter<'_>| {
        format_spans(&cover.spans, f)?;
        write!(f, " of {} tokens", cover.original)
    };
    match step {
        PlanStep::Mask(targets) => write!(f, "mask {} messages", targets.len()),
        PlanStep::Cut {
            ordinal,
            target_chars,
            ..
        } => write!(f, "cut {ordinal} to {target_chars} characters"),
        PlanStep::Summarise {
            cover, tier, cap, ..
        } => {
            f.write_str(match tier {
                Tier::Conversation => "summarise ",
                Tier::Topic => "summarise topic ",
                Tier::Bulk => "summarise as a bulk ",
            })?;
            covered(cover, f)?;
            write!(f, " in at most {cap}")
        }
        PlanStep::Drop { cover } => {
            f.write_str("drop ")?;
            covered(cover, f)
        }
        PlanStep::Regenerate { cover, cap, .. } => {
            f.write_str("regenerate the summary of ")?;
            format_spans(&cover.spans, f)?;
            write!(f, " in at most {cap}")
        }
        PlanStep::Truncate { messages, .. } => {
            write!(f, "cut the tails of {} messages", messages.len())
        }
    }
}

fn format_spans(spans: &[Span], f: &mut Formatter<'_>) -> fmt::Result {
    for (index, span) in spans.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{span}")?;
    }
    Ok(())
}

fn format_contents(manifest: &Manifest, f: &mut Formatter<'_>) -> fmt::Result {
    let messages: u32 = manifest.spans.iter().copied().map(Span::len).sum();
    let summaries = manifest.checkpoints.len();
    write!(f, "{summaries} summaries and {messages} messages")
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
        Step::Model(reply) => write!(f, "model reply with {} tool calls", reply.calls.len()),
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

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Answered => f.write_str("answered"),
            Outcome::Compacted { before, after } => {
                write!(f, "compacted from {before} to {after} tokens")
            }
            Outcome::Failed { code, reason } => write!(f, "failed ({code}): {reason}"),
            Outcome::Cancelled => f.write_str("cancelled"),
            Outcome::Reverted { before, after } => {
                write!(f, "reverted from {before} to {after} tokens")
            }
        }
    }
}
