//! Writing a summary: extraction first, truncation where its result is not taken.

use std::sync::Arc;
use std::time::Instant;

use unisono_context::Tokens;
use unisono_context::checkpoint::{Body, Checkpoint, KeyFact, Writer, block_text};
use unisono_context::compaction::{Cover, Draft, SECTIONS, Stop, accept, truncated};
use unisono_context::tokens::Counts;
use unisono_model::extractive::{self, Passage, Style, SummaryInput};
use unisono_model::tokenizer::Tokenizer;
use unisono_session::brief::CompactionJob;
use unisono_session::machine::Written;

use crate::tokenizer;

use super::carry_out::count_block;

/// Tokens of the marking around a summary: its range, the heading of its key facts.
const MARKING: u64 = 24;
/// Unicode scalars that truncation keeps at each end, at first.
const TRUNCATION_KEEPS: usize = 2_000;

/// A block that fits its cap: quotes from the messages, or, where those are not taken, the
/// messages' text with its middle left out.
pub(super) async fn summarise(
    job: &CompactionJob,
    cover: &Cover,
    cap: Tokens,
    tokenizer: &tokenizer::Handle,
) -> Result<Written, Arc<str>> {
    let started = Instant::now();
    let (text, key_facts) = extract(job, cap).await?;
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

async fn extract(job: &CompactionJob, cap: Tokens) -> Result<(String, Vec<KeyFact>), Arc<str>> {
    let job = job.clone();
    let work = tokio::task::spawn_blocking(move || extract_here(&job, cap));
    work.await
        .map_err(|_| Arc::from("the extractive summariser panicked"))?
}

fn extract_here(job: &CompactionJob, cap: Tokens) -> Result<(String, Vec<KeyFact>), Arc<str>> {
    let encoding = job.plan.budget.encoding;
    let tokenizer = Tokenizer::load(encoding).map_err(|error| Arc::from(error.to_string()))?;
    let count = |text: &str| tokenizer.count(text).at_most.0;
    let passages = Passage::of_messages(job.messages.iter().map(|message| &**message));
    let prior: Vec<&str> = job.prior.iter().filter_map(|c| summary_of(c)).collect();
    let prior = prior.join("\n\n");
    let prior_facts: Vec<extractive::KeyFact> = job
        .prior
        .iter()
        .flat_map(|checkpoint| &checkpoint.key_facts)
        .map(|fact| extractive::KeyFact {
            text: fact.text.to_string(),
            ordinal: fact.ordinal,
        })
        .collect();
    let room = cap.minus(Tokens(MARKING));
    let draft = extractive::summarise(&SummaryInput {
        passages: &passages,
        prior: (!prior.is_empty()).then_some(prior.as_str()),
        prior_facts: &prior_facts,
        cap: Tokens(room.0 * 3 / 4),
        style: Style::Rolling,
        instructions: job.instructions.as_deref(),
        count: &count,
    });
    let left = room.minus(Tokens(count(&draft.text)));
    Ok((draft.text, facts_within(draft.key_facts, left, &count)))
}

fn summary_of(checkpoint: &Checkpoint) -> Option<&str> {
    match &checkpoint.body {
        Body::Summary(text) => Some(text),
        Body::Tombstone => None,
    }
}

/// As many key facts as there is room for.
fn facts_within(
    facts: Vec<extractive::KeyFact>,
    room: Tokens,
    count: &dyn Fn(&str) -> u64,
) -> Vec<KeyFact> {
    let mut left = room;
    let mut kept = Vec::new();
    for fact in facts {
        let line = Tokens(count(&format!("- {} ({})\n", fact.text, fact.ordinal)));
        if line > left {
            continue;
        }
        left = left.minus(line);
        kept.push(KeyFact {
            text: fact.text.into(),
            ordinal: fact.ordinal,
        });
    }
    kept
}

/// The last resort that needs no judgement: the beginning and the end of what there is, halved
/// until it fits.
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
    let mut keep = TRUNCATION_KEEPS;
    while keep > 0 {
        let text = format!("## {}\n{}", SECTIONS[0], truncated(&whole, keep));
        let body = Body::Summary(text.into());
        let counts = count_block(job, &block_text(&cover.spans, &body, &[]), tokenizer).await?;
        if cost(job, counts) <= cap {
            return Ok(Written {
                body,
                key_facts: Vec::new(),
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
