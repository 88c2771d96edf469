#![doc = include_str!("../README.md")]
//!
//! - [`settings`] reads the settings of all layers with their origins.
//! - [`providers`] lists the available providers of models.
//! - [`agents`] reads agent definitions into a roster.
//! - [`setup`] does both at once: the starting point of a program.
//! - [`summarisers`] lists the models that write summaries.
//! - [`skills`] reads folders that explain how to do a kind of task.
//! - [`automation`] has the turns that begin by themselves, and their times.
//! - [`init`] writes a starter project.
//! - [`log`] checks the level of the log.
//!
//! Errors that a person can correct are [`diagnostic`] values: what, where, what to do.

/// A table of a test: a row a line.
#[cfg(test)]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

pub mod agents;
pub mod automation;
pub mod diagnostic;
pub mod document;
pub mod init;
pub mod log;
pub mod paths;
pub mod project;
pub mod providers;
mod schema;
pub mod settings;
pub mod setup;
pub mod skills;
pub mod summarisers;
pub mod telemetry;
mod thresholds;
