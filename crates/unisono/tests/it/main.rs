//! Settings, agents and transcripts as files on a disk.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where something is not as it must be"
)]

/// A table of a test: a row a line.
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

mod agents;
mod arbitrary;
mod config;
mod embedded;
mod following;
mod own_settings;
mod providers;
mod sandbox;
mod summarisers;
mod transcript;
mod transcript_round_trip;
