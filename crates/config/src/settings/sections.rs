//! The tables of the configuration without a separate file here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use unisono_context::Ppm;
use unisono_runtime::{AttachmentLimits, RecallScope};
use unisono_session::event::DelegationLimits;

/// The store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Store {
    /// Directory of the journal, absolute. With a database: of the search index and local settings.
    pub path: PathBuf,
    /// The database that holds the journal; none: the directory does. May contain a password.
    pub url: Option<String>,
    /// The file with the database's password.
    pub password_file: Option<PathBuf>,
    /// The location of the full-text index.
    pub search_index: SearchIndex,
    /// Days without a change after which a session is deleted; 0: none is.
    pub retention_days: u32,
    /// Whether a daemon frees the disk space of deleted data.
    pub vacuum: Vacuum,
    /// The interval of its checks.
    pub vacuum_every_seconds: u64,
    /// The minimum excess of the journal, in MiB.
    pub vacuum_over_mib: u64,
    /// The copy rate, in MiB per second.
    pub vacuum_mib_per_second: u64,
}

/// Whether a daemon vacuums its store automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vacuum {
    /// If it frees enough space.
    Auto,
    /// Only on request.
    Off,
}

/// The location of the full-text index of all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchIndex {
    /// Beside the journal, from which it is derived.
    Disk,
    /// In memory, built for each search.
    Memory,
}

/// Models.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Models {
    /// The model of agents that name no model; [`AUTO`](super::AUTO): that of the first provider
    /// with an API key.
    pub default: String,
    /// The model of every agent that uses one, whatever model it names.
    #[serde(rename = "override")]
    pub instead: Option<String>,
    /// Models that are asked, in this order, if the agent's own model is unavailable.
    pub fallback: Vec<String>,
    /// A catalogue above the built-in one, absolute.
    pub catalogue: Option<PathBuf>,
}

/// The agents of a turn, and the limits of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Turn {
    /// The agent that answers.
    pub lead: String,
    /// The agents that work before it, or that it may choose from; each `agent` or `agent=task`.
    pub agents: Vec<String>,
    /// Seconds from the input to the answer.
    pub timeout_seconds: u64,
    /// Maximum tool calls of one reply.
    pub calls_per_reply: u32,
    /// Maximum bytes of `AGENTS.md` files in the system text; 0: none.
    pub agents_md_bytes: u64,
    /// Maximum bytes of the list of skills in the system text; 0: no list, and no tool to read
    /// skills.
    pub skills_bytes: u64,
}

impl Turn {
    /// The maximum time from the input to the answer.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}

/// Limits of delegation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Delegation {
    /// Number of levels below the lead.
    pub depth: u32,
    /// Maximum open runs of a turn, the lead's included.
    pub live_runs: u32,
    /// Share of an agent's tokens for the conversation that is reserved for results of its
    /// delegates.
    pub results_share: f64,
}

impl Delegation {
    /// The limits of a turn.
    pub fn limits(&self) -> DelegationLimits {
        DelegationLimits {
            depth: self.depth,
            live_runs: self.live_runs,
            // The share was checked when it was read.
            results: Ppm::from_fraction(self.results_share).unwrap_or(DelegationLimits::RESULTS),
        }
    }
}

/// Defaults of agents.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AgentDefaults {
    /// Maximum model calls of one run.
    pub max_model_calls: u32,
    /// Time for one attempt, as written: `"2m"`, or seconds.
    pub timeout: TimeText,
    /// Attempts after the first.
    pub retries: u32,
    /// Maximum active runs of one agent.
    pub max_concurrent: u32,
}

/// A time as people write it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum TimeText {
    /// Seconds.
    Seconds(u64),
    /// `"500ms"`, `"30s"`, `"2m"`, `"1h"`.
    Text(String),
}

impl TimeText {
    /// The milliseconds; checked when the configuration was read.
    pub fn ms(&self) -> u64 {
        match self {
            TimeText::Seconds(seconds) => seconds.saturating_mul(1_000),
            TimeText::Text(text) => crate::schema::duration_ms(text).unwrap_or(u64::MAX),
        }
    }
}

/// Limits of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Runtime {
    /// Maximum runs that wait for one agent; more are refused.
    pub queue_per_agent: u32,
    /// Maximum requests that wait for one session; for more, it is busy.
    pub queue_per_session: u32,
    /// Maximum simultaneous compactions.
    pub compactions: u32,
    /// Maximum waiting compactions.
    pub compaction_queue: u32,
    /// Maximum simultaneous counting jobs, one thread each.
    pub countings: u32,
    /// Seconds without progress after which an attempt counts as stuck.
    pub stuck_after_seconds: u64,
    /// Seconds of idle time after which a session leaves memory.
    pub passivate_after_seconds: u64,
    /// Maximum sessions in memory; working sessions always stay.
    pub sessions_in_memory: u32,
    /// Total bytes of messages of all sessions in memory.
    pub session_bytes_in_memory: u64,
    /// The scope of the tool `recall`.
    pub recall: RecallScope,
}

