//! Folds facts about requests for summaries.

use std::sync::Arc;

use unisono_context::CheckpointId;
use unisono_context::call::Usage;

use crate::event::Fact;
use crate::ids;
use crate::state::State;

impl State {
    /// Adds up the usage of a turn's requests for summaries, and notes that of each checkpoint.
    pub(super) fn apply_to_summary_usage(&mut self, fact: &Fact) {
        match fact {
            Fact::SummariserUsed { turn, model, usage } => {
                // No later fact would remove the entry of another turn.
                let is_open =
                    self.turns.contains_key(turn) || self.preparation_in_progress(*turn).is_some();
                if is_open {
                    let of = self.summary_usage.entry(*turn).or_default();
                    of.replied(model, *usage);
                }
            }
            Fact::CompactionFailed { turn, .. } => {
                if let Some(of) = self.summary_usage.get_mut(turn) {
                    of.failed();
                }
            }
            Fact::Compacted {
                turn: Some(turn),
                checkpoint,
            } => {
                let of = self.summary_usage.get_mut(turn);
                let used = of.map(|of| of.written(checkpoint.writer, &checkpoint.model));
                self.note_checkpoint_usage(checkpoint.id, used);
            }
            Fact::SummaryPrepared { turn, summary } => {
                let of = self.summary_usage.remove(turn);
                let used = of.map(|mut of| of.written(summary.writer, &summary.model));
                self.note_checkpoint_usage(ids::prepared(*turn), used);
            }
            Fact::TurnEnded { turn, .. } | Fact::PreparationDropped { turn, .. } => {
                self.summary_usage.remove(turn);
            }
            _ => {}
        }
    }

    fn note_checkpoint_usage(&mut self, checkpoint: CheckpointId, used: Option<Usage>) {
        if let Some(used) = used.filter(|used| *used != Usage::NONE) {
            Arc::make_mut(&mut self.checkpoint_usage).insert(checkpoint, used);
        }
    }

    /// The usage of the step that made a checkpoint, with its unused replies; none if it asked no
    /// model, or the checkpoint was imported.
    pub fn checkpoint_usage(&self, checkpoint: CheckpointId) -> Option<Usage> {
        self.checkpoint_usage.get(&checkpoint).copied()
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::TurnId;

    use super::*;

    #[test]
    fn a_reply_after_the_end_of_its_turn_leaves_no_entry() {
        let mut state = State::default();
        state.apply_to_summary_usage(&Fact::SummariserUsed {
            turn: TurnId::from_u128(1),
            model: "a/b".into(),
            usage: Usage::NONE,
        });
        assert!(state.summary_usage.is_empty());
    }
}
