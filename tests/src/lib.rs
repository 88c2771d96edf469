//! Building blocks of the end-to-end scenarios: agents that count their work, a store that stops
//! at a chosen event as a killed process would, and a builder that puts them together.

#![allow(clippy::expect_used, reason = "all of this crate is test code")]

pub mod agents;
pub mod halting;
pub mod scenario;
pub mod wire;

pub use scenario::{Scenario, scenario};
