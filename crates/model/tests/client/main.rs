//! Tests of the client with a scripted provider over real sockets: what it sends, how it handles
//! every fault, and that it always ends in time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is test code"
)]

/// A table of a test: a row a line.
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

mod cuts;
mod faults;
mod http2;
mod keys;
mod lost;
mod replies;
mod setup;
mod shared;
mod timeouts;
mod trust;
