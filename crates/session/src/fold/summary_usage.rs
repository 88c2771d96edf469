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
                let of = self.summary_usage.entry(*turn).or_default();
                of.replied(model, *usage);
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
