#![doc = include_str!("../README.md")]
//!
//! Conversations are in [`session`] and [`message`]; tasks and their outcomes in [`turn`],
//! [`delegation`], [`run`] and [`timeline`]; the model's context in [`context`], [`compaction`], [`topic`] and
//! [`pin`]. [`search`] finds messages. [`event`] has the events of sessions, [`turn_event`] the
//! live updates of a turn, [`approval`] tool calls that wait for a person, [`tool_server`] the tool servers that a client brings, [`agent`] the agents,
//! [`cluster`] the programs on one database, [`usage`] tokens and costs, [`audit`] who changed what, [`settings`] the settings, [`page`] the pages of lists. [`problem`]
//! describes errors, and [`openai`] is the interface for OpenAI's clients. [`harmless`] and
//! [`fmt`] prepare values for people.
//!
//! Ids are UUIDs as text, digests hexadecimal, times RFC 3339 in UTC, amounts of tokens whole
//! numbers, costs US dollars. A field that is `null` is unknown or absent.

pub mod agent;
pub mod approval;
pub mod audit;
pub mod blob;
pub mod chat;
pub mod cluster;
pub mod compaction;
pub mod context;
pub mod delegation;
pub mod event;
pub mod fmt;
pub mod harmless;
pub mod message;
pub mod openai;
pub mod page;
pub mod pin;
pub mod problem;
pub mod run;
pub mod schedule;
pub mod search;
pub mod service;
pub mod session;
pub mod settings;
pub mod store;
pub mod timeline;
pub mod token;
pub mod tool_server;
pub mod topic;
pub mod turn;
pub mod turn_event;
pub mod usage;

pub use page::{Page, PageQuery};
pub use problem::{Code, Problem};
pub use service::Service;
