//! The compaction of a turn's context, for display.

use unisono_context::Tokens;
use unisono_context::alteration::{Alteration, Form};
use unisono_context::checkpoint::{Body, Checkpoint};
use unisono_context::compaction::{Plan, Step as Planned};

use super::{Moment, TurnTrace};
use crate::event::Outcome;

/// The effect of a turn's compaction on its context, in tokens of the budget for which it was
/// planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionTrace {
    /// Before the first step.
    pub before: Tokens,
    /// After the newest step; none while it is unknown.
    pub after: Option<Tokens>,
    /// Whether a step kept less than the preset, or a person, requested.
    pub tightened: bool,
    /// The strongest change.
    pub effect: CompactionEffect,
    /// The number of messages that were masked or cut.
    pub shortened: u64,
}

/// What a compaction did to a context, the strongest change last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactionEffect {
    /// Nothing changed.
    #[default]
    Nothing,
    /// Tool results were masked.
    Masked,
    /// Messages were cut.
    Cut,
    /// Messages were dropped with a note.
    Dropped,
    /// Messages were summarised.
    Summarised,
    /// A checkpoint was reverted.
    Reverted,
}

impl CompactionEffect {
    /// The effect of masking or cutting these messages.
    pub fn of_alterations(alterations: &[Alteration]) -> CompactionEffect {
        let effects = alterations.iter().map(|made| match made.form {
            Form::Masked { .. } => CompactionEffect::Masked,
            Form::Cut { .. } | Form::Truncated { .. } => CompactionEffect::Cut,
        });
        effects.max().unwrap_or_default()
    }
}

impl CompactionTrace {
    fn planned(before: Tokens) -> CompactionTrace {
        CompactionTrace {
            before,
            after: None,
            tightened: false,
            effect: CompactionEffect::Nothing,
            shortened: 0,
        }
    }

    fn note(&mut self, effect: CompactionEffect) {
        self.effect = self.effect.max(effect);
    }
}

impl TurnTrace {
    pub(super) fn planned(&mut self, now: Moment, plan: &Plan) {
        let so_far = self
            .compacted
            .get_or_insert(CompactionTrace::planned(plan.before));
        so_far.after = None;
        so_far.tightened |= plan.tightened;
        self.plans.push((now, plan.clone()));
    }

    /// Applies the newest step: it removes the first number of tokens and adds the second.
    pub(super) fn carried_out(&mut self, tokens: impl FnOnce(&Plan) -> Option<(Tokens, Tokens)>) {
        let (Some(so_far), Some((_, plan))) = (&mut self.compacted, self.plans.last()) else {
            return;
        };
        let changed = tokens(plan);
        so_far.after = changed.map(|(left, came)| plan.before.minus(left) + came);
    }

    pub(super) fn covered(&mut self, checkpoint: &Checkpoint) {
        self.summaries.written(checkpoint.writer, &checkpoint.model);
        self.checkpoints.push(checkpoint.number);
        // The edit of a summary has no plan.
        let unplanned = CompactionTrace::planned(checkpoint.original);
        let so_far = self.compacted.get_or_insert(unplanned);
        so_far.note(match checkpoint.body {
            Body::Summary(_) => CompactionEffect::Summarised,
            Body::Tombstone => CompactionEffect::Dropped,
        });
        self.carried_out(|plan| {
            let counted = checkpoint.counts.get(plan.budget.encoding)?;
            let came = counted.tokens + plan.budget.per_message;
            Some((checkpoint.original, came))
        });
    }

    pub(super) fn altered(&mut self, alterations: &[Alteration]) {
        // Cuts that a person requested may have no plan; the end has the sizes.
        let unplanned = CompactionTrace::planned(Tokens::ZERO);
        let so_far = self.compacted.get_or_insert(unplanned);
        so_far.note(CompactionEffect::of_alterations(alterations));
        so_far.shortened += alterations.len() as u64;
        self.carried_out(|plan| {
            // The plan does not have the earlier size of a cut message.
            let Planned::Mask(targets) = &plan.step else {
                return None;
            };
            let mut sums = (Tokens::ZERO, Tokens::ZERO);
            for made in alterations {
                let target = targets
                    .iter()
                    .find(|target| target.message == made.message)?;
                sums.0 += target.tokens;
                sums.1 += made.counts.get(plan.budget.encoding)?.tokens;
            }
            Some(sums)
        });
    }

    pub(super) fn ended(&mut self, now: Moment, outcome: &Outcome) {
        if let Outcome::Compacted { before, after } | Outcome::Reverted { before, after } = outcome
        {
            let planned = CompactionTrace::planned(*before);
            let so_far = self.compacted.get_or_insert(planned);
            (so_far.before, so_far.after) = (*before, Some(*after));
            if matches!(outcome, Outcome::Reverted { .. }) {
                so_far.note(CompactionEffect::Reverted);
            }
        }
        self.summaries.failed();
        self.ended = Some((now, outcome.clone()));
    }
}
