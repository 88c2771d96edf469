#![doc = include_str!("../README.md")]
//!
//! - [`transcript`] reads and writes conversations.
//! - [`agents`] reads agents of other programs as definitions of ours.

pub mod agents;
pub mod transcript;
