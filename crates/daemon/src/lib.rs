//! A daemon: store, runtime and agents as one program, and its clients.
//!
//! - [`agents`] makes a roster of agent definitions, [`models`] what agents and summaries ask.
//! - [`daemon`] wires store, runtime and agents together; [`ask`] is what it is asked,
//!   [`append`] what is added without asking, [`spool`] what waits on disk to be imported.
//! - [`evaluation`] compacts a conversation to see what is left of it.
//! - [`labels`] picks sessions out, [`retention`] finds and deletes old ones.
//! - [`context`] is what a model sees of a branch, for those that only look; [`past`] what a
//!   journal tells of turns and runs, [`why`] what a run was sent, [`hits`] what a search found,
//!   [`outline`] the tree of messages, [`short`] how long things are made short.
//! - [`turn_view`] is a turn as clients see it, [`values`] are times and amounts as JSON has them.
//! - [`metrics`] counts what happens, [`telemetry`] writes the log.

pub mod agents;
pub mod append;
pub mod ask;
pub mod context;
mod current;
pub mod daemon;
pub mod evaluation;
pub mod hits;
pub mod labels;
pub mod metrics;
pub mod models;
#[cfg(feature = "otel")]
mod otel;
pub mod outline;
pub mod past;
pub mod replace;
pub mod retention;
pub mod short;
pub mod spool;
pub mod telemetry;
pub mod turn_view;
pub mod vacuum;
pub mod values;
pub mod why;

pub use daemon::Daemon;
