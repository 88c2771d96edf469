#![doc = include_str!("../README.md")]
//!
//! ```text
//! Input ─► Machine::handle ─► Reaction { events, effects }
//!              │  each event is folded into the State when it is decided
//!              └─ effects that the state waits for and that are not requested yet
//! ```
//!
//! Effects are not stored, they are derived ([`pending_effects`]): the next effects of an open turn
//! follow from its state alone. A restarted session folds its journal and derives them again, so
//! normal operation and recovery are one code path. Ids are derived from the turn's id ([`ids`]),
//! so a decision whose event was lost is made again with the same ids.
//!
//! No clock, no randomness, no I/O: each input contains the time.

/// A table of a test: a row a line.
#[cfg(test)]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

pub mod agent;
pub mod append;
pub mod assignment;
mod attached;
pub mod budget;
mod delegation;
pub mod event;
mod fold;
mod handle;
mod headroom;
pub mod ids;
mod input;
pub mod machine;
pub mod measure;
pub mod outbox;
pub mod pending_effects;
mod prepared;
mod refusal;
pub mod replay;
pub mod reserve;
pub mod run;
mod spending;
pub mod state;
pub mod summary_usage;
pub mod tool;
mod topics;
pub mod trace;
pub mod turn;
pub mod upcoming;
pub mod usage;

/// The label that says whose a session is. It is set when the session is made, and never changes.
pub const OWNER: &str = "owner";

pub use agent::Definition;
pub use event::{Event, Fact};
pub use fold::Error as FoldError;
pub use machine::{Input, Machine, Reaction, Refusal};
pub use outbox::Outbox;
pub use pending_effects::Effect;
pub use replay::Replay;
pub use state::State;
pub use trace::Trace;
