//! The server over real sockets, and its answers as goldens.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "all of this crate is test code"
)]

mod caching;
mod client;
mod delivery;
mod faults;
mod goldens;
mod receiving;
mod waiting;
