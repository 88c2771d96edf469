//! One compaction step: shorten messages, write a summary, or leave a note. Nothing is decided
//! here; the plan names the messages and the limits.

use std::sync::Arc;

use unisono_context::Encoding;
use unisono_context::alteration::{Alteration, altered_parts};
use unisono_context::checkpoint::{Body, Writer, block_text};
use unisono_context::compaction::{Cover, Step};
use unisono_context::message::Part;
use unisono_context::tokens::{Count, Counts};
use unisono_session::assignment::CompactionJob;
use unisono_session::machine::{StepResult, WrittenSummary};

use crate::tokenizer;

use super::{StepEnd, Work, ahead, summarise};

pub(super) async fn carry_out(work: &Work) -> StepEnd {
    let (job, tokenizer) = (&work.job, &work.tokenizer);
    match &job.plan.step {
        Step::Mask(_) | Step::Cut { .. } | Step::Truncate { .. } => alter(job, tokenizer).await,
        Step::Drop { cover } => Ok(StepResult::Written(note(job, cover, tokenizer).await?)),
        Step::Summarise { cover, cap, .. } if job.is_ahead() => {
            let written = ahead::ahead(work, cover, *cap).await?;
            Ok(StepResult::Written(written))
        }
        Step::Summarise {
            cover, cap, writer, ..
        } => {
            let written = summarise::summarise(work, cover, *cap, *writer).await?;
            Ok(StepResult::Written(written))
        }
        Step::Regenerate { cover, cap, .. } => {
            let written = summarise::rewrite(work, cover, *cap).await?;
            Ok(StepResult::Written(written))
        }
    }
}

async fn alter(job: &CompactionJob, tokenizer: &tokenizer::Handle) -> StepEnd {
    let mut alterations = Vec::new();
    let (mut texts, mut beside) = (Vec::new(), Vec::new());
    for (message, ordinal, form) in job.plan.step.forms() {
        let Some(said) = job.messages.iter().find(|m| m.id == message) else {
            let reason: Arc<str> = format!("message {ordinal} is not at hand").into();
            return Err(reason.into());
        };
        let pieces = altered_parts(said, form);
        beside.push(pieces.iter().map(Part::tokens_beside_text).sum::<Count>());
        let pieces: Vec<_> = pieces.iter().map(Part::countable_text).collect();
        texts.push(pieces.join("\n"));
        alterations.push(Alteration {
            message,
            ordinal,
            form,
            counts: Counts::default(),
        });
    }
    for encoding in &job.encodings {
        let counts = count(tokenizer, texts.clone(), *encoding).await?;
        let counts = counts.into_iter().zip(&beside);
        for (alteration, (count, beside)) in alterations.iter_mut().zip(counts) {
            alteration.counts.set(*encoding, count + *beside);
        }
    }
    Ok(StepResult::Altered(alterations))
}

async fn note(
    job: &CompactionJob,
    cover: &Cover,
    tokenizer: &tokenizer::Handle,
) -> Result<WrittenSummary, Arc<str>> {
    let text = block_text(&cover.spans, &Body::Tombstone, &[]);
    Ok(WrittenSummary {
        body: Body::Tombstone,
        key_facts: Vec::new(),
        counts: count_block(job, &text, tokenizer).await?,
        writer: Writer::Deterministic,
        model: "none".into(),
        cost_micros: Some(0),
        duration_ms: 0,
        degraded: false,
        coverage: None,
    })
}

/// The tokens of a block in each encoding of the job.
pub(super) async fn count_block(
    job: &CompactionJob,
    text: &str,
    tokenizer: &tokenizer::Handle,
) -> Result<Counts, Arc<str>> {
    let mut counts = Counts::default();
    for encoding in &job.encodings {
        let counted = count(tokenizer, vec![text.to_owned()], *encoding).await?;
        counts.set(*encoding, counted.into_iter().sum());
    }
    Ok(counts)
}

pub(super) async fn count(
    tokenizer: &tokenizer::Handle,
    texts: Vec<String>,
    encoding: Encoding,
) -> Result<Vec<unisono_context::tokens::Count>, Arc<str>> {
    tokenizer
        .count(texts, encoding)
        .await
        .map_err(|error| error.to_string().into())
}
