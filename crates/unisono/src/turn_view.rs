//! The turns of a session in the types of the API, including old ones.

use std::sync::Arc;

use unisono_api::Page;
use unisono_api::blob::Extent;
use unisono_api::turn::{
    ClientToolCall, Compacted, ErrorInfo as Failed, Run, RunPause, Turn, TurnAttachment,
};
use unisono_api::usage::{ChargedAmount, SummaryUsage as Summaries};
use unisono_context::message::Part;
use unisono_context::{RunId, SessionId, TurnId};
use unisono_runtime::clock;
use unisono_session::budget::Amount;
use unisono_session::event::{AcceptedTurn, LateOutput, Outcome, RequestKey, RunRole};
use unisono_session::run::{Ending, is_blank};
use unisono_session::summary_usage::SummaryUsage;
use unisono_session::trace::{self, RunTrace, TurnTrace};
use unisono_session::{State, Trace};
use unisono_store::Journal;

use crate::history::{self, Lookup};
use crate::values;
use crate::view::Inspect;

/// A turn from its session's journal; none if it does not exist.
pub async fn turn(
    journal: &Journal,
    session: &impl Inspect,
    turn: TurnId,
) -> Result<Option<Turn>, history::Error> {
    let trace = history::turn(journal, session, Lookup::Turn(turn)).await?;
    Ok(trace.and_then(|trace| of_turn(&trace, session.id(), turn)))
}

/// One turn of a trace.
pub fn of_turn(trace: &Trace, session: SessionId, turn: TurnId) -> Option<Turn> {
    let found = trace.turn(turn)?;
    Some(to_api(trace, session, turn, found))
}

/// A page of the turns of a session, the newest first; `before`: turns that were accepted before
/// that event.
pub async fn turns(
    journal: &Journal,
    session: &impl Inspect,
    before: Option<u64>,
    limit: usize,
) -> Result<Page<Turn>, history::Error> {
    let before = before.unwrap_or(u64::MAX);
    // Nothing is looked for behind the first turn: a long import may come before it.
    let count = |state: &State| state.ended_turns().len() + state.open_turns().count();
    let all = session.inspect(count).await?;
    if all == 0 {
        let (items, next) = (Vec::new(), None);
        return Ok(Page { items, next });
    }
    // One more item shows whether there is a next page.
    let trace = history::turns(journal, session, before, (limit + 1).min(all)).await?;
    let turns = trace
        .turns()
        .map(|(id, turn)| (turn.accepted.0.seq, id, turn));
    let mut turns: Vec<_> = turns.filter(|(seq, ..)| *seq < before).collect();
    turns.sort_unstable_by_key(|(seq, ..)| std::cmp::Reverse(*seq));
    let part = Page::first(turns, limit, |(seq, ..)| seq.to_string());
    Ok(part.map(|(_, id, turn)| to_api(&trace, session.id(), id, turn)))
}

/// All turns of a trace, the oldest first.
pub fn all_turns(trace: &Trace, session: SessionId) -> Vec<Turn> {
    let mut all: Vec<(TurnId, &TurnTrace)> = trace.turns().collect();
    all.sort_by_key(|(_, turn)| turn.accepted.0.seq);
    let turns = all.into_iter();
    turns
        .map(|(id, turn)| to_api(trace, session, id, turn))
        .collect()
}

