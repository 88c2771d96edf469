//! What happens in a run beside its steps: the instants of its tool calls, of decisions about them
//! and of its retries.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::{RunId, Timestamp};

use super::{Moment, RunTrace};
use crate::event::Fact;
use crate::run::calls::CallPlace;

/// Something that happened in a run beside its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A tool is to be called.
    Called {
        /// The call.
        call: CallPlace,
        /// The tool.
        tool: Arc<str>,
        /// Whether the call waits for a person first.
        held: bool,
    },
    /// The call was started.
    Started(CallPlace),
    /// The call ended.
    Ended(CallPlace),
    /// The outcome of the call is unknown: it waits for a person.
    InDoubt(CallPlace),
    /// A person, or the end of a period, decided about the call.
    Decided {
        /// The call.
        call: CallPlace,
        /// The decision.
        decision: MadeDecision,
    },
    /// Its agent gave tasks to others.
    Delegated,
    /// Another attempt is made, not before this.
    Retried(Timestamp),
}

/// A decision about a call, and who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeDecision {
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
    pub decision: MadeDecision,
}

/// The decisions about the calls of a run, in their order.
pub fn decisions(run: &RunTrace) -> Vec<DecidedCall> {
    let mut tools = BTreeMap::new();
    let mut decided = Vec::new();
    for (moment, what) in &run.happened {
        match what {
            Happened::Called { call, tool, .. } => drop(tools.insert(*call, tool.clone())),
            Happened::Decided { call, decision } => {
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

impl Happened {
    /// What happened in runs with a fact.
    pub(super) fn all(fact: &Fact) -> Vec<(RunId, Happened)> {
        let one = |call: &CallPlace, what: fn(CallPlace) -> Happened| vec![(call.run, what(*call))];
        match fact {
            Fact::ToolsCalled { run, round, calls } => (0..)
                .zip(calls)
                .map(|(index, call)| {
                    let place = CallPlace {
                        run: *run,
                        round: *round,
                        index,
                    };
                    let called = Happened::Called {
                        call: place,
                        tool: call.tool.clone(),
                        held: call.approval.is_some(),
                    };
                    (*run, called)
                })
                .collect(),
            Fact::ToolStarted { call } => one(call, Happened::Started),
            Fact::ToolEnded { call, .. } => one(call, Happened::Ended),
            Fact::ToolInDoubt { call } => one(call, Happened::InDoubt),
            Fact::ToolDecided { call, decision, by } => {
                let decision = MadeDecision {
                    name: decision.name(),
                    by: by.clone(),
                };
                let call = *call;
                vec![(call.run, Happened::Decided { call, decision })]
            }
            Fact::Delegated { run, .. } => vec![(*run, Happened::Delegated)],
            Fact::RunRetried {
                run, not_before, ..
            } => vec![(*run, Happened::Retried(*not_before))],
            _ => Vec::new(),
        }
    }
}
