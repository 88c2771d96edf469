//! The offline model, its summaries and answers, and the catalogue.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

/// A table of a test: a row a line.
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

mod answers;
mod asked;
mod caps;
mod catalogue;
mod conversation;
mod corrected;
mod extractive;
mod questions;
mod results;
mod retention;
mod rolling;
