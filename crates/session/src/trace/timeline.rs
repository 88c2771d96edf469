//! When a run waited, when its model worked, and when its tools and people did.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::Timestamp;

use super::{Happened, MadeDecision, RunTrace};
use crate::run::calls::CallPlace;
use crate::run::{Ending, Pace, Step};

/// What goes on in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StretchKind {
    /// The run waits for a place among the active runs.
    Queue,
    /// Its agent, or its model, works.
    Model,
    /// A tool works.
    Tool,
    /// A call waits for the decision of a person.
    Person,
    /// It waits for agents that it gave tasks to.
    Delegates,
    /// An attempt failed; the next one is not due yet.
    Retry,
}

impl StretchKind {
    /// The stable word.
    pub const fn name(self) -> &'static str {
        match self {
            StretchKind::Queue => "queue",
            StretchKind::Model => "model",
            StretchKind::Tool => "tool",
            StretchKind::Person => "person",
            StretchKind::Delegates => "delegates",
            StretchKind::Retry => "retry",
        }
    }
}

/// A stretch of the time of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// What goes on.
    pub kind: StretchKind,
    /// Its beginning.
    pub from: Timestamp,
    /// Its end; none: it goes on.
    pub to: Option<Timestamp>,
    /// The tool, for [`StretchKind::Tool`] and [`StretchKind::Person`].
    pub tool: Option<Arc<str>>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// What ended it, for [`StretchKind::Person`]; none: it goes on.
    pub decision: Option<MadeDecision>,
}

/// The times of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTimes {
    /// When the attempt that brought its result began, and when its first piece of text came.
    pub pace: Pace,
    /// By beginning. Tool calls of one reply may overlap.
    pub stretches: Vec<Stretch>,
}

/// The times of a run, from its opening to its end.
pub fn run_times(run: &RunTrace) -> RunTimes {
    let pace = match run.ended.as_ref().map(|(_, ending)| &**ending) {
        Some(Ending::Finished { pace, .. }) => *pace,
        _ => Pace::default(),
    };
    let mut fold = Fold {
        end: run.ended.as_ref().map(|(end, _)| end.at),
        at: run.opened.0.at,
        waits: false,
        delegates: None,
        attempt: 1,
        calls: BTreeMap::new(),
        stretches: Vec::new(),
    };
    let steps = run
        .steps
        .iter()
        .map(|(moment, step)| (moment, Mark::Step(step)));
    let others = run.happened.iter();
    let others = others.map(|(moment, what)| (moment, Mark::Other(what)));
    let mut marks: Vec<_> = steps.chain(others).collect();
    marks.sort_by_key(|(moment, mark)| (moment.seq, matches!(mark, Mark::Step(_))));
    for (moment, mark) in marks {
        match mark {
            Mark::Step(step) => fold.step(moment.at, step),
            Mark::Other(what) => fold.other(moment.at, what),
        }
    }
    fold.finish(pace)
}

