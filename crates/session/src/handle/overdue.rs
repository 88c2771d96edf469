//! Ends turns and runs whose time budget or time limit is exceeded.

use std::sync::Arc;

use unisono_context::{RunId, TurnId};

use crate::budget::{EXCEEDED, Shortage, describe_shortage};
use crate::event::Fact;
use crate::fold;
use crate::run::{AttemptTimes, Ending, RunCause, last_text, total_usage};
use crate::turn::TIMED_OUT;

use super::{Recorder, children, reserve, run_ended};

/// Ends a turn, or runs of it, whose time is up; true if the turn has ended.
pub(super) fn end(recorder: &mut Recorder<'_>, id: TurnId) -> Result<bool, fold::Error> {
    let Some(turn) = recorder.state.turns.get(&id) else {
        return Ok(true);
    };
    if let Some((at, short)) = recorder.state.turn_deadline(turn)
        && at <= recorder.now
    {
        recorder.fail_turn(id, EXCEEDED, short.to_string())?;
        return Ok(true);
    }
    if let Some((at, limit)) = recorder.state.turn_limit(turn)
        && at <= recorder.now
    {
        let seconds = limit.div_ceil(1_000);
        let reason =
            format!("it took longer than {seconds} s; `turn.timeout_seconds` is its limit");
        recorder.fail_turn(id, TIMED_OUT, reason)?;
        return Ok(true);
    }
    if !recorder.state.has_timed_runs(turn) {
        return Ok(false);
    }
    let open = recorder.state.runs_of(turn).filter(|run| run.is_open());
    let due = open.filter_map(|run| {
        let (at, short) = recorder.state.run_deadline(run.id)?;
        (at <= recorder.now).then_some((run.id, short))
    });
    for (run, short) in due.collect::<Vec<_>>() {
        end_run(recorder, run, &short)?;
    }
    Ok(false)
}

/// The last text of its model is its result. The end of a run before it may have ended it.
fn end_run(recorder: &mut Recorder<'_>, id: RunId, short: &Shortage) -> Result<(), fold::Error> {
    let run = recorder.state.runs.get(&id);
    let Some(run) = run.filter(|run| run.is_open()) else {
        return Ok(());
    };
    let duration_ms = recorder.now.ms_since(run.opened_at).max(0) as u64;
    let (last, usage) = (last_text(&run.steps), total_usage(&run.steps));
    reserve::settle_calls(recorder, id)?;
    let Some(text) = last else {
        let reason = short.to_string().into();
        return run_ended::failed(recorder, id, (RunCause::Budget, reason), None);
    };
    let ending = Arc::new(Ending::Finished {
        text,
        calls: Vec::new(),
        partial: Some(describe_shortage(short)),
        usage,
        duration_ms,
        attempt_times: AttemptTimes::default(),
    });
    recorder.record(Fact::RunEnded { run: id, ending })?;
    children::cancel(recorder, id)
}
