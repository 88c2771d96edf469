//! A run finished a step, or an attempt of it ended.

use std::sync::Arc;

use unisono_context::{RunId, Timestamp};

use crate::agent::OnFailure;
use crate::event::{Fact, RunRole};
use crate::machine::{AttemptEnd, Refusal};
use crate::run::{Ending, Run, Step};

use super::Tx;

/// First pause before another attempt; doubled each time.
const BACKOFF_MS: u64 = 250;
/// The longest pause.
const BACKOFF_MAX_MS: u64 = 30_000;

/// Records a step of the attempt under way; steps of others are late and change nothing.
pub(super) fn stepped(
    tx: &mut Tx<'_>,
    run: RunId,
    attempt: u32,
    step: Arc<Step>,
) -> Result<(), Refusal> {
    if current(tx, run, attempt).is_none() {
        return Ok(());
    }
    tx.record(Fact::RunStepped { run, step })
}

/// Records the end of the attempt under way, or plans another one.
pub(super) fn ended(
    tx: &mut Tx<'_>,
    id: RunId,
    attempt: u32,
    end: AttemptEnd,
) -> Result<(), Refusal> {
    let Some(run) = current(tx, id, attempt) else {
        return Ok(());
    };
    let duration_ms = tx.now.ms_since(run.opened_at).max(0) as u64;
    let turn = run.turn;
    let definition = tx
        .state
        .turns
        .get(&turn)
        .and_then(|t| t.definition(run.definition))
        .cloned();
    let retries = definition
        .as_ref()
        .map_or(0, |definition| definition.retries);
    match end {
        AttemptEnd::Finished {
            text,
            partial,
            usage,
        } => {
            let ending = Ending::Finished {
                text,
                partial,
                usage,
                duration_ms,
            };
            tx.record(Fact::RunEnded {
                run: id,
                ending: Arc::new(ending),
            })
        }
        AttemptEnd::Failed { cause, reason } if cause.is_retryable() && attempt <= retries => {
            let not_before = next_attempt_at(run, tx.now);
            tx.record(Fact::RunRetried {
                run: id,
                attempt: attempt + 1,
                not_before,
                reason,
            })
        }
        AttemptEnd::Failed { cause, reason } => {
            let fatal = definition.is_some_and(|d| d.on_failure == OnFailure::Fail);
            let delegate = matches!(run.role, RunRole::Delegate { .. });
            let told = format!("agent {} failed: {reason}", run.agent);
            let ending = Ending::Failed {
                cause,
                reason,
                duration_ms,
            };
            tx.record(Fact::RunEnded {
                run: id,
                ending: Arc::new(ending),
            })?;
            if fatal && delegate {
                tx.fail_turn(turn, "delegate_failed", told)
            } else {
                Ok(())
            }
        }
    }
}

fn current<'a>(tx: &'a Tx<'_>, run: RunId, attempt: u32) -> Option<&'a Run> {
    tx.state
        .runs
        .get(&run)
        .filter(|run| run.is_open() && run.attempt == attempt)
}

/// Exponential backoff with full jitter, drawn from the run's id so that it can be replayed.
fn next_attempt_at(run: &Run, now: Timestamp) -> Timestamp {
    let ceiling = BACKOFF_MS
        .saturating_mul(1 << run.attempt.min(16))
        .min(BACKOFF_MAX_MS);
    let draw = (run.id.as_u128() >> (8 * (run.attempt % 7))) as u64 % ceiling;
    now.plus_ms(draw as i64)
}