enum Mark<'r> {
    Step(&'r Step),
    Other(&'r Happened),
}

/// The tool of a call, what goes on with it, and since when; none: nothing does.
type OpenCall = (Arc<str>, Option<(StretchKind, Timestamp)>);

struct Fold {
    /// The end of the run; none: it goes on.
    end: Option<Timestamp>,
    /// Since when the model works, or the run waits.
    at: Timestamp,
    /// Whether it waits for tools or others.
    waits: bool,
    /// Since when it waits for others.
    delegates: Option<Timestamp>,
    attempt: u32,
    /// The calls so far.
    calls: BTreeMap<CallPlace, OpenCall>,
    stretches: Vec<Stretch>,
}

impl Fold {
    fn put(&mut self, kind: StretchKind, from: Timestamp, to: Option<Timestamp>) {
        self.stretches.push(Stretch {
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
                    self.put(StretchKind::Model, self.at, Some(now));
                }
                self.waits = true;
            }
            Step::Tools(_) => {
                if let Some(since) = self.delegates.take() {
                    self.put(StretchKind::Delegates, since, Some(now));
                }
                (self.at, self.waits) = (now, false);
            }
            _ => {}
        }
    }

    fn other(&mut self, now: Timestamp, what: &Happened) {
        match what {
            Happened::Called { call, tool, held } => {
                let since = held.then_some((StretchKind::Person, now));
                self.calls.insert(*call, (tool.clone(), since));
            }
            Happened::Started(call) => self.call(*call, now, Some(StretchKind::Tool), None),
            Happened::InDoubt(call) => self.call(*call, now, Some(StretchKind::Person), None),
            Happened::Ended(call) => self.call(*call, now, None, None),
            Happened::Decided { call, decision } => self.call(*call, now, None, Some(decision)),
            Happened::Delegated => self.delegates = Some(now),
            Happened::Retried(not_before) => {
                if !self.waits {
                    self.put(StretchKind::Model, self.at, Some(now));
                }
                let until = (*not_before).max(now);
                let until = self.end.map_or(until, |end| until.min(end));
                self.put(StretchKind::Retry, now, Some(until));
                (self.at, self.waits) = (until, false);
                self.attempt += 1;
            }
        }
    }

    /// What went on with a call is over, by that decision, and something else begins.
    fn call(
        &mut self,
        call: CallPlace,
        now: Timestamp,
        next: Option<StretchKind>,
        decision: Option<&MadeDecision>,
    ) {
        let Some((tool, since)) = self.calls.get_mut(&call) else {
            return;
        };
        let tool = tool.clone();
        let over = std::mem::replace(since, next.map(|kind| (kind, now)));
        if let Some((kind, from)) = over {
            self.put_call(kind, from, Some(now), tool, decision.cloned());
        }
    }

    fn put_call(
        &mut self,
        kind: StretchKind,
        from: Timestamp,
        to: Option<Timestamp>,
        tool: Arc<str>,
        decision: Option<MadeDecision>,
    ) {
        self.put(kind, from, to);
        if let Some(put) = self.stretches.last_mut() {
            put.tool = Some(tool);
            put.decision = decision;
        }
    }

    fn finish(mut self, pace: Pace) -> RunTimes {
        for (_, (tool, since)) in std::mem::take(&mut self.calls) {
            if let Some((kind, from)) = since {
                self.put_call(kind, from, self.end, tool, None);
            }
        }
        if let Some(since) = self.delegates {
            self.put(StretchKind::Delegates, since, self.end);
        }
        if !self.waits {
            self.put(StretchKind::Model, self.at, self.end);
        }
        let mut stretches = self.stretches;
        queued(&mut stretches, self.attempt, pace);
        stretches.retain(|one| one.to != Some(one.from));
        stretches.sort_by_key(|one| (one.from, one.to.is_none(), one.to));
        RunTimes { pace, stretches }
    }
}

/// Divides the first stretch of the last attempt where its agent began.
fn queued(stretches: &mut Vec<Stretch>, attempt: u32, pace: Pace) {
    let Some(began) = pace.began else { return };
    let of_model = |one: &Stretch| one.attempt == attempt && one.kind == StretchKind::Model;
    let Some(first) = stretches.iter_mut().find(|one| of_model(one)) else {
        return;
    };
    let until = first.to.map_or(began, |to| began.min(to));
    if until <= first.from {
        return;
    }
    let queue = Stretch {
        kind: StretchKind::Queue,
        to: Some(until),
        ..first.clone()
    };
    first.from = until;
    stretches.push(queue);
}

#[cfg(test)]
mod tests {
    //! A run's times, told by its events.

    use unisono_context::call::{Reply, ToolCall};
    use unisono_context::{AgentId, Digest, RunId, TurnId};

    use super::super::Moment;
    use super::*;
    use crate::event::{OpenedRun, RunRole};
    use crate::run::Usage;

    fn moment(seq: u64, at: i64) -> Moment {
        let at = Timestamp(at);
        Moment { seq, at }
    }

