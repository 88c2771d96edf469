//! Folds facts about summaries that are written ahead.

use std::sync::Arc;

use unisono_context::{CheckpointId, TurnId};

use crate::event::{DropReason, Fact, Preparation, PreparationStatus};
use crate::ids;
use crate::state::State;

impl State {
    /// Folds a fact about a summary that is written ahead; false for other facts.
    pub(super) fn apply_to_preparations(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::PreparationPlanned { preparation } => {
                let of = Preparation {
                    planned: Arc::new((**preparation).clone()),
                    status: PreparationStatus::Writing,
                };
                self.preparations.insert(preparation.branch.clone(), of);
            }
            Fact::SummaryPrepared { turn, summary } => {
                let ready = PreparationStatus::Ready(Arc::new((**summary).clone()));
                self.set_preparation(*turn, ready);
            }
            // Another one is planned after the next turn.
            Fact::PreparationDropped {
                turn,
                reason: DropReason::Busy,
                ..
            } => self.preparations.retain(|_, of| of.planned.turn != *turn),
            Fact::PreparationDropped { turn, reason, .. } => {
                self.set_preparation(*turn, PreparationStatus::Dropped(reason.clone()));
            }
            _ => return false,
        }
        true
    }

    fn set_preparation(&mut self, turn: TurnId, status: PreparationStatus) {
        let mut all = self.preparations.values_mut();
        if let Some(of) = all.find(|of| of.planned.turn == turn) {
            of.status = status;
        }
    }

    /// A branch has a new checkpoint: its prepared summary is used, or another one may be planned.
    pub(super) fn preparation_used(&mut self, branch: &str, checkpoint: CheckpointId) {
        let ends = |of: &Preparation| !of.is_open() || ids::prepared(of.planned.turn) == checkpoint;
        if self.preparations.get(branch).is_some_and(ends) {
            self.preparations.remove(branch);
        }
    }
}
