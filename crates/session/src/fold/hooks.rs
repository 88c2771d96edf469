//! How hooks come to be asked, and what their answers change.

use unisono_context::TurnId;

use crate::event::{HookAnswer, HookPlace, HookPoint, Work};
use crate::run::calls::Status;
use crate::state::{EndedHooks, State};
use crate::tool::{HookEvent, Rules};
use crate::turn::Turn;

use super::Error;

impl Turn {
    /// Hooks are to be asked about that.
    pub(super) fn ask_hooks(&mut self, event: HookEvent) {
        let step = match event {
            HookEvent::BeforeCompaction | HookEvent::AfterCompaction => self.steps_planned,
            _ => 0,
        };
        let asked = due(&self.rules, self.accepted.id, event, step);
        self.hooks_due.extend(asked);
    }
}

impl State {
    /// The hooks that are to be told of the end of that turn.
    pub(super) fn ask_of_end(&mut self, turn: &Turn) {
        let id = turn.accepted.id;
        let asked = due(&turn.rules, id, HookEvent::TurnEnded, 0);
        if asked.is_empty() {
            return;
        }
        let ended = EndedHooks {
            branch: turn.accepted.branch.clone(),
            rules: turn.rules.clone(),
            due: asked,
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
                let next = match answer.denied(hook) {
                    Some(denied) => Status::Ended(denied),
                    None => self
                        .call(call)
                        .ok_or(Error::UnknownCall(call))?
                        .after_hook(),
                };
                self.tool_is(call, next)
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

/// The hooks that are asked then, in their order.
fn due(rules: &Rules, turn: TurnId, event: HookEvent, step: u32) -> Vec<HookPlace> {
    let point = HookPoint::Turn { turn, event, step };
    let asked = rules.hooks_at(event);
    asked.map(|rule| HookPlace { point, rule }).collect()
}

/// Whether hooks are asked when such a turn begins: one that somebody gave a task.
pub(super) fn are_asked_about(work: &Work) -> bool {
    matches!(work, Work::Answer { .. })
}
