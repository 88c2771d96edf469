//! Tasks that the agent of a run delegates with one reply of its model.

use std::sync::Arc;

use unisono_context::{AgentId, RunId};

use crate::ids;

use super::{Run, ToolResult};

/// A task that an agent delegated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedCall {
    /// The model's id of the call.
    pub call_id: Arc<str>,
    /// The agent.
    pub agent: AgentId,
    /// The task.
    pub task: Arc<str>,
    /// The reason of its refusal; none: its run is that of
    /// [`RunRole::Child`](super::RunRole::Child).
    pub refused: Option<Arc<str>>,
}

/// The tasks of one reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegationRound {
    /// The number of replies that the run had from its model, this one included.
    pub number: u32,
    /// The tasks, in the order of the reply's calls.
    pub calls: Vec<DelegatedCall>,
    /// The number of tasks for which no run is opened yet.
    pub unopened: u32,
    /// The number of tasks that have not ended: without a run, or with an open one.
    pub open: u32,
}

/// The state of a round. It changes only with the session's events: a waiting agent looks again
/// after each input, and stops waiting if its run is cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelegationStatus {
    /// There is no such round, or its turn has ended.
    Unknown,
    /// Some tasks have not ended.
    InProgress,
    /// All tasks have ended: their results in the order of the calls. Give them to the model only
    /// after the journal is on disk up to this state.
    Ended(Vec<ToolResult>),
}

impl DelegationRound {
    pub(crate) fn new(number: u32, calls: &[DelegatedCall]) -> DelegationRound {
        let accepted = calls.iter().filter(|call| call.refused.is_none()).count() as u32;
        DelegationRound {
            number,
            calls: calls.to_vec(),
            unopened: accepted,
            open: accepted,
        }
    }
}

impl Run {
    /// The tasks that its agent delegated with this reply.
    pub fn round(&self, number: u32) -> Option<&DelegationRound> {
        self.rounds.iter().find(|round| round.number == number)
    }

    pub(crate) fn round_mut(&mut self, number: u32) -> Option<&mut DelegationRound> {
        self.rounds.iter_mut().find(|round| round.number == number)
    }

    /// The run of a call, which may not be open yet.
    pub(crate) fn child(&self, round: &DelegationRound, index: usize) -> RunId {
        ids::child(self.turn, self.id, round.number, index as u32)
    }

    /// The number of delegated tasks that have not ended. The run continues only when all have
    /// ended.
    pub fn awaited_children(&self) -> u32 {
        let open = self.is_open().then_some(&self.rounds);
        open.into_iter().flatten().map(|round| round.open).sum()
    }

    /// The runs of all delegated tasks, which may not be open yet.
    pub(crate) fn children(&self) -> impl Iterator<Item = RunId> {
        self.rounds.iter().flat_map(move |round| {
            let accepted = (0..round.calls.len()).filter(|at| round.calls[*at].refused.is_none());
            accepted.map(move |index| self.child(round, index))
        })
    }

    /// The text of the model's reply with these calls.
    pub(crate) fn reply_text(&self, round: u32) -> Option<&Arc<str>> {
        let mut replies = self.steps.iter().filter_map(|step| step.reply());
        let reply = replies.nth(usize::try_from(round).ok()?.checked_sub(1)?)?;
        Some(&reply.text)
    }
}
