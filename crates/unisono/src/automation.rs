//! Turns that begin by themselves: at times, and when other programs ask.
//!
//! ```text
//! decide ─► written down (store::starts) ─► session made, turn handed in under its key ─► written down
//! ```
//!
//! Between the first and the last step a process may end. The next one finds a turn that was about
//! to be handed in, and hands it in again: to the same session, under the same key, so it is the
//! same turn. What is due is decided by `decide`, which has no clock.

mod decide;
mod follow;
mod give;
mod listed;

use std::sync::Arc;

pub use follow::follow;
pub use give::StartedTurn;

/// The source of a schedule's turns.
fn of_schedule(name: &str) -> Arc<str> {
    format!("schedule:{name}").into()
}

/// The source of a trigger's turns.
fn of_trigger(name: &str) -> Arc<str> {
    format!("trigger:{name}").into()
}
