#![doc = include_str!("../README.md")]
//!
//! Nothing in this crate reads a clock, draws a random number, does I/O or awaits. Time, ids and
//! token counts arrive as arguments, so that every decision can be replayed from a journal.
//!
//! Read in this order: [`message`] and [`tree`] (the conversation), [`checkpoint`] and
//! [`alteration`] (compacted content), [`topic`] (ranges about one subject), [`view`] (the active
//! content of a branch), [`budget`] and [`policy`] (the limits), [`compaction`] (the planner),
//! [`snapshot`] (the frozen context).

pub mod alteration;
pub mod attachment;
pub mod budget;
pub mod call;
pub mod checkpoint;
pub mod compaction;
pub mod cost;
pub mod digest;
pub mod ids;
pub mod message;
mod names;
pub mod policy;
pub mod snapshot;
mod span;
pub mod tokens;
pub mod topic;
pub mod tree;
pub mod view;

pub use cost::Cost;
pub use digest::Digest;
pub use ids::{
    AgentId, CallId, CheckpointId, MessageId, Ordinal, RunId, SessionId, Timestamp, TurnId,
};
pub use message::{Message, Part, Role};
pub use snapshot::{Snapshot, SnapshotId};
pub use tokens::{Encoding, Ppm, Tokens};
pub use tree::Tree;
