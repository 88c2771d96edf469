#![doc = include_str!("../README.md")]
//!
//! The index is beside the journal and is derived from it: it is rebuilt whenever it is lost,
//! damaged, or of another version. [`Search`] maintains it and answers searches; [`Query`] parses a
//! person's query; [`Search::recall`] is the search for agents, limited to their branch.
//!
//! This crate contains tantivy, and everything about words. It does not decide access (the caller
//! names the branch), and does not contain the text itself (the journal does).
//!
//! Without the feature `index` there is no tantivy in the build, and every search fails with
//! [`Error::NotBuilt`].

#[cfg(not(feature = "index"))]
mod absent;
mod answer;
mod branch;
#[cfg(feature = "index")]
mod cancel;
#[cfg(feature = "index")]
mod catch_up;
#[cfg(feature = "index")]
mod collected;
mod committed;
mod directory;
mod error;
mod excerpt;
#[cfg(feature = "index")]
mod find;
#[cfg(feature = "index")]
mod follow;
#[cfg(feature = "index")]
mod guarded;
#[cfg(feature = "index")]
mod index;
#[cfg(feature = "index")]
mod joined;
#[cfg(feature = "index")]
mod letters;
#[cfg(feature = "index")]
mod named;
#[cfg(feature = "index")]
mod private_directory;
mod query;
#[cfg(feature = "index")]
mod recall;
#[cfg(feature = "index")]
mod service;
#[cfg(feature = "index")]
mod shared;
mod times;
#[cfg(feature = "index")]
mod windows;
#[cfg(feature = "index")]
mod within;
#[cfg_attr(not(feature = "index"), path = "absent/words.rs")]
mod words;
#[cfg(feature = "index")]
mod writer;

#[cfg(not(feature = "index"))]
pub use absent::{Search, compact};
pub use answer::{Answer, Condition, FoundMessage, RecallResult, Scope};
pub use branch::Branch;
pub use committed::{CommittedMessages, PlacedMessage};
pub use directory::{directory, remove};
pub use error::{Error, Result};
pub use excerpt::{Excerpt, excerpt};
pub use query::{Clause, Filters, MAX_BYTES, MAX_TERMS, Occurrence, Query, TooLarge, role};
#[cfg(feature = "index")]
pub use service::{Search, compact};
pub use times::{Bound, instant};
