#![doc = include_str!("../README.md")]
//!
//! In the same way a program adds a [`Tool`] and a [`LanguageModel`]; `examples/embed` has all three.
//! An agent may also be an actor, added by [`Extensions::actor`]; the guide
//! `docs/extending.md` shows every way. The command line with such agents in it is
//! `unisono_cli::main`.
//!
//! The modules:
//!
//! - [`agents`] makes a roster of agent definitions, [`models`] what agents and summaries ask.
//! - [`local`] wires store, runtime and agents together, [`service`] answers for it, [`view`] looks
//!   at one session; [`ask`] is what it is asked,
//!   [`append`] what is added without asking, [`spool`] what waits on disk to be imported.
//! - [`evaluation`] compacts a conversation to see what is left of it.
//! - [`conversation`] reads a file in any known format.
//! - [`labels`] picks sessions out, [`retention`] finds and deletes old ones.
//! - [`context`] is what a model sees of a branch; [`history`] reads turns and runs from a
//!   journal, [`why`] the requests of a run; [`search_results`] are the messages that a search
//!   found, [`message_tree`] shows the tree, [`short`] shortens texts.
//! - [`chat`] is a session as the chat of a page.
//! - [`turn_view`] is a turn as clients see it, [`follow`] its progress,
//!   [`client_tools`] the tools that a client brings, [`values`] times and
//!   amounts in JSON.
//! - [`metrics`] counts what happens, [`telemetry`] writes the log.

pub mod agents;
pub mod append;
mod approvals;
pub mod ask;
pub mod chat;
pub mod client_tools;
pub mod context;
pub mod conversation;
mod current;
mod decisions;
mod error;
pub mod evaluation;
pub mod follow;
pub mod history;
pub mod labels;
pub mod local;
pub mod message_tree;
pub mod metrics;
pub mod models;
#[cfg(feature = "otel")]
mod otel;
pub mod replace;
pub mod retention;
pub mod search_results;
pub mod service;
pub mod short;
mod skill_tool;
pub mod spool;
#[cfg(feature = "log")]
pub mod telemetry;
pub mod turn_view;
pub mod vacuum;
pub mod values;
pub mod view;
pub mod why;

pub use ask::{Ask, Finished};
pub use conversation::{Conversation, parse_conversation, read_conversation};
pub use error::{Error, NotChanged};
pub use local::{Builder, Local};
/// The crates beneath this one: every type of a public signature has a path in here.
pub mod parts {
    pub use unisono_api as api;
    pub use unisono_config as config;
    pub use unisono_context as context;
    pub use unisono_interchange as interchange;
    pub use unisono_model as model;
    pub use unisono_runtime as runtime;
    pub use unisono_search as search;
    pub use unisono_session as session;
    pub use unisono_store as store;
}

pub use unisono_api as api;
pub use unisono_api::Service;
pub use unisono_context::snapshot::ToolSpec;
pub use unisono_context::{Message, Ordinal, Part, Role, Snapshot, SnapshotId, Tokens};
pub use unisono_model::language;
pub use unisono_model::language::{Completion, LanguageModel, Reply, Request};
pub use unisono_runtime::{
    Agent, Answer, Ctx, Extensions, Failure, Handle, Runtime, Task, Tool, ractor, reaper, tool,
    worker,
};
pub use unisono_session::event::Outcome;
pub use unisono_session::machine::Import;
pub use unisono_session::run::{Cause, Ending, Usage};
pub use unisono_session::tool::Contract;
pub use unisono_session::{Definition, State};
