//! What stands around the runtime: configuration, agent definitions, transcripts, telemetry.
//!
//! - [`config`] reads the settings of all layers and says where each came from.
//! - [`providers`] says of whom models can be asked.
//! - [`models`] are what agents and summaries ask.
//! - [`agents`] reads agent definitions into a roster.
//! - [`setup`] does both at once: what a program starts from.
//! - [`daemon`] wires store, runtime and agents together; [`ask`] is what it is asked,
//!   [`append`] what is added without asking.
//! - [`summarisers`] says which models write summaries.
//! - [`evaluation`] compacts a conversation to see what is left of it.
//! - [`labels`] picks sessions out, [`retention`] finds and deletes old ones.
//! - [`transcript`] imports and exports conversations.
//! - [`context`] is what a model sees of a branch, for those that only look; [`past`] what a
//!   journal tells of turns and runs, [`why`] what a run was sent, [`hits`] what a search found,
//!   [`outline`] the tree of messages, [`short`] how long things are made short,
//!   [`harmless`] what of a text may reach a terminal, a page or a file.
//! - [`http`] is the daemon for clients, [`mcp`] for those of the Model Context Protocol.
//! - [`metrics`] counts what happens.
//! - [`telemetry`] writes the log, [`init`] a starter project.
//!
//! Faults that a person can put right are [`diagnostic`] values: what, where, what to do.

pub mod agents;
pub mod append;
pub mod ask;
pub mod context;
mod current;
pub mod daemon;
pub mod deployment;
pub mod evaluation;
pub mod hits;
pub mod http;
pub mod labels;
pub mod mcp;
pub mod metrics;
pub mod models;
#[cfg(feature = "otel")]
mod otel;
pub mod outline;
pub mod past;
mod replace;
pub mod retention;
pub mod short;
pub mod spool;
pub mod telemetry;
mod vacuum;
pub mod why;

pub use daemon::Daemon;
