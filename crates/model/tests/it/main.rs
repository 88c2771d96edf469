//! The offline model, its summaries and answers, and the catalogue.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

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
