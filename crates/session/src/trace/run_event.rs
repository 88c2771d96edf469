//! The events of a run other than its steps: tool calls, decisions about them, delegations and retries.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::{RunId, Timestamp};

use super::{Moment, RunTrace};
use crate::event::{Fact, HookPoint};
use crate::run::calls::{CallPlace, PlannedCall};

/// An event of a run other than its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// The model called a tool.
    Called {
        /// The call.
        call: CallPlace,
        /// The tool.
        tool: Arc<str>,
    },
    /// The call was started.
    Started(CallPlace),
    /// The call ended, also because a hook denied it.
    Ended(CallPlace),
    /// The call waits for a person: it requires an approval, or its outcome is unknown.
    AwaitsPerson(CallPlace),
    /// A person, a timeout or the agent's definition decided about the call.
    Decided {
        /// The call.
        call: CallPlace,
        /// The decision.
        decision: RecordedDecision,
    },
    /// Its agent delegated tasks.
    Delegated,
    /// A further attempt starts at this instant or later.
    Retried(Timestamp),
}

/// A decision about a call, and who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDecision {
    /// The stable name of the decision.
    pub name: &'static str,
    /// The name of the token by which it was decided; none: nobody's, or the daemon's own.
    pub by: Option<Arc<str>>,
}

/// A decision about a call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedCall {
    /// When.
    pub moment: Moment,
    /// The tool.
    pub tool: Arc<str>,
    /// The decision.
    pub decision: RecordedDecision,
}

/// The decisions about the calls of a run, in their order.
pub fn decisions(run: &RunTrace) -> Vec<DecidedCall> {
    let mut tools = BTreeMap::new();
    let mut decided = Vec::new();
    for (moment, event) in &run.events {
        match event {
            RunEvent::Called { call, tool } => drop(tools.insert(*call, tool.clone())),
            RunEvent::Decided { call, decision } => {
                decided.extend(tools.get(call).map(|tool| DecidedCall {
                    moment: *moment,
                    tool: tool.clone(),
                    decision: decision.clone(),
                }))
            }
            _ => {}
        }
    }
    decided
}

/// The last hook of each call about which a person is asked after its hooks.
#[derive(Clone, Debug, Default)]
pub(super) struct LastHooks(BTreeMap<CallPlace, u32>);

impl LastHooks {
    /// Takes the next fact, and returns the call that waits for a person since then.
    pub(super) fn take(&mut self, fact: &Fact) -> Option<CallPlace> {
        match fact {
            Fact::ToolsCalled { run, round, calls } => {
                let held = (0..).zip(calls).filter(|(_, call)| call.approval.is_some());
                let last = held.filter_map(|(index, call)| {
                    let place = CallPlace {
                        run: *run,
                        round: *round,
                        index,
                    };
                    Some((place, *call.hooks.last()?))
                });
                self.0.extend(last);
                None
            }
            Fact::HookAnswered { place, answer, .. } => {
                let HookPoint::Call(call) = place.point else {
                    return None;
                };
                let is_denied = answer.denied.is_some();
                let is_last = self.0.get(&call) == Some(&place.rule);
                if is_denied || is_last {
                    self.0.remove(&call);
                }
                (is_last && !is_denied).then_some(call)
            }
            _ => None,
        }
    }
}

/// The answer to a request for permission that needs neither a person nor a hook.
fn by_definition(call: &PlannedCall) -> Option<&'static str> {
    let is_asked = call.approval.is_some() || !call.hooks.is_empty();
    match call.permitted? {
        _ if is_asked => None,
        true => Some("allowed"),
        false => Some("refused"),
    }
}

impl RunEvent {
    pub(super) fn of_fact(fact: &Fact) -> Vec<(RunId, RunEvent)> {
        let one =
            |call: &CallPlace, event: fn(CallPlace) -> RunEvent| vec![(call.run, event(*call))];
        match fact {
            Fact::ToolsCalled { run, round, calls } => (0..)
                .zip(calls)
                .flat_map(|(index, call)| {
                    let place = CallPlace {
                        run: *run,
                        round: *round,
                        index,
                    };
                    let called = RunEvent::Called {
                        call: place,
                        tool: call.tool.clone(),
                    };
                    let is_held = call.approval.is_some() && call.hooks.is_empty();
                    let held = is_held.then_some(RunEvent::AwaitsPerson(place));
                    let decided = by_definition(call).map(|name| RunEvent::Decided {
                        call: place,
                        decision: RecordedDecision { name, by: None },
                    });
                    [Some(called), held, decided].into_iter().flatten()
                })
                .map(|run_event| (*run, run_event))
                .collect(),
            Fact::ToolStarted { call } => one(call, RunEvent::Started),
            Fact::ToolEnded { call, .. } => one(call, RunEvent::Ended),
            Fact::HookAnswered { place, answer, .. } => match &place.point {
                HookPoint::Call(call) if answer.denied.is_some() => one(call, RunEvent::Ended),
                HookPoint::Call(_) | HookPoint::Turn { .. } => Vec::new(),
            },
            Fact::ToolInDoubt { call } => one(call, RunEvent::AwaitsPerson),
            Fact::ToolDecided { call, decision, by } => {
                let decision = RecordedDecision {
                    name: decision.name(),
                    by: by.clone(),
                };
                let call = *call;
                vec![(call.run, RunEvent::Decided { call, decision })]
            }
            Fact::Delegated { run, .. } => vec![(*run, RunEvent::Delegated)],
            Fact::RunRetried {
                run, not_before, ..
            } => vec![(*run, RunEvent::Retried(*not_before))],
            _ => Vec::new(),
        }
    }
}
