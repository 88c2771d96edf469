//! What the benchmarks share: conversations to measure on, samples, and the table they print.
//!
//! Each file in `benches/` measures one promise and prints its rows as markdown; README.md holds
//! the rows of a quiet machine. What is compared is measured in turns in one run, so that a
//! machine that slows down meets both sides.
#![allow(
    clippy::expect_used,
    reason = "a measurement ends where it cannot go on"
)]

pub mod appending;
pub mod bare;
pub mod conversation;
pub mod counting;
pub mod daemon;
pub mod memory;
pub mod parts;
pub mod remote;
pub mod samples;
pub mod stub;
pub mod table;
pub mod team;
pub mod usage;

pub use conversation::Conversation;
pub use samples::{Samples, in_turns, measure};
pub use table::{Table, bytes, time};