/// The daemon over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// The address to listen on.
    pub bind: SocketAddr,
    /// Whether other machines may reach that address.
    pub allow_remote: bool,
    /// Host names that requests may use, besides its own address and `localhost`.
    pub hosts: Vec<String>,
    /// The address by which others reach it, with its scheme; empty: the host of a request.
    pub public_url: String,
    /// Hosts that may receive callbacks, as names or addresses; none: no callbacks.
    pub callback_hosts: Vec<String>,
    /// The agents with a card and an address of their own; none: all.
    pub a2a_agents: Vec<String>,
    /// The token file, absolute.
    pub token_file: PathBuf,
    /// Maximum simultaneous requests; more get 429.
    pub requests: u32,
    /// Maximum simultaneous event streams; more get 429.
    pub streams: u32,
    /// Maximum requests per second, of all clients together, also at once; 0: no limit.
    pub requests_per_second: u32,
    /// Maximum requests per minute of each token of a person or program, also at once; 0: no limit.
    pub token_requests_per_minute: u32,
    /// The header by which a proxy that carries the daemon's token names the person; empty: none.
    pub trusted_user_header: String,
    /// The scope of people whom a proxy names.
    pub trusted_user_scope: UserScope,
    /// Maximum simultaneous connections; further ones only get health checks.
    pub connections: u32,
    /// Maximum bytes of a request's body.
    pub body_limit_bytes: u32,
    /// Maximum bytes of the bodies of all requests in progress.
    pub bodies_bytes: u64,
    /// Maximum messages of an imported conversation.
    pub import_messages: u32,
    /// Seconds without progress in either direction after which a client's connection is closed.
    pub stall_seconds: u64,
    /// Seconds for requests in progress when the program stops.
    pub drain_seconds: u64,
    /// The time that MCP clients with task support wait for an answer before they get a task.
    pub mcp_task_after: TimeText,
    /// The treatment of images and files from OpenAI's clients.
    pub attachments: Attachments,
    /// Seconds between checks of the files that define agents; 0: they are read only on request.
    pub reload_seconds: u64,
}

/// The scope of people whom a proxy names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserScope {
    /// To look.
    Read,
    /// To give sessions tasks, too.
    #[default]
    Ask,
    /// To decide about tool calls, too.
    Approve,
}

/// The treatment of an image or a file in a request: models do not get them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attachments {
    /// The request is refused.
    #[default]
    Refuse,
    /// A note with name, type and size replaces it.
    Note,
}

/// Images and documents in messages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AttachmentSettings {
    /// Bytes of one at most.
    pub max_bytes: u64,
    /// Bytes of all of a session at most.
    pub session_bytes: u64,
    /// Bytes of all of the store at most.
    pub store_bytes: u64,
    /// Hosts from which files of requests are downloaded; empty: downloads are off.
    pub allowed_hosts: Vec<String>,
}

impl AttachmentSettings {
    /// The limits of the runtime.
    pub const fn limits(&self) -> AttachmentLimits {
        AttachmentLimits {
            each: self.max_bytes,
            session: self.session_bytes,
            store: self.store_bytes,
        }
    }
}

/// Several programs on one database.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Cluster {
    /// The address at which other daemons reach this one, as `http://host:port`; none: its listen
    /// address.
    pub address: Option<String>,
    /// The time without a sign of life after which a program counts as gone.
    pub takeover_after: TimeText,
}

/// Messages on stderr.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Log {
    /// A level, or directives per module.
    pub level: String,
    /// Their form.
    pub format: LogFormat,
}

/// The receiver of traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Telemetry {
    /// The base address of a receiver of OTLP over HTTP; empty: none.
    pub otlp_endpoint: String,
}

/// The audit log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Audit {
    /// Whether requests that change something or are refused are recorded.
    pub enabled: bool,
    /// Days for which an entry is shown.
    pub keep_days: u32,
    /// Maximum number of entries.
    pub max_entries: u64,
}

/// The web page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Web {
    /// Whether files of agents can be changed by requests.
    pub edit_agents: EditAgents,
}

/// Whether files of agents can be changed by requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EditAgents {
    /// If the daemon listens on this machine only.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// The form of log messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}
