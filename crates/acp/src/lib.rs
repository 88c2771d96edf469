#![doc = include_str!("../README.md")]

mod client;
mod connection;
mod content;
mod permission;
mod prompt;
mod protocol;
mod sessions;
mod updates;

pub use connection::serve;
