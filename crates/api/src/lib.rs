//! What is said over HTTP under `/v1`, as the types of its JSON.
//!
//! [`session`] and [`message`] are conversations, [`turn`] what is asked of them and what came of
//! it, [`context`] what a model sees of them, [`event`] what happened, [`agent`] who works,
//! [`usage`] what it used, [`page`] a part of a list, [`problem`] why something was not done, and
//! [`openai`] the same for clients of OpenAI's chat completions.
//!
//! Ids are UUIDs as text, digests hexadecimal, times RFC 3339 in UTC, amounts of tokens whole
//! numbers, costs US dollars. A field that is `null` is not known or not there.

pub mod agent;
pub mod context;
pub mod event;
pub mod message;
pub mod openai;
pub mod page;
pub mod problem;
pub mod session;
pub mod turn;
pub mod usage;

pub use page::Page;
pub use problem::{Code, Problem};
