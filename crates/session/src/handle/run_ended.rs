//! An attempt of a run ended.

use std::sync::Arc;

use unisono_context::{RunId, Timestamp, TurnId};

use crate::agent::OnFailure;
use crate::event::{Fact, RunRole};
use crate::fold;
use crate::input::AttemptEnd;
use crate::pending_effects::{BACKOFF_MAX_MS, WAIT_MAX_MS};
use crate::run::{Ending, Run, RunCause};

use super::{Recorder, calls, children};

/// The maximum of the first pause before another attempt; it doubles with each attempt.
const BACKOFF_MS: u64 = 500;

/// Records the end of the current attempt, or plans another one, which finds delegated tasks in
/// their state at that time. The end of any other attempt is late and changes nothing.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    id: RunId,
    attempt: u32,
    end: AttemptEnd,
) -> Result<(), fold::Error> {
    let Some(run) = recorder.attempt(id, attempt) else {
        return Ok(());
    };
    let RetryRules {
        retries,
        timeout_ms,
        ..
    } = retry_rules(recorder, run);
    let duration_ms = recorder.now.ms_since(run.opened_at).max(0) as u64;
    match end {
        AttemptEnd::Finished {
            text,
            mut calls,
            partial,
            usage,
            attempt_times,
        } => {
            calls.retain(|call| is_client_tool(recorder, run, &call.name));
            let ending = Ending::Finished {
                text,
                calls,
                partial,
                usage,
                duration_ms,
                attempt_times,
            };
            let ending = Arc::new(ending);
            recorder.record(Fact::RunEnded { run: id, ending })?;
            children::cancel(recorder, id)
        }
        AttemptEnd::Failed {
            cause,
            reason,
            wait_ms,
            ..
        } if cause.is_retryable() && attempt <= retries => {
            let wait = wait_ms.unwrap_or(0).min(timeout_ms).min(WAIT_MAX_MS);
            let not_before = next_attempt_at(run, recorder.now.plus_ms(wait as i64));
            retry(recorder, id, attempt + 1, (not_before, reason))
        }
        AttemptEnd::Failed {
            cause,
            reason,
            text,
            ..
        } => {
            let first = run.failures.as_ref().map(|(first, _)| &**first);
            let reason = with_first_cause(reason, first);
            failed(recorder, id, (cause, reason), text)
        }
    }
}

/// Plans another attempt.
fn retry(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    (not_before, reason): (Timestamp, Arc<str>),
) -> Result<(), fold::Error> {
    recorder.record(Fact::RunRetried {
        run,
        attempt,
        not_before,
        reason,
    })?;
    calls::withdraw_permissions(recorder, run)
}

/// Records that a run failed, and ends its turn if the failure of its agent fails the turn. `said` is
/// the text of an incomplete reply.
pub(super) fn failed(
    recorder: &mut Recorder<'_>,
    id: RunId,
    (cause, reason): (RunCause, Arc<str>),
    said: Option<Arc<str>>,
) -> Result<(), fold::Error> {
    let Some(run) = recorder.state.runs.get(&id) else {
        return Ok(());
    };
    let ends_turn = retry_rules(recorder, run).ends_turn;
    let text = describe_turn_failure(recorder, run, &cause.describe(&reason));
    let duration_ms = recorder.now.ms_since(run.opened_at).max(0) as u64;
    let ending = Ending::Failed {
        cause,
        reason,
        duration_ms,
        text: said,
    };
    let ending = Arc::new(ending);
    recorder.record(Fact::RunEnded { run: id, ending })?;
    children::cancel(recorder, id)?;
    match ends_turn {
        Some(turn) => recorder.fail_turn(turn, "delegate_failed", text),
        None => Ok(()),
    }
}

/// The reason of the last failure, followed by the first clause of the first one, unless it has that
/// already.
fn with_first_cause(last: Arc<str>, first: Option<&str>) -> Arc<str> {
    let clause = first.and_then(|first| first.split("; ").next());
    match clause {
        Some(clause) if !last.contains(clause) => format!("{last}; first: {clause}").into(),
        _ => last,
    }
}

/// The reason of a turn that fails with one of its agents; for a pipeline, with the stage that
/// failed and the stages that were not started.
fn describe_turn_failure(recorder: &Recorder<'_>, run: &Run, reason: &str) -> String {
    let mut text = format!("agent {} failed: {reason}", run.agent);
    let turn = recorder.state.turns.get(&run.turn);
    let turn = turn.filter(|turn| turn.is_pipeline());
    let (Some(turn), RunRole::Delegate { index }) = (turn, run.role) else {
        return text;
    };
    let (stages, stage) = (&turn.team.delegates, index as usize + 1);
    text.push_str(&format!("; it was stage {stage} of {}", stages.len()));
    let left = stages
        .iter()
        .skip(stage)
        .map(|stage| stage.agent.id.as_str());
    let left: Vec<&str> = left.collect();
    if !left.is_empty() {
        text.push_str(&format!("; stages without a result: {}", left.join(", ")));
    }
    text
}

/// Whether the tool is a client tool of the run's agent. Only the lead has client tools.
fn is_client_tool(recorder: &Recorder<'_>, run: &Run, tool: &str) -> bool {
    let client_options = recorder.state.client_options(run);
    client_options.is_some_and(|client_options| client_options.has(tool))
}

/// The consequences of a failed attempt.
#[derive(Default)]
struct RetryRules {
    /// Attempts after the first one.
    retries: u32,
    /// The time limit of an attempt, and of the wait for a temporary obstacle.
    timeout_ms: u64,
    /// The turn that the failure of the run ends at once. A lead's failure ends its turn like its
    /// success: when the turn advances.
    ends_turn: Option<TurnId>,
}

fn retry_rules(recorder: &Recorder<'_>, run: &Run) -> RetryRules {
    let Some(agent) = recorder.state.definitions.get(&run.definition) else {
        return RetryRules::default();
    };
    let fatal = run.role != RunRole::Lead && agent.on_failure == OnFailure::Fail;
    RetryRules {
        retries: agent.retries,
        timeout_ms: agent.timeout_ms,
        ends_turn: fatal.then_some(run.turn),
    }
}

/// Exponential backoff with full jitter, derived from the run's id so that a replay gives the same
/// time.
fn next_attempt_at(run: &Run, earliest: Timestamp) -> Timestamp {
    let doublings = run.attempt.saturating_sub(1).min(16);
    let ceiling = (BACKOFF_MS << doublings).min(BACKOFF_MAX_MS);
    let draw = (run.id.as_u128() >> (8 * (run.attempt % 7))) as u64 % ceiling;
    earliest.plus_ms(draw as i64)
}

#[cfg(test)]
mod tests {
    use super::with_first_cause;

    #[test]
    fn the_first_cause_is_named_once() {
        let rows = rows! {
            (None, "took longer than 2 s", "took longer than 2 s"),
            (Some("refused the connection; 3 attempts"), "requests are paused for 9 s",
             "requests are paused for 9 s; first: refused the connection"),
            (Some("refused the connection; 1 attempt"), "refused the connection; 3 attempts",
             "refused the connection; 3 attempts"),
        };
        for (first, last, expected) in rows {
            assert_eq!(&*with_first_cause(last.into(), first), expected);
        }
    }
}
