//! The timeline of a run: the periods of its queue, model, tools, people and delegates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::Timestamp;

use super::{RecordedDecision, RunEvent, RunTrace};
use crate::run::calls::CallPlace;
use crate::run::{AttemptTimes, Ending, Step};

/// The activity of a run in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The run waits in the queue of runs.
    Queue,
    /// It waits for the provider's cache, which another request writes, or it itself.
    Cache,
    /// Its agent, or its model, works.
    Model,
    /// A tool call runs.
    Tool,
    /// A tool call waits for the decision of a person.
    Person,
    /// The run waits for its delegates.
    Delegates,
    /// An attempt failed, and the next one is not due yet.
    Retry,
}

unisono_context::names!(Activity.name {
    Queue = "queue",
    Cache = "cache",
    Model = "model",
    Tool = "tool",
    Person = "person",
    Delegates = "delegates",
    Retry = "retry",
});

/// A period of a run with one activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The activity.
    pub kind: Activity,
    /// Its beginning.
    pub from: Timestamp,
    /// Its end; `None` if it has not ended.
    pub to: Option<Timestamp>,
    /// The tool, for [`Activity::Tool`] and [`Activity::Person`].
    pub tool: Option<Arc<str>>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The decision that ended it, for [`Activity::Person`]; `None` while it goes on.
    pub decision: Option<RecordedDecision>,
}

/// The times of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTimes {
    /// The beginning and the first text of the attempt with its result.
    pub attempt_times: AttemptTimes,
    /// Its periods by beginning. Tool calls of one reply may overlap.
    pub spans: Vec<Span>,
}

/// The times of a run, from its opening to its end.
pub fn run_times(run: &RunTrace) -> RunTimes {
    let attempt_times = match run.ended.as_ref().map(|(_, ending)| &**ending) {
        Some(Ending::Finished { attempt_times, .. }) => *attempt_times,
        _ => AttemptTimes::default(),
    };
    let mut fold = Fold {
        end: run.ended.as_ref().map(|(end, _)| end.at),
        at: run.opened.0.at,
        waits: false,
        delegates: None,
        attempt: 1,
        calls: BTreeMap::new(),
        spans: Vec::new(),
    };
    let steps = run
        .steps
        .iter()
        .map(|(moment, step)| (moment, Mark::Step(step)));
    let others = run.events.iter();
    let others = others.map(|(moment, event)| (moment, Mark::Event(event)));
    let mut marks: Vec<_> = steps.chain(others).collect();
    marks.sort_by_key(|(moment, mark)| (moment.seq, matches!(mark, Mark::Step(_))));
    for (moment, mark) in marks {
        match mark {
            Mark::Step(step) => fold.step(moment.at, step),
            Mark::Event(event) => fold.event(moment.at, event),
        }
    }
    fold.finish(attempt_times)
}

/// Whether this call of a run waits for the decision of a person.
pub(super) fn is_undecided(run: &RunTrace, place: CallPlace) -> bool {
    let mut latest = run.events.iter().rev();
    let waits = latest.find_map(|(_, event)| match event {
        RunEvent::AwaitsPerson(call) => (*call == place).then_some(true),
        RunEvent::Called { call, .. }
        | RunEvent::Started(call)
        | RunEvent::Ended(call)
        | RunEvent::Decided { call, .. } => (*call == place).then_some(false),
        RunEvent::Delegated | RunEvent::Retried(_) => None,
    });
    waits.unwrap_or(false)
}

/// Whether a call of a run waits for the decision of a person.
pub(super) fn has_undecided(run: &RunTrace) -> bool {
    let mut waiting = BTreeSet::new();
    for (_, event) in &run.events {
        match event {
            RunEvent::AwaitsPerson(call) => {
                waiting.insert(*call);
            }
            RunEvent::Started(call) | RunEvent::Ended(call) | RunEvent::Decided { call, .. } => {
                waiting.remove(call);
            }
            RunEvent::Called { .. } | RunEvent::Delegated | RunEvent::Retried(_) => {}
        }
    }
    !waiting.is_empty()
}