fn to_api(trace: &Trace, session: SessionId, id: TurnId, turn: &TurnTrace) -> Turn {
    let (accepted, what) = &turn.accepted;
    let traced = |run: &RunId| Some((*run, trace.run(*run)?));
    let runs: Vec<(RunId, &RunTrace)> = turn.runs.iter().filter_map(traced).collect();
    let ran: Vec<Run> = runs.iter().map(|(id, run)| ran(trace, *id, run)).collect();
    let outcome = turn.ended.as_ref().map(|(_, outcome)| outcome);
    let lead = ran.iter().find(|run| run.role == "lead");
    let answered = matches!(outcome, Some(Outcome::Answered));
    let usage = values::amounts(&trace.turn_usage(turn));
    Turn {
        session: session.to_string(),
        turn: id.to_string(),
        branch: what.branch.to_string(),
        lead: (what.work.task())
            .and(trace.lead_of(turn))
            .map(|lead| lead.id.to_string()),
        task: what.work.task().map(|task| task.to_string()),
        client_message_id: of_key(what, |key| key.client_message_id.as_ref()),
        client_parts: of_key(what, |key| key.client_parts.as_ref()),
        attachments: what.work.attachments().filter_map(attachment).collect(),
        state: state(turn).to_owned(),
        error: match outcome {
            Some(Outcome::Failed { code, reason }) => Some(Failed {
                code: code.to_string(),
                reason: reason.to_string(),
            }),
            _ => None,
        },
        answer: lead.filter(|_| answered).and_then(|lead| lead.text.clone()),
        calls: runs.iter().flat_map(|(_, run)| left(run)).collect(),
        snapshot: turn.frozen.map(|(_, snapshot)| snapshot.to_string()),
        snapshot_agents: ran
            .iter()
            .map(|run| u32::from(run.snapshot.is_some()))
            .sum(),
        checkpoints: turn.checkpoints.clone(),
        notices: Vec::new(),
        compacted: turn.compacted.map(compacted),
        usage,
        summaries: turn.summaries.is_used().then(|| summaries(&turn.summaries)),
        cost_usd: usage.cost_usd,
        budgets: Vec::new(),
        runs: ran,
        accepted_at: values::instant(accepted.at),
        started_at: turn.started.map(|started| values::instant(started.at)),
        resumed_at: turn.resumed.map(|resumed| values::instant(resumed.at)),
        frozen_at: turn.frozen.map(|(frozen, _)| values::instant(frozen.at)),
        ended_at: turn.ended.as_ref().map(|(end, _)| values::instant(end.at)),
    }
}

/// What the key of the task's request has of the client's message.
fn of_key(what: &AcceptedTurn, field: impl Fn(&RequestKey) -> Option<&Arc<str>>) -> Option<String> {
    field(what.key.as_ref()?).map(ToString::to_string)
}

/// An attachment of a task; none for another part.
fn attachment(part: &Part) -> Option<TurnAttachment> {
    let Part::Attachment {
        filename,
        mime,
        size_bytes,
        content,
    } = part
    else {
        return None;
    };
    Some(TurnAttachment {
        filename: filename.to_string(),
        mime: mime.to_string(),
        size_bytes: *size_bytes,
        digest: content.as_ref().map(|content| content.digest.to_string()),
        extent: content
            .as_ref()
            .map_or_else(Extent::default, |content| values::extent(content.extent)),
    })
}

fn summaries(of: &SummaryUsage) -> Summaries {
    Summaries {
        usage: values::amounts(&of.total),
        unused: (of.unused_steps > 0).then(|| values::amounts(&of.unused)),
    }
}

fn compacted(made: trace::CompactionTrace) -> Compacted {
    let after = made.after.map(|after| after.0);
    Compacted {
        tokens_before: made.before.0,
        tokens_after: after,
        compression_ratio: after
            .and_then(|after| unisono_api::compaction::ratio(made.before.0, after)),
        tightened: made.tightened,
        effect: values::effect(made.effect),
        shortened: made.shortened,
    }
}

fn left(run: &RunTrace) -> Vec<ClientToolCall> {
    let Some(Ending::Finished { calls, .. }) = run.ended.as_ref().map(|(_, ending)| &**ending)
    else {
        return Vec::new();
    };
    let calls = calls.iter().map(|call| ClientToolCall {
        id: call.id.to_string(),
        tool: call.name.to_string(),
        arguments: call.arguments.to_string(),
    });
    calls.collect()
}

fn state(turn: &TurnTrace) -> &'static str {
    match &turn.ended {
        Some((_, outcome)) => outcome.name(),
        None if turn.frozen.is_some() => "working",
        None if turn.started.is_some() => "preparing",
        None => "queued",
    }
}

