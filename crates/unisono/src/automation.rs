//! Starts turns automatically: at the times of schedules, and on requests to triggers.
//!
//! ```text
//! decide ─► record the start (store::starts) ─► create the session, begin the turn under its key
//! ─► record the result
//! ```
//!
//! The process can end between these steps. The next process finds the recorded start and begins
//! the turn again, in the same session and under the same key, so it is the same turn. `decide`
//! chooses the next step of a schedule without a clock.

mod begin;
mod decide;
mod follow;
mod listed;

use std::sync::Arc;

pub use begin::StartedTurn;
pub use follow::follow;

/// The source of a schedule's turns.
fn of_schedule(name: &str) -> Arc<str> {
    format!("schedule:{name}").into()
}

/// The source of a trigger's turns.
fn of_trigger(name: &str) -> Arc<str> {
    format!("trigger:{name}").into()
}
