#![doc = include_str!("../README.md")]
//!
//! [`session`] and [`message`] are conversations, [`turn`], [`delegation`] and [`run`] what is asked
//! of them and what came of it, [`context`], [`compaction`], [`topic`] and [`pin`] what a model sees
//! of them, [`search`] what was said, [`event`] what happened,
//! [`turn_event`] how a turn goes on, [`approval`] what waits for a person,
//! [`agent`] who works, [`usage`] what it used, [`settings`] what is set, [`page`] a part of a list,
//! [`problem`] why something was not done, and [`openai`] the same for OpenAI's clients. [`harmless`]
//! and [`short`] prepare values for people.
//!
//! Ids are UUIDs as text, digests hexadecimal, times RFC 3339 in UTC, amounts of tokens whole
//! numbers, costs US dollars. A field that is `null` is not known or not there.

pub mod agent;
pub mod approval;
pub mod chat;
pub mod compaction;
pub mod context;
pub mod delegation;
pub mod event;
pub mod harmless;
pub mod message;
pub mod openai;
pub mod page;
pub mod pin;
pub mod problem;
pub mod run;
pub mod search;
pub mod service;
pub mod session;
pub mod settings;
pub mod short;
pub mod store;
pub mod topic;
pub mod turn;
pub mod turn_event;
pub mod usage;

pub use page::{Page, PageQuery};
pub use problem::{Code, Problem};
pub use service::Service;
