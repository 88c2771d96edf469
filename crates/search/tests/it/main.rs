//! The index against naive searches, and through kills and damage, in real directories.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod damage;
mod days;
mod kill;
mod naive;
mod odd;
mod probes;
mod support;
