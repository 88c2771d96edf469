//! Tool results, as steps of their runs.

use std::collections::BTreeMap;

use unisono_context::{RunId, Timestamp};

use crate::event::{Fact, HookPoint};
use crate::run::ToolResult;
use crate::run::calls::{CallPlace, CallRound, CallStatus};

/// Follows a journal and resolves [`Fact::ToolsAnswered`]. It holds the newest calls of each open
/// run.
#[derive(Clone, Debug, Default)]
pub struct AnsweredCalls(BTreeMap<RunId, CallRound>);

impl AnsweredCalls {
    /// Takes the next fact. For a round of results, returns the run and the results in the order of
    /// the calls.
    pub fn take(&mut self, fact: &Fact) -> Option<(RunId, Vec<ToolResult>)> {
        match fact {
            Fact::ToolsCalled { run, round, calls } => {
                let round = CallRound::new(*round, calls, Timestamp(0));
                self.0.insert(*run, round);
            }
            Fact::ToolEnded { call, output } => self.set(*call, CallStatus::Ended(output.clone())),
            Fact::HookAnswered {
                place,
                hook,
                answer,
            } => {
                if let (HookPoint::Call(call), Some(denied)) =
                    (place.point, answer.denial_output(hook))
                {
                    self.set(call, CallStatus::Ended(denied));
                }
            }
            Fact::ToolDecided { call, decision, .. } => self.set(*call, decision.status()),
            Fact::ToolsAnswered { run, round } => {
                let calls = self.0.get(run).filter(|calls| calls.number == *round)?;
                return Some((*run, calls.results()?));
            }
            Fact::RunEnded { run, .. } => {
                self.0.remove(run);
            }
            _ => {}
        }
        None
    }

    fn set(&mut self, place: CallPlace, status: CallStatus) {
        let round = self.0.get_mut(&place.run);
        let round = round.filter(|round| round.number == place.round);
        let call = round.and_then(|round| round.calls.get_mut(place.index as usize));
        if let Some(call) = call {
            call.status = status;
        }
    }
}