    fn trace(pace: Option<Pace>) -> RunTrace {
        let opened = OpenedRun {
            id: RunId::from_u128(1),
            turn: TurnId::from_u128(2),
            role: RunRole::Lead,
            agent: AgentId::new("a"),
            definition: Digest::of_bytes(b"d"),
            snapshot: None,
            prefix: Digest::of_bytes(b"p"),
        };
        let ending = |pace| Ending::Finished {
            text: "done".into(),
            calls: Vec::new(),
            partial: None,
            usage: Usage::NONE,
            duration_ms: 1,
            pace,
        };
        RunTrace {
            opened: (moment(1, 100), opened),
            definition: None,
            stage: None,
            steps: Vec::new(),
            retries: Vec::new(),
            happened: Vec::new(),
            ended: pace.map(|pace| (moment(99, 1_000), Arc::new(ending(pace)))),
            late: Vec::new(),
            waits_for: 0,
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
        let call = |id: &str| ToolCall {
            id: id.into(),
            name: "mail".into(),
            arguments: "{}".into(),
        };
        Arc::new(Step::Model(Reply {
            calls: vec![call("a"), call("b")],
            ..Reply::default()
        }))
    }

    fn called(index: u32, held: bool) -> Happened {
        Happened::Called {
            call: place(index),
            tool: "mail".into(),
            held,
        }
    }

    fn decided(index: u32, by: Option<&str>) -> Happened {
        Happened::Decided {
            call: place(index),
            decision: MadeDecision {
                name: "approved",
                by: by.map(Into::into),
            },
        }
    }

    fn listed(times: &RunTimes) -> Vec<(&'static str, i64, Option<i64>, u32)> {
        let each = times.stretches.iter();
        each.map(|one| {
            (
                one.kind.name(),
                one.from.0,
                one.to.map(|to| to.0),
                one.attempt,
            )
        })
        .collect()
    }

    #[test]
    fn a_run_waits_for_its_place_its_tools_and_a_person() {
        let mut run = trace(Some(Pace {
            began: Some(Timestamp(150)),
            first_token: Some(Timestamp(180)),
        }));
        run.steps = vec![
            (moment(2, 200), calls()),
            (moment(9, 700), Arc::new(Step::Tools(Vec::new()))),
        ];
        run.happened = vec![
            (moment(3, 200), called(0, false)),
            (moment(3, 200), called(1, true)),
            (moment(4, 210), Happened::Started(place(0))),
            (moment(5, 300), Happened::Ended(place(0))),
            (moment(6, 600), decided(1, Some("ada"))),
            (moment(7, 600), Happened::Started(place(1))),
            (moment(8, 700), Happened::Ended(place(1))),
        ];
        let times = run_times(&run);
        let expected = [
            ("queue", 100, Some(150), 1),
            ("model", 150, Some(200), 1),
            ("person", 200, Some(600), 1),
            ("tool", 210, Some(300), 1),
            ("tool", 600, Some(700), 1),
            ("model", 700, Some(1_000), 1),
        ];
        assert_eq!(listed(&times), expected);
        assert_eq!(times.pace.first_token, Some(Timestamp(180)));
        assert_eq!(times.stretches[2].tool.as_deref(), Some("mail"));
        let by = |decision: &MadeDecision| (decision.name, decision.by.as_deref() == Some("ada"));
        let decision = times.stretches[2].decision.as_ref();
        assert_eq!(decision.map(by), Some(("approved", true)));
        let listed = super::super::decisions(&run);
        let listed: Vec<_> = listed
            .iter()
            .map(|one| (one.moment.seq, &*one.tool, by(&one.decision)))
            .collect();
        assert_eq!(listed, [(6, "mail", ("approved", true))]);
    }

    #[test]
    fn what_goes_on_has_no_end() {
        let mut run = trace(None);
        run.steps = vec![(moment(2, 200), calls())];
        run.happened = vec![
            (moment(3, 200), called(0, true)),
            (moment(3, 200), Happened::Delegated),
        ];
        let expected = [
            ("model", 100, Some(200), 1),
            ("person", 200, None, 1),
            ("delegates", 200, None, 1),
        ];
        assert_eq!(listed(&run_times(&run)), expected);
    }

    #[test]
    fn a_failed_attempt_is_followed_by_a_pause_and_the_next_one() {
        let mut run = trace(Some(Pace {
            began: Some(Timestamp(620)),
            first_token: None,
        }));
        run.happened = vec![(moment(2, 300), Happened::Retried(Timestamp(600)))];
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
        let mut run = trace(Some(Pace {
            began: Some(Timestamp(50)),
            first_token: None,
        }));
        run.steps = vec![(moment(2, 200), calls())];
        run.happened = vec![
            (moment(3, 200), called(0, false)),
            (moment(4, 200), Happened::Started(place(0))),
            (moment(5, 400), Happened::InDoubt(place(0))),
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
