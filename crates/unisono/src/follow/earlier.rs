//! The earlier updates of an open turn, made from its events and its current state: the events of its
//! session before it are not folded.

use unisono_api::turn_event::{NewCheckpoint, TurnEvent};
use unisono_session::{Event, Fact, ids};

use super::fold::TurnFold;

impl TurnFold {
    /// The updates of an event since the turn was accepted, about its calls, replies and summaries: the state
    /// of the turn does not contain them. A call is reported with its end, too: one that was denied has no
    /// start.
    pub(super) fn earlier(&self, event: &Event) -> Vec<TurnEvent> {
        let Some(turn) = self.open_turn() else {
            return Vec::new();
        };
        let own = turn.accepted.id;
        let updates = match &event.fact {
            Fact::ToolStarted { call } => [self.tool_started(*call), None],
            Fact::ToolEnded { call, output } => {
                [self.tool_started(*call), self.tool_ended(*call, output)]
            }
            Fact::RunStepped { run, .. } | Fact::ToolsAnswered { run, .. } => {
                let run = self.session_state().run(*run);
                let run = run.filter(|run| run.turn == own);
                let stepped = run.map(|run| TurnEvent::RunStepped {
                    run: run.id.to_string(),
                });
                [stepped, None]
            }
            Fact::Compacted {
                turn: Some(by),
                checkpoint,
            } if *by == own => {
                let mut steps = 0..=turn.steps_planned;
                let is_own = steps.any(|step| ids::checkpoint(own, step) == checkpoint.id);
                let checkpoint = NewCheckpoint {
                    prepared: !is_own,
                    ..self.made(checkpoint)
                };
                [Some(TurnEvent::Compacted { checkpoint }), None]
            }
            _ => [None, None],
        };
        updates.into_iter().flatten().collect()
    }
}
