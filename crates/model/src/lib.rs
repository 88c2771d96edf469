#![doc = include_str!("../README.md")]
//!
//! - [`tokenizer`] counts tokens exactly, in parallel, and never panics on hostile text.
//! - [`catalogue`] has each model's window, prices and defaults.
//! - [`extractive`] is the offline model: it summarises and answers with quotes.
//! - [`retention`] measures which facts a kept text still contains.
//! - [`redact`] removes credentials from text that is kept.
//! - [`summariser`] lets language models write summaries: prompts, parts, checks of replies.
//! - [`prompt`] renders the context that agents share, once, and each agent's own tail.
//! - [`cache_warming`] lets one request of a fan-out write the provider's cache before the others
//!   are sent.
//! - [`language`] is the interface of a model: a request in, a reply out. [`call_limit`] leaves out
//!   excess calls of a reply.
//! - [`remote`] is a model at a provider: its dialect, its cache and its prices.
//! - [`provider`] is a provider as settings, [`client`] the one way to every provider.
//!
//! Everything except [`language`], [`remote`] and [`client`] is blocking and free of clocks and
//! randomness; the runtime crate calls it on its own threads.

/// A table: a row a line.
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

pub mod cache_warming;
pub mod calibration;
pub mod call_limit;
pub mod catalogue;
pub mod client;
pub mod date;
pub mod dialect;
pub mod estimate;
pub mod extractive;
#[cfg(test)]
mod fixture;
pub mod language;
pub mod media;
pub mod prompt;
pub mod provider;
pub mod redact;
pub mod remote;
pub mod retention;
pub mod served;
pub mod sse;
pub mod summariser;
mod think;
pub mod tokenizer;

pub use catalogue::{Catalogue, Entry, ModelRef};
pub use tokenizer::Tokenizer;
