//! The agent of a run delegates tasks.

use unisono_context::RunId;

use crate::event::Fact;
use crate::fold;
use crate::input::DelegateCall;

use super::Recorder;

/// Records the calls with the reasons of refusals; their runs are opened when the turn advances. A
/// recorded round does not change, and calls of another attempt are late.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    round: u32,
    calls: Vec<DelegateCall>,
) -> Result<(), fold::Error> {
    let Some(known) = recorder.attempt(run, attempt) else {
        return Ok(());
    };
    if calls.is_empty() || known.round(round).is_some() {
        return Ok(());
    }
    let calls = recorder.state.admit_calls(known, calls);
    recorder.record(Fact::Delegated { run, round, calls })
}
