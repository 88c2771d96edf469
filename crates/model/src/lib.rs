#![doc = include_str!("../README.md")]
//!
//! - [`tokenizer`] counts tokens exactly, in parallel, and never panics on hostile text.
//! - [`catalogue`] knows each model's window, prices and defaults.
//! - [`extractive`] is the offline model: it summarises and answers by quoting.
//! - [`retention`] measures which facts a kept text still holds.
//! - [`redact`] removes credentials from text that is kept.
//! - [`summariser`] has language models write summaries: prompts, parts, checks of replies.
//! - [`prompt`] renders the context that agents share, once, and what each is sent besides.
//! - [`cache_warming`] lets one request of a fan-out write the provider's cache before the others are sent.
//! - [`language`] is what a model is to its caller: a request in, a reply out.
//! - [`provider`] is a provider as settings, [`client`] the one way to every provider.
//!
//! All but [`language`] and [`client`] is blocking and free of clocks and randomness; the runtime
//! crate calls it on threads of its own.

pub mod cache_warming;
pub mod calibration;
pub mod catalogue;
pub mod client;
pub mod date;
pub mod dialect;
pub mod estimate;
pub mod extractive;
#[cfg(test)]
mod fixture;
pub mod language;
pub mod prompt;
pub mod provider;
pub mod redact;
pub mod retention;
pub mod served;
pub mod sse;
pub mod summariser;
mod think;
pub mod tokenizer;

pub use catalogue::{Catalogue, Entry, ModelRef};
pub use tokenizer::Tokenizer;
