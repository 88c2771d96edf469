//! Records a cost in addition to replies, while a request continues.

use std::sync::Arc;

use unisono_context::RunId;

use crate::budget::{Amount, Reservation};
use crate::event::Fact;
use crate::fold;
use crate::run::{AuxiliaryUsage, Step};

use super::Recorder;

/// Records the cost as a step of the current attempt. It is charged to the reservation of its call;
/// the rest stays reserved until the call ends.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    call: Option<u32>,
    spent: AuxiliaryUsage,
) -> Result<(), fold::Error> {
    if recorder.attempt(run, attempt).is_none() {
        return Ok(());
    }
    let reserved = call.and_then(|call| recorder.state.budget.reserved(run, call));
    if let Some(reserved) = reserved.cloned() {
        let used = Amount::from_usage(&spent.usage);
        recorder.record(Fact::CallSettled {
            run,
            call: reserved.call,
            used,
            is_reported: true,
        })?;
        let reservation = Reservation {
            amount: reserved.amount - used,
            ..reserved
        };
        recorder.record(Fact::Reserved { run, reservation })?;
    }
    let step = Arc::new(Step::Spent(spent));
    recorder.record(Fact::RunStepped { run, step })
}
