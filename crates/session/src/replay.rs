//! One turn from the journal, with the inputs of its runs.
//!
//! Events are folded up to the end of the turn, so that its runs are still in the state. The frozen
//! context is rebuilt from its manifest in the state in which it was frozen.

use unisono_context::snapshot::RebuildError;
use unisono_context::{RunId, TurnId};

use crate::assignment::RunAssignment;
use crate::event::{Event, Fact, Outcome};
use crate::fold;
use crate::run::Run;
use crate::state::State;
use crate::turn::Turn;

/// A turn after its own events.
#[derive(Debug)]
pub struct Replay {
    turn: TurnId,
    state: State,
    rebuilt: Option<RebuildError>,
    outcome: Option<Outcome>,
    prepared: Vec<u32>,
}

impl Replay {
    /// A replay of this turn. It takes the session's events from the first one on.
    pub fn new(turn: TurnId) -> Replay {
        Replay {
            turn,
            state: State::default(),
            rebuilt: None,
            outcome: None,
            prepared: Vec::new(),
        }
    }

    /// Takes the next event; false after the end of the turn, when no more events are needed.
    ///
    /// # Errors
    /// The event does not follow from the events before it.
    pub fn take(&mut self, event: &Event) -> Result<bool, fold::Error> {
        match &event.fact {
            Fact::TurnEnded { turn, outcome } if *turn == self.turn => {
                self.outcome = Some(outcome.clone());
                return Ok(false);
            }
            Fact::Frozen { turn, .. } if *turn == self.turn => {
                self.state.apply(event)?;
                self.rebuilt = self.state.rebuild_snapshot(self.turn).err();
                let rooms = self.state.headrooms(self.turn);
                if let Some(turn) = self.state.turns.get_mut(&self.turn) {
                    turn.headrooms.0 = Some(rooms);
                }
            }
            Fact::Compacted {
                turn: Some(turn),
                checkpoint,
            } => {
                if *turn == self.turn && self.state.is_prepared(checkpoint.id) {
                    self.prepared.push(checkpoint.number);
                }
                self.state.apply(event)?;
            }
            _ => self.state.apply(event)?,
        }
        Ok(true)
    }

    /// The number of events taken.
    pub fn events(&self) -> u64 {
        self.state.events()
    }

    /// The turn; none if it was not accepted.
    pub fn turn(&self) -> Option<&Turn> {
        self.state.turn(self.turn)
    }

    /// The reason why its frozen context differs from the recorded one.
    pub fn snapshot_error(&self) -> Option<&RebuildError> {
        self.rebuilt.as_ref()
    }

    /// Its outcome; none: it is open.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// The checkpoints of the turn that were written before it.
    pub fn prepared(&self) -> &[u32] {
        &self.prepared
    }

    /// Its runs, in the order in which they were opened.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.turn()
            .into_iter()
            .flat_map(|turn| self.state.runs_of(turn))
    }

    /// The input of a run; none if the frozen context cannot be rebuilt.
    pub fn assignment(&self, run: RunId) -> Option<RunAssignment> {
        self.state.assignment(run)
    }

    /// The session before the end of the turn.
    pub fn state(&self) -> &State {
        &self.state
    }
}
