#![doc = include_str!("../README.md")]
//!
//! - [`http`] is `/v1`, an endpoint for OpenAI's clients, and the page; [`deployment`] checks the
//!   settings it is run with.
//! - [`mcp`] is the server of the Model Context Protocol; `a2a` that of the Agent2Agent protocol.

/// A table of a test: a row a line.
#[cfg(test)]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

mod a2a;
mod audit;
mod body_share;
pub mod deployment;
mod forwarded;
pub mod http;
pub mod mcp;
mod turn_follower;
mod waiting;
