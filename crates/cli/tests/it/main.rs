//! The program as a person calls it: the real binary, in stores and projects of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

/// A table of a test: a row a line.
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

/// The value, or the end of the test if this machine has none.
macro_rules! needs {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return,
        }
    };
}

mod a2a;
mod a2a_agents;
mod a2a_callbacks;
mod a2a_faults;
mod acp;
mod acp_agents;
mod acp_loading;
mod acp_permissions;
mod acp_servers;
mod agents;
mod appending;
mod asking;
mod attachments;
mod audit;
mod book;
mod bounds;
mod budget;
mod cache;
mod cancelling;
mod chat;
mod checkpoint_pages;
mod choosing;
mod client_tools;
mod cluster;
mod cluster_drain;
mod cluster_outages;
mod cluster_schedules;
mod cluster_shared;
mod compacting;
mod completion;
mod continuing;
mod conversations;
mod database;
mod delegation;
mod deploy;
mod drain;
mod ephemeral;
mod eval;
mod every_verb;
mod expired_tokens;
mod exports;
mod fallbacks;
mod guide;
mod held;
mod held_calls;
mod hooks;
mod http;
mod http_agents;
mod ids;
mod import_agents;
mod importing;
mod interrupted;
mod keeping;
mod limits;
mod lists;
mod looking_back;
mod markdown;
mod mcp;
mod mcp_looking;
mod mcp_tasks;
mod mcp_waiting;
mod metrics;
mod moving;
mod openai_form;
#[cfg(feature = "otel")]
mod otel;
mod others;
mod own_servers;
mod own_settings;
mod page_sizes;
mod people;
mod pins;
mod pipeline;
mod places;
mod preparing;
mod project;
mod providers;
mod purge;
mod recalling;
mod receiving;
mod reloading;
mod revert;
mod rounds;
mod run;
mod running;
mod schedules;
mod search;
mod serve;
mod serve_again;
mod serve_attacks;
mod serve_load;
mod serve_page;
mod serve_routes;
mod server_skills;
mod settings;
mod skills;
mod small_disk;
mod small_windows;
mod steering;
mod summaries;
mod support;
mod terminal;
mod tool_files;
mod tool_tasks;
mod tools;
mod topics;
mod trace;
mod triggers;
mod ui_chat;
mod verbs;
