#![doc = include_str!("../README.md")]
//!
//! - [`transcript`] reads and writes conversations.
//! - [`agents`] converts agents of other programs to our definitions.

pub mod agents;
pub mod transcript;
