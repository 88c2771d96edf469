#![doc = include_str!("../README.md")]
//!
//! - [`transcript`] reads and writes conversations.
//! - [`agents`] converts agents of other programs to our definitions.

/// A table of a test: a row a line.
#[cfg(test)]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

pub mod agents;
pub mod transcript;
