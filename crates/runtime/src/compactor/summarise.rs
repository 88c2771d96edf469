//! Writing a summary: the models of the chain one after the other, then quotes, then truncation.
//!
//! All of it keeps the deadline of the turn's compaction. Each model has an equal share of what is
//! left of it, none is asked once nothing is, and the last second belongs to the summary that
//! needs no model. A compaction that a person asked for ends with an error where no model writes a summary that can be taken, if they have not said
//! otherwise: it is theirs to try again, to have quotes taken, or to leave it. So does a summary
//! that is to be written anew.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until, timeout_at};
use unisono_context::Tokens;
use unisono_context::checkpoint::{Kind, Writer};
use unisono_context::compaction::Cover;
use unisono_context::cost::Cost;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_session::event::SummaryFallback;
use unisono_session::machine::Written;

use super::ask::{self, SummaryRequest};
use super::batch;
use super::chain::{Chain, Summariser};
use super::extract::{self, Block};
use super::retry::{self, NoSummary, RetryDecision};
use super::{Failure, Work};

/// A block that fits its cap, with all that is recorded of its making.
pub(super) async fn summarise(
    work: &Work,
    cover: &Cover,
    cap: Tokens,
    writer: Writer,
) -> Result<Written, Failure> {
    let started = Instant::now();
    let chain = chain(work).filter(|_| writer == Writer::Model);
    let unwritten = work.job.writing.unwritten;
    let mut spent = Some(Cost::ZERO);
    let limits = BlockLimits {
        cap,
        below: cover.original,
    };
    let by_model = match &chain {
        Some(chain) => Some(summarise_with_models(work, chain, cover, limits, &mut spent).await),
        None => None,
    };
    let (block, writer) = match by_model {
        Some(Ok(block)) => (block, Writer::Model),
        Some(Err(failed))
            if work.job.kind == Kind::Manual && unwritten != SummaryFallback::Extractive =>
        {
            return Err(unwritten_failure(work, failed).await);
        }
        by_nobody => {
            if by_nobody.is_some() {
                work.report("quotes are taken instead".to_owned());
            }
            let block = extract::extracted(&work.job, cover, cap, &work.tokenizer).await?;
            (block, Writer::Deterministic)
        }
    };
    // What a model was to write and did not is done again by one later.
    let degraded =
        writer == Writer::Deterministic && (chain.is_some() || &*block.model != EXTRACTIVE);
    Ok(written(block, writer, spent, started, degraded))
}

/// The failure of a summary that a person asked for. Where they wish for another try, it is told
/// when that may succeed: a try that only finds its provider closed is none.
async fn unwritten_failure(work: &Work, failed: NoSummary) -> Failure {
    let unchanged = |reason: &str| Failure {
        reason: format!("{reason}; nothing was changed").into(),
        is_retryable: false,
    };
    let reason = &failed.reason;
    if work.job.writing.unwritten != SummaryFallback::Retry || !work.job.has_another_try() {
        return unchanged(reason);
    }
    match retry::decide_retry(&failed, &work.allowance, Instant::now()) {
        RetryDecision::OutOfTime => unchanged(reason),
        RetryDecision::Unreachable(wait) => unchanged(&format!(
            "{reason}; not asked again: that is of no use for {:.1} s, longer than this \
             compaction may still take (compaction.deadline_seconds)",
            wait.as_secs_f64()
        )),
        RetryDecision::Again(at) => {
            work.report("a pause before the next try".to_owned());
            sleep_until(at).await;
            Failure {
                is_retryable: true,
                ..unchanged(reason)
            }
        }
    }
}

/// A summary that a model writes anew, or nothing: what stands there stays where none does.
pub(super) async fn rewrite(work: &Work, cover: &Cover, cap: Tokens) -> Result<Written, Failure> {
    let started = Instant::now();
    let failure = |reason: Arc<str>| Failure {
        reason: format!("{reason}; the summary stays as it is").into(),
        is_retryable: false,
    };
    let Some(chain) = chain(work) else {
        let reason = "no model is configured that writes summaries of this conversation";
        return Err(failure(reason.into()));
    };
    let mut spent = Some(Cost::ZERO);
    // It may be longer than the one it replaces.
    let below = Tokens(u64::MAX);
    let by_model =
        summarise_with_models(work, &chain, cover, BlockLimits { cap, below }, &mut spent).await;
    let block = by_model.map_err(|failed| failure(failed.reason))?;
    Ok(written(block, Writer::Model, spent, started, false))
}

