//! The instants of a turn in the types of the API.

use unisono_api::timeline::{RunTimes, Span, Timeline};
use unisono_context::{SessionId, Timestamp, TurnId};
use unisono_runtime::clock;
use unisono_session::Trace;
use unisono_session::trace::{Stretch, TurnTrace, run_times};

use crate::turn_view;
use crate::values::instant;

/// Runs that are told, and spans of each.
const RUNS: usize = 200;
const SPANS: usize = 500;

/// The instants of a turn; none if the trace does not have it.
pub(crate) fn of(trace: &Trace, session: SessionId, turn: TurnId) -> Option<Timeline> {
    let found = trace.turn(turn)?;
    let shown = turn_view::one(trace, session, turn)?;
    let runs = found.runs.iter().zip(shown.runs).take(RUNS);
    let runs = runs.filter_map(|(id, run)| {
        let times = run_times(trace.run(*id)?);
        let left_out = times.stretches.len().saturating_sub(SPANS);
        Some(RunTimes {
            run: run.run,
            agent: run.agent,
            role: run.role,
            parent: run.parent,
            state: run.state,
            opened: run.opened,
            began: times.pace.began.map(instant),
            first_token: times.pace.first_token.map(instant),
            ended: run.ended,
            spans: times.stretches.iter().take(SPANS).map(of_run).collect(),
            spans_left_out: left_out as u64,
        })
    });
    Some(Timeline {
        session: shown.session,
        turn: shown.turn,
        state: shown.state,
        accepted: shown.accepted,
        started: shown.started,
        frozen: shown.frozen,
        ended: shown.ended,
        now: instant(clock::now()),
        spans: before(found),
        runs: runs.collect(),
        runs_left_out: found.runs.len().saturating_sub(RUNS) as u64,
    })
}

fn of_run(stretch: &Stretch) -> Span {
    let decision = stretch.decision.as_ref();
    Span {
        kind: stretch.kind.name().to_owned(),
        from: instant(stretch.from),
        to: stretch.to.map(instant),
        tool: stretch.tool.as_ref().map(ToString::to_string),
        attempt: Some(stretch.attempt),
        decision: decision.map(|decision| decision.name.to_owned()),
        by: decision.and_then(|decision| decision.by.as_ref().map(ToString::to_string)),
    }
}

/// What happened before the agents worked.
fn before(turn: &TurnTrace) -> Vec<Span> {
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
