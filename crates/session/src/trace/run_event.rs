//! The events of a run other than its steps: tool calls, decisions about them, delegations and retries.

use std::sync::Arc;

use unisono_context::{RunId, Timestamp};

use crate::event::Fact;
use crate::run::calls::CallPlace;

/// An event of a run other than its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// The model called a tool.
    Called {
        /// The call.
        call: CallPlace,
        /// The tool.
        tool: Arc<str>,
        /// Whether the call requires an approval.
        needs_approval: bool,
    },
    /// The call was started.
    Started(CallPlace),
    /// The call ended.
    Ended(CallPlace),
    /// The outcome of the call is unknown, so it waits for a person.
    InDoubt(CallPlace),
    /// A person or a timeout decided about the call.
    Decided(CallPlace),
    /// Its agent delegated tasks.
    Delegated,
    /// A further attempt starts at this instant or later.
    Retried(Timestamp),
}

impl RunEvent {
    /// The run events of a fact.
    pub(super) fn all(fact: &Fact) -> Vec<(RunId, RunEvent)> {
        let one =
            |call: &CallPlace, event: fn(CallPlace) -> RunEvent| vec![(call.run, event(*call))];
        match fact {
            Fact::ToolsCalled { run, round, calls } => (0..)
                .zip(calls)
                .map(|(index, call)| {
                    let place = CallPlace {
                        run: *run,
                        round: *round,
                        index,
                    };
                    let run_event = RunEvent::Called {
                        call: place,
                        tool: call.tool.clone(),
                        needs_approval: call.approval.is_some(),
                    };
                    (*run, run_event)
                })
                .collect(),
            Fact::ToolStarted { call } => one(call, RunEvent::Started),
            Fact::ToolEnded { call, .. } => one(call, RunEvent::Ended),
            Fact::ToolInDoubt { call } => one(call, RunEvent::InDoubt),
            Fact::ToolDecided { call, .. } => one(call, RunEvent::Decided),
            Fact::Delegated { run, .. } => vec![(*run, RunEvent::Delegated)],
            Fact::RunRetried {
                run, not_before, ..
            } => vec![(*run, RunEvent::Retried(*not_before))],
            _ => Vec::new(),
        }
    }
}