/// The models that write the summaries of this conversation.
fn chain(work: &Work) -> Option<Arc<Chain>> {
    let summariser = work.job.writing.summariser.as_deref();
    let chains = &work.env.options.summarisers;
    let chain = chains.get(&work.job.model, summariser, &work.job.settings);
    chain.filter(|chain| !chain.models.is_empty())
}

fn written(
    block: Block,
    writer: Writer,
    spent: Option<Cost>,
    started: Instant,
    degraded: bool,
) -> Written {
    Written {
        body: block.body,
        key_facts: block.key_facts,
        counts: block.counts,
        writer,
        model: block.model,
        cost_micros: spent.map(Cost::micro_dollars),
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        degraded,
        coverage: block.coverage,
    }
}

/// How long a block may be.
#[derive(Clone, Copy)]
struct BlockLimits {
    /// The most tokens it may have.
    cap: Tokens,
    /// It must have fewer than this.
    below: Tokens,
}

/// The first summary that can be taken; or why there is none.
async fn summarise_with_models(
    work: &Work,
    chain: &Chain,
    cover: &Cover,
    limits: BlockLimits,
    spent: &mut Option<Cost>,
) -> Result<Block, NoSummary> {
    // A person's own request is not put off.
    let rests = |model: &Summariser| {
        work.job.kind == Kind::Auto && work.cooling_down.contains(&model.model)
    };
    let (resting, asked): (Vec<_>, Vec<_>) = chain.models.iter().partition(|model| rests(model));
    let mut reasons: Vec<Arc<str>> = resting
        .iter()
        .map(|model| {
            format!(
                "model {} failed too often and is left alone for a while",
                model.model
            )
            .into()
        })
        .collect();
    let BlockLimits { cap, below } = limits;
    let (key_facts, room) = extract::frame(&work.job, cover, cap).await?;
    let request = |summariser, until| SummaryRequest {
        work,
        chain,
        summariser,
        cover,
        below,
        cap,
        room,
        key_facts: &key_facts,
        until,
    };
    let first = chain.models.first();
    if let Some(summariser) = first.filter(|_| work.drafts.has(cover)) {
        let drafted = request(summariser, Instant::now());
        if let Some(block) = batch::block_of_draft(&drafted).await {
            return Ok(block);
        }
    }
    let mut left = asked.len();
    let mut tries: Vec<Option<Instant>> = Vec::new();
    for summariser in asked {
        let Some(share) = work.allowance.share(Instant::now(), left) else {
            reasons.push(out_of_time(work, summariser));
            break;
        };
        left -= 1;
        let asked = request(summariser, share);
        let written = match timeout_at(share, ask::request_summary(&asked, spent)).await {
            Ok(written) => written,
            Err(_) => Err(NoSummary::from(format!(
                "model {}: no summary in time",
                summariser.model
            ))),
        };
        work.record_outcome(&summariser.model, written.is_ok());
        match written {
            Ok(block) => return Ok(block),
            Err(NoSummary { reason, not_before }) => {
                tracing::warn!(
                    session = %work.job.session,
                    model = &*summariser.model,
                    %reason,
                    "no summary that can be taken"
                );
                work.report_problem(format!("no summary that can be taken: {reason}"));
                reasons.push(reason);
                tries.push(not_before);
            }
        }
    }
    Err(NoSummary {
        reason: reasons.join("; ").into(),
        // As soon as one of them may be asked.
        not_before: tries.into_iter().min().flatten(),
    })
}

/// Why no model is asked any more.
fn out_of_time(work: &Work, next: &Summariser) -> Arc<str> {
    let deadline = work.env.options.compaction_deadline.get().as_secs_f64();
    let reason = format!(
        "model {} was not asked: the {deadline:.1} s that one compaction may take are over",
        next.model
    );
    work.report_problem(format!("no summary that can be taken: {reason}"));
    reason.into()
}
