//! The values of a conversation: tables, goldens and properties.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod cases;
mod chat;
mod delegated;
mod identity;
mod limits;
mod parts;
mod pins;
mod plans;
mod properties;
mod revert;
mod small_windows;
mod tier_room;
mod tiers;
mod tree;
