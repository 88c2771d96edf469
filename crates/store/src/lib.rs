#![doc = include_str!("../README.md")]
//!
//! A store holds an append-only journal of opaque payloads per session, fenced by claims, each with
//! a hash chain. It acknowledges a write only when the write is on disk. Data that it cannot read
//! it reports by name; it never returns a wrong value.
//!
//! - [`Memory`] keeps everything in memory, for tests and throw-away sessions.
//! - [`Disk`] is sled 0.34.7, used under the rules described in its module; [`doctor`], [`repair`]
//!   and [`vacuum`] work on the directory of a closed store, [`ReadOnlyDisk`] on one that cannot be
//!   written.
//! - `postgres::Postgres`, enabled by the feature `postgres`, keeps the journals in a PostgreSQL
//!   database.
//! - [`archive`] moves whole sessions between any two engines.
//!
//! [`Journal`] reads and writes the events of sessions over any engine.
//!
//! This crate is responsible for bytes on disk and their safety. It does not interpret events.

mod admit;
mod append_times;
pub mod archive;
pub mod audit;
mod blobs;
mod check;
mod codec;
mod contents;
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
mod session_id;
mod shared_journal;
pub mod starts;
pub mod tokens;

pub use append_times::{AppendHistogram, AppendTimes};
pub use blobs::{BlobTotals, MAX_BLOB_BYTES};
pub use check::check;
pub use disk::{
    Checkup, DegradedDisk, Disk, Finding, Loss, Losses, LostData, OpenedDisk, ReadOnlyDisk,
    Salvage, acknowledge_losses, doctor, is_store, losses, repair, vacuum,
};
pub use engine::{
    Announcement, Append, Beat, Checkpoint, Claim, Cluster, DELETED_USAGE, Deletion, Document,
    Engine, EngineFuture, Event, Health, MAX_PAYLOAD_BYTES, Member, ProviderPause, SessionId,
    SessionInfo, Space, Vacuumed,
};
pub use error::{Error, Fault, Record, Result, is_full};
pub use grants::Grants;
pub use journal::Journal;
pub use memory::Memory;
