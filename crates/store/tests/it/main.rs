//! Tests of the store's guarantees with real files, real processes and a simulated power cut.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test ends where something is not as it must be"
)]

/// The value, or the end of the test if this machine has none.
#[cfg(feature = "postgres")]
macro_rules! needs {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return,
        }
    };
}

#[cfg(feature = "postgres")]
mod absence;
mod archive;
mod blobs;
mod child;
mod conformance;
mod damage;
mod directory;
mod faults;
#[cfg(feature = "postgres")]
mod full_database;
mod full_disk;
#[cfg(feature = "postgres")]
mod hosts;
mod kill;
#[cfg(feature = "postgres")]
mod members;
mod memory;
mod model;
mod online;
#[cfg(feature = "postgres")]
mod pooler;
#[cfg(feature = "postgres")]
mod postgres;
mod power_cut;
#[cfg(feature = "postgres")]
mod reads;
#[cfg(feature = "postgres")]
mod rights;
#[cfg(feature = "postgres")]
mod schemas;
#[cfg(feature = "postgres")]
mod sharing;
mod shim;
