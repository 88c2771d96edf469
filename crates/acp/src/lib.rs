#![doc = include_str!("../README.md")]

mod client;
mod commands;
mod connection;
mod content;
mod lines;
mod permission;
mod prompt;
mod protocol;
mod replay;
mod sessions;
mod tool_servers;
mod updates;

pub use connection::{LONGEST_MESSAGE, serve};
pub use lines::{BadLine, Lines};
