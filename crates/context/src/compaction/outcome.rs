//! Turns a carried out step into its result.

use std::sync::Arc;

use crate::alteration::Form;
use crate::checkpoint::{Body, Checkpoint, FactCoverage, KeyFact, Kind, Span, Tier, Writer};
use crate::ids::{CheckpointId, MessageId, Ordinal, Timestamp};
use crate::policy::Preset;
use crate::tokens::Counts;
use crate::view::View;

use super::{Cover, Step};

/// The text of a writer for a [`Cover`], and the data about its making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSummary {
    /// Id of the new checkpoint.
    pub id: CheckpointId,
    /// The actual writer; a fallback may differ from the plan.
    pub writer: Writer,
    /// The name of the writer, as `provider/model`, `extractive`, `truncation` or `none`.
    pub model: Arc<str>,
    /// The text in the context.
    pub body: Body,
    /// Facts that are copied verbatim.
    pub key_facts: Vec<KeyFact>,
    /// Tokens of [`block_text`](crate::checkpoint::block_text), per encoding.
    pub counts: Counts,
    /// Its cost, in millionths of a dollar; none if the price is unknown.
    pub cost_micros: Option<u64>,
    /// The time to make it.
    pub duration_ms: u64,
    /// Whether a model should redo it.
    pub degraded: bool,
    /// When it was made.
    pub at: Timestamp,
    /// How many days, names and ids of the range a model's summary keeps.
    pub coverage: Option<FactCoverage>,
}

impl Checkpoint {
    /// The checkpoint that carries out a step planned on `view`, with the next number of its
    /// session. None when the step makes no checkpoint, or its cover does not lie on that branch.
    pub fn from_step(
        step: &Step,
        view: &View<'_>,
        kind: Kind,
        preset: Preset,
        made: NewSummary,
    ) -> Option<Checkpoint> {
        let cover = step.cover()?;
        Some(Checkpoint {
            id: made.id,
            number: view.checkpoints().next_number(),
            parent: view.head(),
            covers: cover.spans.clone(),
            cutoff: cover.cutoff,
            cutoff_digest: view.tree().path_digest(view.head(), cover.cutoff)?,
            supersedes: cover.supersedes.clone(),
            kind,
            tier: step.tier(),
            preset,
            writer: made.writer,
            model: made.model,
            body: made.body,
            original: cover.original,
            counts: made.counts,
            messages_included: cover.spans.iter().copied().map(Span::len).sum(),
            key_facts: made.key_facts,
            cost_micros: made.cost_micros,
            duration_ms: made.duration_ms,
            degraded: made.degraded,
            at: made.at,
            coverage: made.coverage,
        })
    }
}

impl Step {
    /// The messages that a step shortens, and their forms; empty for a step that makes a
    /// checkpoint. The remaining work is to count
    /// [`altered_parts`](crate::alteration::altered_parts) of each.
    pub fn forms(&self) -> Vec<(MessageId, Ordinal, Form)> {
        match self {
            Step::Mask(targets) => targets
                .iter()
                .map(|t| (t.message, t.ordinal, Form::Masked { tokens: t.tokens }))
                .collect(),
            Step::Cut {
                message,
                ordinal,
                target_chars,
            } => {
                let target_chars = *target_chars;
                vec![(*message, *ordinal, Form::Cut { target_chars })]
            }
            Step::Truncate {
                messages,
                target_chars,
            } => {
                let target_chars = *target_chars;
                let form = Form::Truncated { target_chars };
                messages.iter().map(|(id, at)| (*id, *at, form)).collect()
            }
            Step::Summarise { .. } | Step::Drop { .. } | Step::Regenerate { .. } => Vec::new(),
        }
    }

    /// The cover of the checkpoint, if the step makes one.
    pub fn cover(&self) -> Option<&Cover> {
        match self {
            Step::Summarise { cover, .. }
            | Step::Drop { cover }
            | Step::Regenerate { cover, .. } => Some(cover),
            Step::Mask(_) | Step::Cut { .. } | Step::Truncate { .. } => None,
        }
    }

    /// The tier of the checkpoint, if the step makes one.
    pub fn tier(&self) -> Tier {
        match self {
            Step::Summarise { tier, .. } => *tier,
            _ => Tier::Conversation,
        }
    }
}
