#![doc = include_str!("../README.md")]
//!
//! [`Runtime`] starts the tree and returns [`Handle`]s of sessions; authors of agents implement
//! [`Agent`]. Everything else is internal: the supervisor with the tokenizer, the compactor, a pool
//! per agent with its workers, and one actor per live session.
//!
//! This crate contains mailboxes, bounds, deadlines, cancellation and restarts. It makes no
//! decision about a turn (`unisono-session`) or a context (`unisono-context`).

/// A table of a test: a row a line.
#[cfg(test)]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

pub mod a2a_files;
mod address;
pub mod agent;
pub mod attachments;
mod budget_broker;
pub mod clock;
mod compactor;
mod concurrency;
mod documents;
mod env;
mod error;
mod extensions;
mod failure;
mod fair_queue;
pub mod hook;
mod kinds;
mod limit;
mod load;
pub mod mcp;
pub mod measure;
mod options;
mod pool;
mod pool_port;
mod process;
pub mod replay;
mod reservation;
mod residence;
mod restart;
mod runtime;
mod schema;
mod session;
mod session_port;
mod summarisers;
mod supervisor;
mod tokenizer;
pub mod tool;
pub mod tools;
mod watchdog;
pub mod worker;

/// The actor library of agent kinds, in the version that [`Extensions::actor`] accepts.
pub use ractor;
pub use tokio_util::sync::CancellationToken;

pub use process::reaper;

pub use agent::{Agent, Answer, Ctx, Task};
pub use attachments::AttachmentLimits;
pub use concurrency::LiveRuns;
pub use error::Error;
pub use extensions::Extensions;
pub use failure::Failure;
pub use load::{Gauge, Load, Observer};
pub use options::{Deadline, Options};
pub use residence::ResidenceBounds;
pub use restart::Intensity;
pub use runtime::Runtime;
pub use schema::schema_fault;
pub use session::{
    BegunReplies, Events, Folded, Handle, Progress, ProgressUpdate, SharedEvent, settle,
};
pub use session_port::RecallScope;
pub use summarisers::{Chain, Chains, Summariser};
pub use tool::Tool;
