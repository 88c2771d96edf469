//! End-to-end scenarios, and the rules of the house.

#![allow(clippy::expect_used, reason = "all of this crate is test code")]

mod attachments;
mod budget;
mod cancelling;
mod crash;
mod delegation;
mod exports;
mod fan_out;
mod overflow;
mod pins;
mod prewarm;
mod recall;
mod registry;
mod schema;
mod shape;
mod supervision;
mod tidy;
mod turn;
