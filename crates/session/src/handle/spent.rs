//! Something was paid for besides replies, while a request goes on.

use std::sync::Arc;

use unisono_context::RunId;

use crate::budget::{Amount, Reservation};
use crate::event::Fact;
use crate::fold;
use crate::run::{Spent, Step};

use super::Recorder;

/// Records it as a step of the attempt under way. What was reserved for its call is charged in
/// part; the rest stays reserved until the call ends.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    call: Option<u32>,
    spent: Spent,
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
            told: true,
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
