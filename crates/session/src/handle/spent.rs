//! Something was paid for besides replies, while a request goes on.

use std::sync::Arc;

use unisono_context::RunId;

use crate::budget::{Amount, Reservation};
use crate::event::Fact;
use crate::fold;
use crate::run::{Spent, Step};

use super::Tx;

/// Records it as a step of the attempt under way. What was set aside for its call is charged in
/// part; the rest stays set aside until the call ends.
pub(super) fn handle(
    tx: &mut Tx<'_>,
    run: RunId,
    attempt: u32,
    call: Option<u32>,
    spent: Spent,
) -> Result<(), fold::Error> {
    if tx.attempt(run, attempt).is_none() {
        return Ok(());
    }
    let reserved = call.and_then(|call| tx.state.budget.reserved(run, call));
    if let Some(reserved) = reserved.cloned() {
        let used = Amount::of(&spent.usage);
        tx.record(Fact::CallSettled {
            run,
            call: reserved.call,
            used,
            told: true,
        })?;
        let reservation = Reservation {
            amount: reserved.amount - used,
            ..reserved
        };
        tx.record(Fact::Reserved { run, reservation })?;
    }
    let step = Arc::new(Step::Spent(spent));
    tx.record(Fact::RunStepped { run, step })
}
