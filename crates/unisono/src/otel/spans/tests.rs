//! Tests of the spans of a turn that reports something after its end.

use super::*;
use crate::otel::span::time;

fn take(spans: &mut Spans, at: i64, fact: Fact) -> Vec<SpanData> {
    let at = Timestamp(at);
    spans.take(SessionId::from_u128(1), &Event { at, fact })
}

/// Ends a turn that began at 0 and compacted at 1,000.
fn ended(spans: &mut Spans, id: TurnId, at: i64) {
    let turn = Turn {
        since: Timestamp(0),
        branch: "main".into(),
        operation: "invoke_workflow",
        runs: Vec::new(),
        ready: Timestamp(0),
        summaries: 0,
        compacts: false,
    };
    spans.turns.insert(id, turn);
    let reason = "it broke".into();
    take(spans, 1_000, Fact::CompactionFailed { turn: id, reason });
    let outcome = Outcome::Cancelled;
    take(spans, at, Fact::TurnEnded { turn: id, outcome });
}

fn summary(spans: &mut Spans, turn: TurnId, at: i64) -> SpanData {
    let fact = Fact::SummariserUsed {
        turn,
        model: "test/a".into(),
        usage: Usage::NONE,
    };
    take(spans, at, fact).remove(0)
}

#[test]
fn a_summary_after_its_turns_end_lasted_since_it_could_be_asked_for() {
    let mut spans = Spans::default();
    let turn = TurnId::from_u128(7);
    ended(&mut spans, turn, 2_000);
    let late = summary(&mut spans, turn, 3_000);
    let lasted = |span: &SpanData| (span.start_time, span.end_time);
    assert_eq!(
        lasted(&late),
        (time(Timestamp(1_000)), time(Timestamp(3_000)))
    );
    let next = summary(&mut spans, turn, 3_500);
    assert_eq!(
        lasted(&next),
        (time(Timestamp(3_000)), time(Timestamp(3_500)))
    );
    assert_ne!(late.span_context.span_id(), next.span_context.span_id());
}

#[test]
fn the_newest_turns_that_ended_are_remembered() {
    let mut spans = Spans::default();
    for n in 0..=ENDED as u128 {
        ended(&mut spans, TurnId::from_u128(n), 2_000);
    }
    let mut length = |n: u128| {
        let span = summary(&mut spans, TurnId::from_u128(n), 3_000);
        span.end_time
            .duration_since(span.start_time)
            .unwrap()
            .as_millis()
    };
    assert_eq!((length(0), length(1)), (0, 2_000));
}
