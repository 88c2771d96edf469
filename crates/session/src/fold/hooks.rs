//! Schedules questions to hooks, and applies their answers.

use unisono_context::TurnId;

use crate::event::{HookAnswer, HookPlace, HookPoint, Work};
use crate::run::calls::CallStatus;
use crate::state::{EndedHooks, State};
use crate::tool::{HookEvent, ToolRules};
use crate::turn::Turn;

use super::Error;

impl Turn {
    pub(super) fn schedule_hooks(&mut self, event: HookEvent) {
        let step = match event {
            HookEvent::BeforeCompaction | HookEvent::AfterCompaction => self.steps_planned,
            _ => 0,
        };
        let due = due_hooks(&self.rules, self.accepted.id, event, step);
        self.hooks_due.extend(due);
    }
}

impl State {
    pub(super) fn schedule_end_hooks(&mut self, turn: &Turn) {
        let id = turn.accepted.id;
        let due = due_hooks(&turn.rules, id, HookEvent::TurnEnded, 0);
        if due.is_empty() {
            return;
        }
        let ended = EndedHooks {
            branch: turn.accepted.branch.clone(),
            rules: turn.rules.clone(),
            due,
        };
        self.ended_hooks.insert(id, ended);
    }

    pub(super) fn hook_answered(
        &mut self,
        place: HookPlace,
        hook: &str,
        answer: &HookAnswer,
    ) -> Result<(), Error> {
        match place.point {
            HookPoint::Call(call) => {
                let next = match answer.denial_output(hook) {
                    Some(denied) => CallStatus::Ended(denied),
                    None => self
                        .call(call)
                        .ok_or(Error::UnknownCall(call))?
                        .after_hook(),
                };
                self.set_call_status(call, next)
            }
            HookPoint::Turn { turn, .. } => self.turn_hook_answered(turn, place, answer),
        }
    }

    fn turn_hook_answered(
        &mut self,
        id: TurnId,
        place: HookPlace,
        answer: &HookAnswer,
    ) -> Result<(), Error> {
        if let Some(turn) = self.turns.get_mut(&id) {
            turn.hooks_due.retain(|due| *due != place);
            turn.hook_instructions.extend(answer.instructions.clone());
            return Ok(());
        }
        let ended = self.ended_hooks.get_mut(&id);
        let ended = ended.ok_or(Error::UnknownTurn(id))?;
        ended.due.retain(|due| *due != place);
        if ended.due.is_empty() {
            self.ended_hooks.remove(&id);
        }
        Ok(())
    }
}

/// The questions to hooks for this event, in order.
fn due_hooks(rules: &ToolRules, turn: TurnId, event: HookEvent, step: u32) -> Vec<HookPlace> {
    let point = HookPoint::Turn { turn, event, step };
    let positions = rules.hooks_for(event);
    positions.map(|rule| HookPlace { point, rule }).collect()
}

/// Whether hooks are asked when a turn with this work begins: only if it answers a task.
pub(super) fn has_turn_hooks(work: &Work) -> bool {
    matches!(work, Work::Answer { .. })
}