fn ran(trace: &Trace, id: RunId, run: &RunTrace) -> Run {
    let (at, opened) = &run.opened;
    let ending = run.ended.as_ref().map(|(_, ending)| &**ending);
    let definition = run.definition.as_ref();
    let asks = definition.filter(|agent| agent.kind.uses_model());
    let model = asks.map(|agent| agent.model.to_string());
    let ended = run.ended.as_ref().map(|(moment, _)| moment.at);
    let (round, index) = match opened.role {
        RunRole::Lead => (None, None),
        RunRole::Delegate { index } => (None, Some(index)),
        RunRole::Child { round, index, .. } => (Some(round), Some(index)),
    };
    Run {
        run: id.to_string(),
        agent: opened.agent.to_string(),
        model,
        role: opened.role.name().to_owned(),
        stage: run.stage,
        parent: opened.role.parent().map(|parent| parent.to_string()),
        round,
        index,
        task: trace.own_task(id).map(|task| task.to_string()),
        state: run.status().name().to_owned(),
        waits_for: run.waits_for().map(|what| what.name().to_owned()),
        waited_ms: Some(trace::waited_ms(run)).filter(|ms| *ms > 0),
        attempt: run.attempt(),
        pause: pause(run),
        step_count: run.steps.len() as u64,
        snapshot: opened.snapshot.map(|snapshot| snapshot.to_string()),
        prefix: opened.prefix.to_string(),
        text: match ending {
            Some(Ending::Finished { text, .. }) => Some(text.to_string()),
            _ => None,
        },
        last_text: last_text(run),
        error: ending.and_then(lacking),
        usage: values::amounts(&run.usage()),
        charged: charged(run),
        budgets: Vec::new(),
        opened_at: values::instant(at.at),
        ended_at: ended.map(values::instant),
        duration_ms: duration(run),
    }
}

/// The last text of the model of a run that ended without an answer.
fn last_text(run: &RunTrace) -> Option<String> {
    let (_, ending) = run.ended.as_ref()?;
    let broken_off = match &**ending {
        Ending::Finished { .. } => return None,
        Ending::Failed { text, .. } => text.as_ref(),
        Ending::Cancelled => None,
    };
    let late = run.late.iter().rev().filter_map(|(_, late)| match late {
        LateOutput::Reply(reply) => Some(&reply.text),
        LateOutput::Answer { text, .. } | LateOutput::Incomplete { text } => Some(text),
        LateOutput::Spent(_) | LateOutput::Named { .. } => None,
    });
    let replies = run.steps.iter().rev().filter_map(|(_, step)| step.reply());
    let mut texts = broken_off
        .into_iter()
        .chain(late)
        .chain(replies.map(|reply| &reply.text));
    let last = texts.find(|text| !is_blank(text))?;
    Some(last.to_string())
}

/// The pause of an open run before its next attempt.
fn pause(run: &RunTrace) -> Option<RunPause> {
    let until = run.not_before.filter(|until| clock::now() < *until)?;
    let (.., reason) = run.retries.last().filter(|_| run.ended.is_none())?;
    Some(RunPause {
        until: values::instant(until),
        reason: reason.to_string(),
    })
}

/// What the budgets count for an ended run; none if that is its usage.
fn charged(run: &RunTrace) -> Option<ChargedAmount> {
    run.ended.as_ref()?;
    let amount = run.charge.amount();
    (amount != Amount::from_usage(&run.usage())).then(|| ChargedAmount {
        tokens: amount.tokens.0,
        cost_usd: amount.cost.micro_dollars() as f64 / 1e6,
    })
}

/// The duration of a run; none while it is open.
fn duration(run: &RunTrace) -> Option<u64> {
    let (moment, ending) = run.ended.as_ref()?;
    match &**ending {
        Ending::Finished { duration_ms, .. } | Ending::Failed { duration_ms, .. } => {
            Some(*duration_ms)
        }
        Ending::Cancelled => u64::try_from(moment.at.ms_since(run.opened.0.at)).ok(),
    }
}

/// Why a run failed or is incomplete.
fn lacking(ending: &Ending) -> Option<Failed> {
    let (code, reason) = match ending {
        Ending::Finished { partial, .. } => ("partial", partial.as_ref()?),
        Ending::Failed { cause, reason, .. } => (cause.code(), reason),
        Ending::Cancelled => return None,
    };
    Some(Failed {
        code: code.to_owned(),
        reason: reason.to_string(),
    })
}
