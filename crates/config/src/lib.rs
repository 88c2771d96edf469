#![doc = include_str!("../README.md")]
//!
//! - [`settings`] reads the settings of all layers and says where each came from.
//! - [`providers`] says of whom models can be asked.
//! - [`agents`] reads agent definitions into a roster.
//! - [`setup`] does both at once: what a program starts from.
//! - [`summarisers`] says which models write summaries.
//! - [`skills`] reads folders that say how a kind of task is done.
//! - [`init`] writes a starter project.
//!
//! Faults that a person can put right are [`diagnostic`] values: what, where, what to do.

pub mod agents;
pub mod diagnostic;
pub mod document;
pub mod init;
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
