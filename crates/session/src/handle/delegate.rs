//! The agent of a run gives tasks to others.

use unisono_context::RunId;

use crate::event::Fact;
use crate::fold;
use crate::machine::DelegateCall;

use super::Recorder;

/// Records the calls with what speaks against them; their runs are opened when the turn is
/// advanced. A round that is recorded stays as it is, and calls of another attempt are late.
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
