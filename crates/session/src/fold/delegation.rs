//! The messages a turn appends itself: its delegation's calls and results, and its answer. They
//! follow from its runs and have derived ids, so the journal does not repeat them.

use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::{MessageId, Timestamp, TurnId};

use crate::brief;
use crate::event::RunRole;
use crate::ids;
use crate::state::State;
use crate::turn::Phase;

use super::Error;

impl State {
    /// Appends the lead's delegate calls, one per delegate, before its agents work.
    pub(super) fn append_calls(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let turn = self.turn_mut(id)?;
        let delegates = turn.team.delegates.iter().enumerate();
        let calls = delegates.map(|(index, delegate)| {
            let role = RunRole::Delegate {
                index: index as u32,
            };
            let task = brief::task_of(turn, role);
            Part::ToolCall {
                id: brief::call_id(index).into(),
                name: "delegate".into(),
                arguments: brief::delegate_arguments(&delegate.agent.id, &task).into(),
            }
        });
        let calls = calls.collect();
        self.append_own(id, Role::Assistant, calls, at)?;
        Ok(())
    }

    /// Appends the delegates' results in the order of the fan-out, once; nothing where there was
    /// no delegation.
    pub(super) fn append_results(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let turn = self.turn_mut(id)?;
        let fan_out = turn.team.delegates.len();
        if fan_out == 0 || turn.runs.is_empty() {
            return Ok(());
        }
        match &mut turn.phase {
            Phase::Frozen { delivered, .. } if !*delivered => *delivered = true,
            _ => return Ok(()),
        }
        for index in 0..fan_out {
            let run = self.turn_mut(id)?.runs.get(index).copied();
            let (content, is_error) = brief::result_text(run.and_then(|run| self.runs.get(&run)));
            let result = Part::ToolResult {
                call_id: brief::call_id(index).into(),
                content,
                is_error,
            };
            self.append_own(id, Role::Tool, vec![result], at)?;
        }
        Ok(())
    }

    /// Appends a message of the turn's own to its branch, under a derived id.
    pub(super) fn append_own(
        &mut self,
        id: TurnId,
        role: Role,
        parts: Vec<Part>,
        at: Timestamp,
    ) -> Result<MessageId, Error> {
        let turn = self.turn_mut(id)?;
        let branch = turn.accepted.branch.clone();
        let message = NewMessage {
            id: ids::message(id, turn.messages_appended),
            role,
            parts,
            author: (role == Role::Assistant).then(|| turn.team.lead.id.clone()),
            at,
            usage: None,
        };
        turn.messages_appended += 1;
        let id = message.id;
        self.append(Some(&branch), self.tree.head(&branch), message)?;
        Ok(id)
    }
}
