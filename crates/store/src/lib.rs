#![doc = include_str!("../README.md")]
//!
//! A store holds an append-only journal of opaque payloads per session, fenced by claims, with a
//! hash chain over each. It acknowledges a write only when the write is on disk. What it cannot read
//! it names; it never answers with a wrong value.
//!
//! - [`Memory`] forgets, for tests and throw-away sessions.
//! - [`Disk`] is sled 0.34.7 under the discipline described in its module; [`doctor`], [`repair`] and
//!   [`vacuum`] work on the directory of a closed one, [`ReadOnlyDisk`] on one that cannot be written.
//! - `postgres::Postgres`, behind the feature `postgres`, keeps them in a database.
//! - [`archive`] moves whole sessions between any two engines.
//!
//! [`Journal`] speaks in the events of sessions over any engine.
//!
//! What belongs here: bytes on disk and their safety. What does not: what an event means.

mod admit;
pub mod archive;
mod check;
mod codec;
mod deleted_usage;
mod disk;
mod engine;
mod envelope;
mod error;
mod grants;
mod imports;
mod journal;
mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod private;
mod record;
mod row;
pub mod starts;
pub mod tokens;

pub use check::check;
pub use disk::{
    Checkup, DegradedDisk, Disk, Finding, Loss, Losses, Lost, Opened, ReadOnlyDisk, Salvage,
    acknowledge_losses, doctor, is_store, losses, repair, vacuum,
};
pub use engine::{
    Announcement, Answer, Append, Beat, Checkpoint, Claim, Cluster, DELETED_USAGE, Deletion,
    Engine, Event, Health, MAX_PAYLOAD_BYTES, Member, SessionId, SessionInfo, Space, Vacuumed,
};
pub use error::{Error, Fault, Record, Result, is_full};
pub use grants::Grants;
pub use journal::Journal;
pub use memory::Memory;
