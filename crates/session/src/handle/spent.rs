//! Something was paid for besides replies, or may have been, while a request goes on.

use std::sync::Arc;

use unisono_context::RunId;
use unisono_context::call::Usage;

use crate::budget::{Amount, Reservation};
use crate::event::Fact;
use crate::fold;
use crate::run::{Spent, Step};

use super::Tx;

/// Records it as a step of the attempt under way, and charges it.
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
    if let Some(call) = call {
        charge(tx, run, call, &spent.usage, true)?;
    }
    let step = Arc::new(Step::Spent(spent));
    tx.record(Fact::RunStepped { run, step })
}

/// Charges what nobody knows as its worst case, as a call is whose reply is lost. It is no step:
/// nothing says that it was used.
pub(super) fn lost(
    tx: &mut Tx<'_>,
    run: RunId,
    attempt: u32,
    call: u32,
    most: &Usage,
) -> Result<(), fold::Error> {
    match tx.attempt(run, attempt) {
        Some(_) => charge(tx, run, call, most, false),
        None => Ok(()),
    }
}

/// Charges a part of what was set aside for a call; the rest stays set aside until it ends.
fn charge(
    tx: &mut Tx<'_>,
    run: RunId,
    call: u32,
    usage: &Usage,
    told: bool,
) -> Result<(), fold::Error> {
    let Some(reserved) = tx.state.budget.reserved(run, call).cloned() else {
        return Ok(());
    };
    let used = Amount::of(usage);
    tx.record(Fact::CallSettled {
        run,
        call: reserved.call,
        used,
        told,
    })?;
    let reservation = Reservation {
        amount: reserved.amount - used,
        ..reserved
    };
    tx.record(Fact::Reserved { run, reservation })
}
