//! Writing a summary: extraction first, truncation where its result is not taken.

use std::sync::Arc;
use std::time::Instant;

use unisono_context::Tokens;
use unisono_context::checkpoint::{Body, Checkpoint, KeyFact, Span, Writer, block_text};
use unisono_context::compaction::{Cover, Draft, SECTIONS, Stop, accept, truncated};
use unisono_context::tokens::Counts;
use unisono_model::extractive::{self, Passage, Style, SummaryInput};
use unisono_model::tokenizer::Tokenizer;
use unisono_session::brief::CompactionJob;
use unisono_session::machine::Written;

use crate::tokenizer;

use super::carry_out::count_block;

/// Unicode scalars that truncation keeps at each end, at first.
const TRUNCATION_KEEPS: usize = 2_000;
/// The part of the cap that key facts may take beside a truncated text.
const TRUNCATION_FACTS_PART: u64 = 2;

/// A block that fits its cap: quotes from the messages, or, where those are not taken, the
/// messages' text with its middle left out.
pub(super) async fn summarise(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
    tokenizer: &tokenizer::Handle,
) -> Result<Written, Arc<str>> {
    let started = Instant::now();
    // A summary that is no smaller than its input is none; and with what a block costs besides
    // its text, as any message does, it stays within the cap.
    let room = cap
        .min(cover.original)
        .minus(job.plan.budget.per_message.max(Tokens(1)));
    let (text, key_facts) = extract(job, cover, room).await?;
    let body = Body::Summary(text.into());
    let block = block_text(&cover.spans, &body, &key_facts);
    let counts = count_block(job, &block, tokenizer).await?;
    let tokens = cost(job, counts);
    let Body::Summary(text) = &body else {
        return Err("no summary".into());
    };
    let draft = Draft {
        text,
        stop: Stop::Complete,
        tokens,
    };
    let written = match accept(&draft, cap, cover.original) {
        Ok(()) => Written {
            body,
            key_facts,
            counts,
            writer: Writer::Deterministic,
            model: "extractive".into(),
            cost_micros: Some(0),
            duration_ms: 0,
            degraded: false,
        },
        Err(rejection) => {
            tracing::warn!(%rejection, "the extractive summary is not taken, the text is truncated");
            truncate(job, cover, cap, tokenizer).await?
        }
    };
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Written {
        duration_ms,
        ..written
    })
}

fn cost(job: &CompactionJob, counts: Counts) -> Tokens {
    counts
        .get(job.plan.budget.encoding)
        .unwrap_or_default()
        .at_most
}

async fn extract(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
) -> Result<(String, Vec<KeyFact>), Arc<str>> {
    let (job, spans) = (job.clone(), cover.spans.clone());
    let work = tokio::task::spawn_blocking(move || extract_here(&job, &spans, cap));
    work.await
        .map_err(|_| Arc::from("the extractive summariser panicked"))?
}

fn extract_here(
    job: &CompactionJob,
    covers: &[Span],
    cap: Tokens,
) -> Result<(String, Vec<KeyFact>), Arc<str>> {
    let encoding = job.plan.budget.encoding;
    let tokenizer = Tokenizer::load(encoding).map_err(|error| Arc::from(error.to_string()))?;
    let passages = Passage::of_messages(job.messages.iter().map(|message| &**message));
    let prior: Vec<&str> = job.prior.iter().filter_map(|c| summary_of(c)).collect();
    let prior = prior.join("\n\n");
    let input = SummaryInput {
        passages: &passages,
        prior: (!prior.is_empty()).then_some(prior.as_str()),
        prior_facts: &prior_facts(job),
        cap,
        style: Style::Rolling,
        instructions: job.instructions.as_deref(),
        count: &|text| tokenizer.count(text).at_most.0,
    };
    let draft = extractive::checkpoint(&input, covers);
    Ok((draft.text, draft.key_facts))
}

fn prior_facts(job: &CompactionJob) -> Vec<KeyFact> {
    let facts = job
        .prior
        .iter()
        .flat_map(|checkpoint| &checkpoint.key_facts);
    facts.cloned().collect()
}

fn summary_of(checkpoint: &Checkpoint) -> Option<&str> {
    match &checkpoint.body {
        Body::Summary(text) => Some(text),
        Body::Tombstone => None,
    }
}

/// The last resort that needs no judgement: the beginning and the end of what there is, halved
/// until it fits. Key facts are not shortened: as many as a part of the cap is sure to hold.
async fn truncate(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
    tokenizer: &tokenizer::Handle,
) -> Result<Written, Arc<str>> {
    let prior = job
        .prior
        .iter()
        .filter_map(|checkpoint| summary_of(checkpoint));
    let mut whole: Vec<String> = prior.map(str::to_owned).collect();
    whole.extend(job.messages.iter().map(|message| message.countable_text()));
    let whole = whole.join("\n");
    // A token has at least one byte.
    let bytes = |text: &str| Tokens(text.len() as u64);
    let room = Tokens(cap.0 / TRUNCATION_FACTS_PART);
    let key_facts = KeyFact::carried_within(&prior_facts(job), &[], room, bytes);
    let mut keep = TRUNCATION_KEEPS;
    while keep > 0 {
        let text = format!("## {}\n{}", SECTIONS[0], truncated(&whole, keep));
        let body = Body::Summary(text.into());
        let counts =
            count_block(job, &block_text(&cover.spans, &body, &key_facts), tokenizer).await?;
        if cost(job, counts) <= cap {
            return Ok(Written {
                body,
                key_facts,
                counts,
                writer: Writer::Deterministic,
                model: "truncation".into(),
                cost_micros: Some(0),
                duration_ms: 0,
                degraded: true,
            });
        }
        keep /= 2;
    }
    Err(format!("nothing of the range fits {cap} tokens").into())
}
