//! The timeline of a turn in the types of the API.

use unisono_api::timeline::{RunTimes, Span, Timeline};
use unisono_context::{SessionId, Timestamp, TurnId};
use unisono_runtime::clock;
use unisono_session::Trace;
use unisono_session::trace::{Span as TraceSpan, TurnTrace, run_times};

use crate::turn_view;
use crate::values::instant;

/// Maximum number of runs, and of spans per run.
const RUNS: usize = 200;
const SPANS: usize = 500;

/// The timeline of a turn; `None` if the trace does not have the turn.
pub(crate) fn of_turn(trace: &Trace, session: SessionId, turn: TurnId) -> Option<Timeline> {
    let found = trace.turn(turn)?;
    let shown = turn_view::of_turn(trace, session, turn)?;
    let runs = found.runs.iter().zip(shown.runs).take(RUNS);
    let runs = runs.filter_map(|(id, run)| {
        let times = run_times(trace.run(*id)?);
        let skipped = times.spans.len().saturating_sub(SPANS);
        Some(RunTimes {
            run: run.run,
            agent: run.agent,
            role: run.role,
            parent: run.parent,
            state: run.state,
            opened_at: run.opened_at,
            started_at: times.attempt_times.began.map(instant),
            first_token_at: times.attempt_times.first_token.map(instant),
            ended_at: run.ended_at,
            spans: times.spans.iter().take(SPANS).map(of_run).collect(),
            omitted_spans: skipped as u64,
        })
    });
    Some(Timeline {
        session: shown.session,
        turn: shown.turn,
        state: shown.state,
        accepted_at: shown.accepted_at,
        started_at: shown.started_at,
        frozen_at: shown.frozen_at,
        ended_at: shown.ended_at,
        now: instant(clock::now()),
        spans: spans_before_runs(found),
        runs: runs.collect(),
        omitted_runs: found.runs.len().saturating_sub(RUNS) as u64,
    })
}

fn of_run(span: &TraceSpan) -> Span {
    let decision = span.decision.as_ref();
    Span {
        kind: span.kind.name().to_owned(),
        from: instant(span.from),
        to: span.to.map(instant),
        tool: span.tool.as_ref().map(ToString::to_string),
        attempt: Some(span.attempt),
        decision: decision.map(|decision| decision.name.to_owned()),
        by: decision.and_then(|decision| decision.by.as_ref().map(ToString::to_string)),
    }
}

/// The spans before the agents begin to work.
fn spans_before_runs(turn: &TurnTrace) -> Vec<Span> {
    let end = turn.ended.as_ref().map(|(end, _)| end.at);
    let started = turn.started.map(|started| started.at);
    let ready = turn.frozen.map(|(frozen, _)| frozen.at).or(end);
    let mut spans = vec![span("queue", turn.accepted.0.at, started.or(end))];
    if let Some(started) = started {
        spans.push(span("preparation", started, ready));
    }
    let plans = turn.plans.iter().map(|(moment, _)| moment.at);
    let next = plans.clone().skip(1).map(Some).chain([ready]);
    spans.extend(
        plans
            .zip(next)
            .map(|(from, to)| span("compaction", from, to)),
    );
    spans.retain(|span| span.to.as_ref() != Some(&span.from));
    spans.truncate(SPANS);
    spans
}

fn span(kind: &str, from: Timestamp, to: Option<Timestamp>) -> Span {
    Span {
        kind: kind.to_owned(),
        from: instant(from),
        to: to.map(instant),
        tool: None,
        attempt: None,
        decision: None,
        by: None,
    }
}
