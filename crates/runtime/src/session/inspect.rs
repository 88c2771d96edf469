//! Inspections of a session's state, and clients that wait for the end of a turn.

use tokio::sync::oneshot;
use unisono_context::TurnId;
use unisono_session::state::EndedTurn;

use crate::error::Error;

use super::{Ack, Inspection, Phase, State};

impl State {
    pub(super) fn on_inspect(&mut self, look: Inspection, reply: Ack) {
        if let Some(error) = self.unanswered() {
            return drop(reply.send(Err(error)));
        }
        match &mut self.phase {
            Phase::Live(live) => {
                look(live.machine.state());
                live.acks.push((live.decided, reply));
                live.acknowledge();
            }
            _ => self.on_peek(look, reply),
        }
    }

    pub(super) fn on_peek(&self, look: Inspection, reply: Ack) {
        let state = match &self.phase {
            Phase::Live(live) => Ok(live.machine.state()),
            Phase::ReadOnly(shown) => Ok(shown.state()),
            Phase::Broken(error) => Err(error.clone()),
            Phase::Loading => Err(Error::Unavailable("session")),
        };
        // The caller may have given up.
        let _ = reply.send(state.map(look));
    }

    pub(super) fn on_wait(
        &mut self,
        turn: TurnId,
        reply: oneshot::Sender<Result<EndedTurn, Error>>,
    ) {
        match &mut self.phase {
            Phase::Live(live) => live.wait_for(turn, reply),
            Phase::ReadOnly(shown) => {
                let ended = shown.state().ended_turn(turn).cloned();
                drop(reply.send(ended.ok_or_else(|| shown.why.clone())));
            }
            Phase::Broken(error) => drop(reply.send(Err(error.clone()))),
            Phase::Loading => drop(reply.send(Err(Error::Unavailable("session")))),
        }
    }
}
