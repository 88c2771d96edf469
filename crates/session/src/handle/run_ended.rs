//! An attempt of a run ended.

use std::sync::Arc;

use unisono_context::{RunId, Timestamp, TurnId};

use crate::agent::OnFailure;
use crate::event::{Fact, RunRole};
use crate::fold;
use crate::machine::AttemptEnd;
use crate::pending_effects::{BACKOFF_MAX_MS, WAIT_MAX_MS};
use crate::run::{Cause, Ending, Run};

use super::{Recorder, children};

/// The longest first pause before another attempt; doubled each time.
const BACKOFF_MS: u64 = 500;

/// Records the end of the attempt under way, or plans another one, which finds what was given to
/// others as it is by then. The end of any other attempt is late and changes nothing.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    id: RunId,
    attempt: u32,
    end: AttemptEnd,
) -> Result<(), fold::Error> {
    let Some(run) = recorder.attempt(id, attempt) else {
        return Ok(());
    };
    let Rules {
        retries,
        timeout_ms,
        ..
    } = rules(recorder, run);
    let duration_ms = recorder.now.ms_since(run.opened_at).max(0) as u64;
    match end {
        AttemptEnd::Finished {
            text,
            mut calls,
            partial,
            usage,
            pace,
        } => {
            calls.retain(|call| is_lent(recorder, run, &call.name));
            let ending = Ending::Finished {
                text,
                calls,
                partial,
                usage,
                duration_ms,
                pace,
            };
            let ending = Arc::new(ending);
            recorder.record(Fact::RunEnded { run: id, ending })?;
            children::cancel(recorder, id)
        }
        AttemptEnd::Failed {
            cause,
            reason,
            wait_ms,
        } if cause.is_retryable() && attempt <= retries => {
            let wait = wait_ms.unwrap_or(0).min(timeout_ms).min(WAIT_MAX_MS);
            let not_before = next_attempt_at(run, recorder.now.plus_ms(wait as i64));
            recorder.record(Fact::RunRetried {
                run: id,
                attempt: attempt + 1,
                not_before,
                reason,
            })
        }
        AttemptEnd::Failed { cause, reason, .. } => failed(recorder, id, cause, reason),
    }
}

/// Records that a run came to nothing, and the end of its turn where its agent's failure is that.
pub(super) fn failed(
    recorder: &mut Recorder<'_>,
    id: RunId,
    cause: Cause,
    reason: Arc<str>,
) -> Result<(), fold::Error> {
    let Some(run) = recorder.state.runs.get(&id) else {
        return Ok(());
    };
    let ends_turn = rules(recorder, run).ends_turn;
    let told = turn_failure(recorder, run, &cause.describe(&reason));
    let duration_ms = recorder.now.ms_since(run.opened_at).max(0) as u64;
    let ending = Ending::Failed {
        cause,
        reason,
        duration_ms,
    };
    let ending = Arc::new(ending);
    recorder.record(Fact::RunEnded { run: id, ending })?;
    children::cancel(recorder, id)?;
    match ends_turn {
        Some(turn) => recorder.fail_turn(turn, "delegate_failed", told),
        None => Ok(()),
    }
}

/// What a turn fails with whose agent's failure is that: where a pipeline stopped, and what of it
/// was not begun, included.
fn turn_failure(recorder: &Recorder<'_>, run: &Run, reason: &str) -> String {
    let mut told = format!("agent {} failed: {reason}", run.agent);
    let turn = recorder.state.turns.get(&run.turn);
    let turn = turn.filter(|turn| turn.in_order());
    let (Some(turn), RunRole::Delegate { index }) = (turn, run.role) else {
        return told;
    };
    let (stages, stage) = (&turn.team.delegates, index as usize + 1);
    told.push_str(&format!("; it was stage {stage} of {}", stages.len()));
    let left = stages
        .iter()
        .skip(stage)
        .map(|stage| stage.agent.id.as_str());
    let left: Vec<&str> = left.collect();
    if !left.is_empty() {
        told.push_str(&format!(
            ", and nothing came of {} after it",
            left.join(", ")
        ));
    }
    told
}

/// Whether whoever asked makes calls of the tool for the agent: the lead answers to them.
fn is_lent(recorder: &Recorder<'_>, run: &Run, tool: &str) -> bool {
    let client_options = recorder.state.client_options(run);
    client_options.is_some_and(|client_options| client_options.has(tool))
}

/// What the failure of an attempt leads to.
#[derive(Default)]
struct Rules {
    /// Attempts after the first.
    retries: u32,
    /// How long an attempt may take, and what keeps it from succeeding is waited for.
    timeout_ms: u64,
    /// The turn that the run's failure ends at once. A lead's failure ends its turn like its
    /// success: when the turn is advanced.
    ends_turn: Option<TurnId>,
}

fn rules(recorder: &Recorder<'_>, run: &Run) -> Rules {
    let Some(agent) = recorder.state.definitions.get(&run.definition) else {
        return Rules::default();
    };
    let fatal = run.role != RunRole::Lead && agent.on_failure == OnFailure::Fail;
    Rules {
        retries: agent.retries,
        timeout_ms: agent.timeout_ms,
        ends_turn: fatal.then_some(run.turn),
    }
}

/// Exponential backoff with full jitter, drawn from the run's id so that it can be replayed.
fn next_attempt_at(run: &Run, earliest: Timestamp) -> Timestamp {
    let doublings = run.attempt.saturating_sub(1).min(16);
    let ceiling = (BACKOFF_MS << doublings).min(BACKOFF_MAX_MS);
    let draw = (run.id.as_u128() >> (8 * (run.attempt % 7))) as u64 % ceiling;
    earliest.plus_ms(draw as i64)
}
