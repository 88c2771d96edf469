#![doc = include_str!("../README.md")]
//!
//! Nothing in this crate reads a clock, draws a random number, does I/O or awaits. Time, ids
//! and token counts arrive as arguments, so that every decision can be replayed from a journal.
//!
//! Read in this order: [`message`] and [`tree`] (what was said), [`checkpoint`] and
//! [`alteration`] (what was compacted), [`topic`] (what belongs together), [`view`] (what is active on a branch), [`budget`] and
//! [`policy`] (what may be used), [`compaction`] (what to do about it), [`snapshot`] (what the
//! models see).

pub mod alteration;
pub mod budget;
pub mod call;
pub mod checkpoint;
pub mod compaction;
pub mod cost;
pub mod digest;
pub mod ids;
pub mod message;
pub mod policy;
pub mod snapshot;
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
