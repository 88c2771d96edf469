//! What happens in a run beside its steps: the instants of its tool calls, of decisions about them
//! and of its retries.

use std::sync::Arc;

use unisono_context::{RunId, Timestamp};

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
    Decided(CallPlace),
    /// Its agent gave tasks to others.
    Delegated,
    /// Another attempt is made, not before this.
    Retried(Timestamp),
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
            Fact::ToolDecided { call, .. } => one(call, Happened::Decided),
            Fact::Delegated { run, .. } => vec![(*run, Happened::Delegated)],
            Fact::RunRetried {
                run, not_before, ..
            } => vec![(*run, Happened::Retried(*not_before))],
            _ => Vec::new(),
        }
    }
}
