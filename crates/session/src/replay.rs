//! One turn once more, from the journal: what each of its runs was given.
//!
//! Events are folded up to the turn's end and no further, so that its runs are still there; the
//! frozen context is rebuilt from its manifest in the state in which it was frozen.

use unisono_context::snapshot::RebuildError;
use unisono_context::{RunId, TurnId};

use crate::assignment::RunAssignment;
use crate::event::{Event, Fact, Outcome};
use crate::fold;
use crate::run::Run;
use crate::state::State;
use crate::turn::Turn;

/// A turn as its events left it, up to its end.
#[derive(Debug)]
pub struct Replay {
    turn: TurnId,
    state: State,
    rebuilt: Option<RebuildError>,
    outcome: Option<Outcome>,
}

impl Replay {
    /// A replay of that turn, to be given the session's events from the first on.
    pub fn new(turn: TurnId) -> Replay {
        Replay {
            turn,
            state: State::default(),
            rebuilt: None,
            outcome: None,
        }
    }

    /// Takes the next event; false once the turn has ended and no more are wanted.
    ///
    /// # Errors
    /// The event does not follow from those before it.
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
            _ => self.state.apply(event)?,
        }
        Ok(true)
    }

    /// How many events were taken.
    pub fn events(&self) -> u64 {
        self.state.events()
    }

    /// The turn; none where no such turn was accepted.
    pub fn turn(&self) -> Option<&Turn> {
        self.state.turn(self.turn)
    }

    /// Why its frozen context is not the recorded one.
    pub fn snapshot_error(&self) -> Option<&RebuildError> {
        self.rebuilt.as_ref()
    }

    /// How it ended; none: it is open.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Its runs, in the order in which they were opened.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.turn()
            .into_iter()
            .flat_map(|turn| self.state.runs_of(turn))
    }

    /// What a run's agent was given; none where the frozen context cannot be rebuilt.
    pub fn assignment(&self, run: RunId) -> Option<RunAssignment> {
        self.state.assignment(run)
    }

    /// The session as it was before the turn ended.
    pub fn state(&self) -> &State {
        &self.state
    }
}
