//! Reserves a model call of a run or of a turn's summariser, and settles ended calls.

use unisono_context::{RunId, Tokens};

use crate::budget::{Amount, Reservation, ReservationRequest, Verdict, usage_or_worst_case};
use crate::event::Fact;
use crate::fold;
use crate::input::CallEnd;

use super::Recorder;

/// Reserves the maximum use of the call, if it is within all budgets.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    ask: &ReservationRequest,
) -> Result<(), fold::Error> {
    if recorder.state.budget.reserved(run, ask.call).is_some() {
        return Ok(());
    }
    // Whether the call waits was decided before.
    match recorder
        .state
        .afford((run, attempt), ask, |_| false, recorder.now)
    {
        Some(Verdict::Granted(reservation)) => recorder.record(Fact::Reserved { run, reservation }),
        _ => Ok(()),
    }
}

/// The usage of calls that were in progress when the session stopped will never be known: they
/// count as their worst case, and are reserved again when they are repeated.
pub(crate) fn settle_lost(recorder: &mut Recorder<'_>) -> Result<(), fold::Error> {
    for (run, reservation) in recorder.state.budget.under_way() {
        lose(recorder, run, &reservation)?;
    }
    Ok(())
}

/// The same for the calls of a run that is ended from outside.
pub(super) fn settle_calls(recorder: &mut Recorder<'_>, run: RunId) -> Result<(), fold::Error> {
    for reservation in recorder.state.budget.calls(run).to_vec() {
        lose(recorder, run, &reservation)?;
    }
    Ok(())
}

fn lose(
    recorder: &mut Recorder<'_>,
    run: RunId,
    reservation: &Reservation,
) -> Result<(), fold::Error> {
    recorder.record(Fact::CallSettled {
        run,
        call: reservation.call,
        used: reservation.amount,
        is_reported: false,
    })
}

/// Charges a call that ended without a reply that is a step of the run.
pub(super) fn settle(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    call: u32,
    end: &CallEnd,
) -> Result<(), fold::Error> {
    let summarising = recorder.state.summarising_turn(run, attempt).is_some();
    let ahead = recorder.state.is_preparing(run);
    let under_way = summarising || ahead || recorder.attempt(run, attempt).is_some();
    let reserved = recorder.state.budget.reserved(run, call);
    let Some(reserved) = reserved.filter(|_| under_way) else {
        return Ok(());
    };
    let (used, reported) = match end {
        CallEnd::Used(usage) => (
            usage_or_worst_case(usage, reserved.amount),
            usage.input + usage.output > Tokens::ZERO,
        ),
        CallEnd::Unsent => (Amount::ZERO, true),
        CallEnd::Lost => (reserved.amount, false),
    };
    recorder.record(Fact::CallSettled {
        run,
        call,
        used,
        is_reported: reported,
    })
}
