//! Conversations in and out of other formats, and agents of other programs.
//!
//! - [`transcript`] reads and writes conversations.
//! - [`agents`] reads agents of other programs as definitions of ours.

pub mod agents;
pub mod transcript;
