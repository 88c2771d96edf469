//! Writes a summary ahead, by the first model of the chain alone and only with idle capacity.
//!
//! The first request is sent only if it can be sent at once: it does not wait behind other requests
//! to the provider, for its rate limit, its cool-down or its breaker. Without a model nothing is
//! written: quotes take the turn that needs them no time.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use unisono_context::Tokens;
use unisono_context::checkpoint::Writer;
use unisono_context::compaction::Cover;
use unisono_context::cost::Cost;
use unisono_session::machine::WrittenSummary;

use super::ask::{self, SummaryRequest};
use super::retry::NoSummary;
use super::summarise::{chain, written};
use super::{Failure, Work, extract};

/// A summary by a model, or a failure; it may be retried if only the capacity was missing.
pub(super) async fn ahead(
    work: &Work,
    cover: &Cover,
    cap: Tokens,
) -> Result<WrittenSummary, Failure> {
    let started = Instant::now();
    let failure = |reason: Arc<str>, is_retryable| Failure {
        reason,
        is_retryable,
    };
    let chain = chain(work);
    let Some((chain, summariser)) = chain.as_ref().and_then(|c| Some((c, c.models.first()?)))
    else {
        let reason = "no model is configured that writes summaries of this conversation";
        return Err(failure(reason.into(), false));
    };
    let model = &summariser.model;
    if work.cooling_down.contains(model) {
        let reason = format!("model {model} failed too often; requests to it are paused");
        return Err(failure(reason.into(), true));
    }
    let Some(until) = work.allowance.share(started, 1) else {
        return Err(failure("no time is left".into(), true));
    };
    let frame = extract::frame(&work.job, cover, cap).await?;
    let asked = SummaryRequest {
        work,
        chain,
        summariser,
        cover,
        below: cover.original,
        cap,
        frame: &frame,
        until,
    };
    let mut spent = Some(Cost::ZERO);
    let by_model = timeout_at(until, ask::request_summary(&asked, &mut spent)).await;
    let by_model = by_model.unwrap_or_else(|_| Err(NoSummary::late(model)));
    match by_model {
        Ok(block) => {
            work.record_outcome(model, true);
            Ok(written(block, Writer::Model, spent, started, false))
        }
        Err(NoSummary {
            reason,
            is_unsent,
            was_not_asked,
            ..
        }) => {
            let is_busy = is_unsent && work.needs_idle_capacity();
            if !is_busy && !was_not_asked {
                work.record_outcome(model, false);
            }
            Err(failure(reason, is_busy))
        }
    }
}
