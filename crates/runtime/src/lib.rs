#![doc = include_str!("../README.md")]
//!
//! [`Runtime`] starts the tree and returns [`Handle`]s of sessions; authors of agents implement
//! [`Agent`]. Everything else is internal: the supervisor with the tokenizer, the compactor, a pool
//! per agent with its workers, and one actor per live session.
//!
//! This crate contains mailboxes, bounds, deadlines, cancellation and restarts. It makes no
//! decision about a turn (`unisono-session`) or a context (`unisono-context`).

mod address;
pub mod agent;
pub mod attachments;
mod budget_broker;
pub mod clock;
mod compactor;
mod concurrency;
mod documents;
mod extensions;
mod fair_queue;
pub mod hook;
mod limit;
mod load;
pub mod mcp;
pub mod measure;
mod pool;
mod process;
pub mod replay;
mod reservation;
mod residence;
mod restart;
mod runtime;
mod schema;
mod session;
mod session_port;
mod supervisor;
mod tokenizer;
pub mod tool;
pub mod tools;
mod watchdog;
pub mod worker;

/// The actor library of agent kinds, in the version that [`Extensions::actor`] accepts.
pub use ractor;

pub use process::{find_program, is_inherited, reaper};

pub use agent::{Agent, Answer, Ctx, Failure, Task};
pub use attachments::AttachmentLimits;
pub use compactor::{Chain, Chains, Deadline, Summariser};
pub use concurrency::LiveRuns;
pub use extensions::Extensions;
pub use load::{Gauge, Load, Observer};
pub use residence::ResidenceBounds;
pub use restart::Intensity;
pub use runtime::{Error, Options, Runtime};
pub use schema::schema_fault;
pub use session::{
    Events, Folded, Handle, Progress, ProgressUpdate, RecallScope, SharedEvent, settle,
};
pub use tool::Tool;