/// The time in which at least one call of a run waited for a person and then no longer, in
/// milliseconds.
pub fn waited_ms(run: &RunTrace) -> u64 {
    let asks = |event: &RunEvent| matches!(event, RunEvent::AwaitsPerson(_));
    if !run.events.iter().any(|(_, event)| asks(event)) {
        return 0;
    }
    let (mut waited, mut until) = (0, None);
    // By beginning; calls of one reply may overlap.
    for span in run_times(run).spans {
        let (Activity::Person, Some(to)) = (span.kind, span.to) else {
            continue;
        };
        let from = until.map_or(span.from, |until| span.from.max(until));
        waited += to.ms_since(from).max(0);
        until = until.max(Some(to));
    }
    u64::try_from(waited).unwrap_or(0)
}

enum Mark<'r> {
    Step(&'r Step),
    Event(&'r RunEvent),
}

/// The tool of a call, with its current activity and the beginning of that.
type OpenCall = (Arc<str>, Option<(Activity, Timestamp)>);

struct Fold {
    /// The end of the run; `None` if it has not ended.
    end: Option<Timestamp>,
    /// The beginning of the model's or the retry's current activity.
    at: Timestamp,
    /// Whether the run waits for tools or delegates.
    waits: bool,
    /// Since when the run waits for delegates.
    delegates: Option<Timestamp>,
    attempt: u32,
    /// The calls so far.
    calls: BTreeMap<CallPlace, OpenCall>,
    spans: Vec<Span>,
}

impl Fold {
    fn put(&mut self, kind: Activity, from: Timestamp, to: Option<Timestamp>) {
        self.spans.push(Span {
            kind,
            from,
            to,
            tool: None,
            attempt: self.attempt,
            decision: None,
        });
    }

    fn step(&mut self, now: Timestamp, step: &Step) {
        match step {
            Step::Model(reply) if !reply.calls.is_empty() => {
                if !self.waits {
                    self.put(Activity::Model, self.at, Some(now));
                }
                self.waits = true;
            }
            Step::Tools(_) => {
                if let Some(since) = self.delegates.take() {
                    self.put(Activity::Delegates, since, Some(now));
                }
                (self.at, self.waits) = (now, false);
            }
            _ => {}
        }
    }

    fn event(&mut self, now: Timestamp, event: &RunEvent) {
        match event {
            RunEvent::Called { call, tool } => {
                self.calls.insert(*call, (tool.clone(), None));
            }
            RunEvent::Started(call) => self.call(*call, now, Some(Activity::Tool), None),
            RunEvent::AwaitsPerson(call) => self.call(*call, now, Some(Activity::Person), None),
            RunEvent::Ended(call) => self.call(*call, now, None, None),
            RunEvent::Decided { call, decision } => self.call(*call, now, None, Some(decision)),
            RunEvent::Delegated => self.delegates = Some(now),
            RunEvent::Retried(not_before) => {
                if !self.waits {
                    self.put(Activity::Model, self.at, Some(now));
                }
                let until = (*not_before).max(now);
                let until = self.end.map_or(until, |end| until.min(end));
                self.put(Activity::Retry, now, Some(until));
                (self.at, self.waits) = (until, false);
                self.attempt += 1;
            }
        }
    }

    /// Ends the current activity of a call, with a decision if there is one, and begins the next.
    fn call(
        &mut self,
        call: CallPlace,
        now: Timestamp,
        next: Option<Activity>,
        decision: Option<&RecordedDecision>,
    ) {
        let Some((tool, since)) = self.calls.get_mut(&call) else {
            return;
        };
        let tool = tool.clone();
        let previous = std::mem::replace(since, next.map(|kind| (kind, now)));
        if let Some((kind, from)) = previous {
            self.put_call(kind, from, Some(now), tool, decision.cloned());
        }
    }

    fn put_call(
        &mut self,
        kind: Activity,
        from: Timestamp,
        to: Option<Timestamp>,
        tool: Arc<str>,
        decision: Option<RecordedDecision>,
    ) {
        self.put(kind, from, to);
        if let Some(put) = self.spans.last_mut() {
            put.tool = Some(tool);
            put.decision = decision;
        }
    }

    fn finish(mut self, attempt_times: AttemptTimes) -> RunTimes {
        for (_, (tool, since)) in std::mem::take(&mut self.calls) {
            if let Some((kind, from)) = since {
                self.put_call(kind, from, self.end, tool, None);
            }
        }
        if let Some(since) = self.delegates {
            self.put(Activity::Delegates, since, self.end);
        }
        if !self.waits {
            self.put(Activity::Model, self.at, self.end);
        }
        let mut spans = self.spans;
        let attempt = self.attempt;
        if let Some(began) = attempt_times.began {
            let is_first = |_: &Span| true;
            split(&mut spans, attempt, Activity::Queue, began, is_first);
        }
        if let Some(ready) = attempt_times.cache_ready {
            let has_wait = |span: &Span| span.to.is_none_or(|to| ready <= to);
            split(&mut spans, attempt, Activity::Cache, ready, has_wait);
        }
        spans.retain(|span| span.to != Some(span.from));
        spans.sort_by_key(|span| (span.from, span.to.is_none(), span.to));
        RunTimes {
            attempt_times,
            spans,
        }
    }
}

/// Splits the first such span of a model in the attempt: until `at`, it has another kind.
fn split(
    spans: &mut Vec<Span>,
    attempt: u32,
    kind: Activity,
    at: Timestamp,
    is_wanted: impl Fn(&Span) -> bool,
) {
    let of_model = |span: &Span| span.attempt == attempt && span.kind == Activity::Model;
    let mut wanted = spans.iter_mut();
    let Some(first) = wanted.find(|span| of_model(span) && is_wanted(span)) else {
        return;
    };
    let until = first.to.map_or(at, |to| at.min(to));
    if until <= first.from {
        return;
    }
    let before = Span {
        kind,
        to: Some(until),
        ..first.clone()
    };
    first.from = until;
    spans.push(before);
}

#[cfg(test)]
mod tests {
    //! The times of a run, from its events.

    use unisono_context::call::{Reply, ToolCall};
    use unisono_context::{AgentId, Digest, RunId, TurnId};

    use super::super::{Charge, Moment};
    use super::*;
    use crate::event::{OpenedRun, RunRole};
    use crate::run::Usage;

    fn moment(seq: u64, at: i64) -> Moment {
        let at = Timestamp(at);
        Moment { seq, at }
    }

    fn began(at: i64) -> Option<AttemptTimes> {
        Some(AttemptTimes {
            began: Some(Timestamp(at)),
            ..AttemptTimes::default()
        })
    }

    fn trace(attempt_times: Option<AttemptTimes>) -> RunTrace {
        let opened = OpenedRun {
            id: RunId::from_u128(1),
            turn: TurnId::from_u128(2),
            role: RunRole::Lead,
            agent: AgentId::new("a"),
            definition: Digest::of_bytes(b"d"),
            snapshot: None,
            prefix: Digest::of_bytes(b"p"),
        };
        let ending = |attempt_times| Ending::Finished {
            text: "done".into(),
            calls: Vec::new(),
            partial: None,
            usage: Usage::NONE,
            duration_ms: 1,
            attempt_times,
        };
        RunTrace {
            opened: (moment(1, 100), opened),
            definition: None,
            stage: None,
            steps: Vec::new(),
            retries: Vec::new(),
            not_before: None,
            events: Vec::new(),
            ended: attempt_times
                .map(|attempt_times| (moment(99, 1_000), Arc::new(ending(attempt_times)))),
            late: Vec::new(),
            charge: Charge::default(),
            open_children: 0,
        }
    }

    fn place(index: u32) -> CallPlace {
        CallPlace {
            run: RunId::from_u128(1),
            round: 1,
            index,
        }
    }

    fn calls() -> Arc<Step> {
        let call = |id: &str| ToolCall::new(id, "mail", "{}");
        Arc::new(Step::Model(Reply {
            calls: vec![call("a"), call("b")],
            ..Reply::default()
        }))
    }

    fn called(index: u32) -> RunEvent {
        RunEvent::Called {
            call: place(index),
            tool: "mail".into(),
        }
    }

    fn decided(index: u32, by: Option<&str>) -> RunEvent {
        RunEvent::Decided {
            call: place(index),
            decision: RecordedDecision {
                name: "approved",
                by: by.map(Into::into),
            },
        }
    }

    fn listed(times: &RunTimes) -> Vec<(&'static str, i64, Option<i64>, u32)> {
        let each = times.spans.iter();
        each.map(|span| {
            let to = span.to.map(|to| to.0);
            (span.kind.name(), span.from.0, to, span.attempt)
        })
        .collect()
    }

    #[test]
    fn a_run_waits_for_its_place_its_tools_and_a_person() {
        let mut run = trace(Some(AttemptTimes {
            began: Some(Timestamp(150)),
            first_token: Some(Timestamp(180)),
            cache_ready: Some(Timestamp(170)),
        }));
        run.steps = vec![
            (moment(2, 200), calls()),
            (moment(9, 700), Arc::new(Step::Tools(Vec::new()))),
        ];
        run.events = vec![
            (moment(3, 200), called(0)),
            (moment(3, 200), called(1)),
            (moment(3, 200), RunEvent::AwaitsPerson(place(1))),
            (moment(4, 210), RunEvent::Started(place(0))),
            (moment(5, 300), RunEvent::Ended(place(0))),
            (moment(6, 600), decided(1, Some("ada"))),
            (moment(7, 600), RunEvent::Started(place(1))),
            (moment(8, 700), RunEvent::Ended(place(1))),
        ];
        let times = run_times(&run);
        let expected = [
            ("queue", 100, Some(150), 1),
            ("cache", 150, Some(170), 1),
            ("model", 170, Some(200), 1),
            ("person", 200, Some(600), 1),
            ("tool", 210, Some(300), 1),
            ("tool", 600, Some(700), 1),
            ("model", 700, Some(1_000), 1),
        ];
        assert_eq!(listed(&times), expected);
        assert_eq!((waited_ms(&run), has_undecided(&run)), (400, false));
        assert_eq!(times.attempt_times.first_token, Some(Timestamp(180)));
        assert_eq!(times.spans[3].tool.as_deref(), Some("mail"));
        let by =
            |decision: &RecordedDecision| (decision.name, decision.by.as_deref() == Some("ada"));
        let decision = times.spans[3].decision.as_ref();
        assert_eq!(decision.map(by), Some(("approved", true)));
        let listed = super::super::decisions(&run);
        let listed: Vec<_> = listed
            .iter()
            .map(|one| (one.moment.seq, &*one.tool, by(&one.decision)))
            .collect();
        assert_eq!(listed, [(6, "mail", ("approved", true))]);
    }

    #[test]
    fn a_current_activity_has_no_end() {
        let mut run = trace(None);
        run.steps = vec![(moment(2, 200), calls())];
        run.events = vec![
            (moment(3, 200), called(0)),
            (moment(3, 200), RunEvent::AwaitsPerson(place(0))),
            (moment(3, 200), RunEvent::Delegated),
        ];
        let expected = [
            ("model", 100, Some(200), 1),
            ("person", 200, None, 1),
            ("delegates", 200, None, 1),
        ];
        assert_eq!(listed(&run_times(&run)), expected);
        assert_eq!(
            (waited_ms(&run), run.waits_for()),
            (0, Some(Activity::Person))
        );
    }

    #[test]
    fn a_request_after_a_tool_may_wait_for_the_cache() {
        let mut run = trace(Some(AttemptTimes {
            began: None,
            first_token: None,
            cache_ready: Some(Timestamp(750)),
        }));
        run.steps = vec![
            (moment(2, 200), calls()),
            (moment(9, 700), Arc::new(Step::Tools(Vec::new()))),
        ];
        let expected = [
            ("model", 100, Some(200), 1),
            ("cache", 700, Some(750), 1),
            ("model", 750, Some(1_000), 1),
        ];
        assert_eq!(listed(&run_times(&run)), expected);
    }

    #[test]
    fn a_failed_attempt_is_followed_by_a_pause_and_the_next_one() {
        let mut run = trace(began(620));
        run.events = vec![(moment(2, 300), RunEvent::Retried(Timestamp(600)))];
        let expected = [
            ("model", 100, Some(300), 1),
            ("retry", 300, Some(600), 1),
            ("queue", 600, Some(620), 2),
            ("model", 620, Some(1_000), 2),
        ];
        assert_eq!(listed(&run_times(&run)), expected);
    }

    #[test]
    fn a_call_in_doubt_waits_for_a_person_and_a_clock_that_went_back_makes_nothing_negative() {
        let mut run = trace(began(50));
        run.steps = vec![(moment(2, 200), calls())];
        run.events = vec![
            (moment(3, 200), called(0)),
            (moment(4, 200), RunEvent::Started(place(0))),
            (moment(5, 400), RunEvent::AwaitsPerson(place(0))),
            (moment(6, 500), decided(0, None)),
        ];
        let expected = [
            ("model", 100, Some(200), 1),
            ("tool", 200, Some(400), 1),
            ("person", 400, Some(500), 1),
        ];
        assert_eq!(listed(&run_times(&run)), expected);
    }
}
