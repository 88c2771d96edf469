//! Requests of clients that are refused before they are decided: the store does not answer, or too many
//! turns are open.

use unisono_session::{Input, State as SessionState};

use crate::error::Error;

use super::{Phase, State};

impl State {
    /// Why a request is refused before it is decided.
    pub(super) fn refusal(&self, input: &Input) -> Option<Error> {
        // A step of a run waits for the store.
        let is_step = matches!(input, Input::RunStepped { .. });
        if let Some(error) = self.unanswered().filter(|_| !is_step) {
            return Some(error);
        }
        let Phase::Live(live) = &self.phase else {
            return None;
        };
        let (state, most) = (live.machine.state(), self.args.env.options.session_queue);
        let is_full = || state.open_turns().count() >= most.max(1);
        (adds_turn(state, input) && is_full()).then_some(Error::Busy(self.args.id))
    }
}

/// Whether an input adds a turn. A repetition does not.
fn adds_turn(state: &SessionState, input: &Input) -> bool {
    let (key, turn) = match input {
        Input::Accept(turn) => (None, turn),
        Input::AcceptKeyed { key, turn } => (Some(key), turn),
        Input::AcceptAfter { key, turn, .. } => (key.as_ref(), turn),
        _ => return false,
    };
    let is_kept = key.is_some_and(|key| state.turn_by_key(&key.name).is_some());
    !is_kept && state.turn(turn.id).is_none() && state.ended_turn(turn.id).is_none()
}
