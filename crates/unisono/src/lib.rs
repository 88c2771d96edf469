#![doc = include_str!("../README.md")]
//!
//! A program adds a [`Tool`] and a [`LanguageModel`] in the same way; `examples/embed` has all
//! three. An agent may also be an actor, added by [`Extensions::actor`]; the guide
//! `docs/extending.md` shows every kind. `unisono_cli::main` is the command line with such agents.
//!
//! The modules:
//!
//! - [`agents`] makes a roster of agent definitions, [`models`] the models of agents and summaries.
//! - [`local`] connects store, runtime and agents, [`service`] implements the service on it,
//!   [`view`] inspects one session; [`ask`] has the requests to a session, [`append`] messages
//!   without a turn, [`spool`] stores data on disk before its import.
//! - [`evaluation`] compacts a conversation to measure the result.
//! - [`conversation`] reads a file in any known format.
//! - [`labels`] selects sessions, [`retention`] finds and deletes old ones.
//! - [`context`] shows the context of a branch; [`history`] reads turns and runs from a journal,
//!   [`why`] the requests of a run; [`message_tree`] shows the tree, [`fmt`] shortens texts.
//! - [`approvals`] are the calls that wait for a person.
//! - [`chat`] is a session as the chat of a page, [`tasks`] are turns as the tasks of other programs.
//! - [`turn_view`] is a turn in the types of the API, [`follow`] its progress, [`client_tools`] the
//!   tools of a client, [`values`] times and amounts in JSON.
//! - [`caller`] is who asks, [`tokens`] are those of people and programs.
//! - [`automation`] begins turns at times, and when other programs ask.
//! - [`metrics`] counts events, [`telemetry`] writes the log.

/// A table of a test: a row a line.
#[cfg(test)]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

pub mod agents;
pub mod append;
pub mod approvals;
pub mod ask;
pub mod attachments;
pub mod audit;
pub mod automation;
pub mod caller;
pub mod chat;
pub mod client_tools;
pub mod context;
pub mod conversation;
mod current;
mod decisions;
mod error;
pub mod evaluation;
mod first_messages;
#[cfg(test)]
mod fixture;
pub mod fmt;
pub mod follow;
mod health;
pub mod history;
pub mod labels;
pub mod local;
pub mod message_tree;
pub mod metrics;
pub mod models;
#[cfg(feature = "otel")]
mod otel;
pub mod retention;
mod search_results;
mod server_skills;
pub mod service;
mod skill_tool;
pub mod spool;
mod starts;
pub mod tasks;
#[cfg(feature = "log")]
pub mod telemetry;
mod timeline;
pub mod tokens;
mod turn_budgets;
pub mod turn_view;
pub mod vacuum;
pub mod values;
pub mod view;
mod waiting_sessions;
pub mod why;

pub use bytes::Bytes;
pub use serde_json;
pub use toml;

pub use ask::{Ask, FinishedTurn};
pub use conversation::{Conversation, parse_conversation, read_conversation};
pub use error::{ChangeError, Error};
pub use local::{Builder, Local};
/// The crates beneath this one: each of their types in a public signature has a path in here.
pub mod parts {
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
pub use unisono_model::client::{Callback, DeliveryError, Download};
pub use unisono_model::language;
pub use unisono_model::language::{Completion, LanguageModel, Reply, Request};
pub use unisono_runtime::{
    Agent, Answer, CancellationToken, Ctx, Extensions, Failure, Handle, Runtime, Task, Tool,
    ractor, reaper, tool, worker,
};
pub use unisono_session::event::Outcome;
pub use unisono_session::machine::Import;
pub use unisono_session::run::{Ending, RunCause, Usage};
pub use unisono_session::tool::Contract;
pub use unisono_session::{Definition, State};
