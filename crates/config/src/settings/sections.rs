//! The tables of the configuration that have no file of their own here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use unisono_context::Ppm;
use unisono_runtime::Reach;
use unisono_session::event::DelegationLimits;

/// Where sessions are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Store {
    /// Directory of the journal, absolute. With a database: of the search index and the like.
    pub path: PathBuf,
    /// The database that holds the journal; none: the directory does. May have a password.
    pub url: Option<String>,
    /// The file with the database's password.
    pub password_file: Option<PathBuf>,
    /// Where the full-text index is.
    pub search_index: SearchIndex,
    /// Days without a change after which a session is deleted; 0: none is.
    pub retention_days: u32,
    /// Whether a daemon gives back the room of what was deleted.
    pub vacuum: Vacuum,
    /// How often it looks whether that is worth it.
    pub vacuum_every_seconds: u64,
    /// By how much the journal has to be larger than it need be, in MiB.
    pub vacuum_over_mib: u64,
    /// How much it copies in a second, in MiB.
    pub vacuum_mib_per_second: u64,
}

/// Whether a daemon vacuums its store by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vacuum {
    /// Where it is worth it.
    Auto,
    /// Only where it is told to.
    Off,
}

/// Where the full-text index of all sessions is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchIndex {
    /// Beside the journal, which it follows.
    Disk,
    /// In memory, made of what is asked for when it is asked for.
    Memory,
}

/// Models.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Models {
    /// The model of agents that name none; [`AUTO`](super::AUTO): that of the first provider with a key.
    pub default: String,
    /// The model of every agent that asks one, whatever it names itself.
    #[serde(rename = "override")]
    pub instead: Option<String>,
    /// Models that are asked, in this order, when the one an agent names cannot be had.
    pub fallback: Vec<String>,
    /// A catalogue on top of the built-in one, absolute.
    pub catalogue: Option<PathBuf>,
}

/// Who works on an input.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Run {
    /// The agent that answers.
    pub lead: String,
    /// The agents that work before it, or that it may choose from; each `agent` or `agent=task`.
    pub agents: Vec<String>,
    /// Seconds from the input to the answer.
    pub timeout_seconds: u64,
    /// Calls of tools that one reply of a model may make.
    pub calls_per_reply: u32,
    /// How many bytes of `AGENTS.md` files go into the system text; 0: none.
    pub agents_md_bytes: u64,
    /// How many bytes of the list of skills go into the system text; 0: none, and there is no tool
    /// to read them.
    pub skills_bytes: u64,
}

impl Run {
    /// The time from the input to the answer.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}

/// How far agents may delegate by themselves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Delegation {
    /// Levels below the lead.
    pub depth: u32,
    /// Runs of a turn at the same time, the lead's included.
    pub live_runs: u32,
    /// Of what an agent has for the conversation, what is kept free for results of its delegates.
    pub results_share: f64,
}

impl Delegation {
    /// As a turn has them.
    pub fn limits(&self) -> DelegationLimits {
        DelegationLimits {
            depth: self.depth,
            live_runs: self.live_runs,
            // A share was checked when it was read.
            results: Ppm::from_fraction(self.results_share).unwrap_or(DelegationLimits::RESULTS),
        }
    }
}

/// What an agent has that names nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AgentDefaults {
    /// Model calls of one run at most.
    pub max_turns: u32,
    /// Time for one attempt, as it is written: `"2m"`, or seconds.
    pub timeout: TimeText,
    /// Attempts after the first.
    pub retries: u32,
    /// Runs of one agent at the same time.
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

/// Bounds of the running program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Runtime {
    /// Runs that may wait for one agent; more are refused.
    pub queue_per_agent: u32,
    /// Requests that may wait for one session; more are told that it is busy.
    pub queue_per_session: u32,
    /// Compactions at the same time.
    pub compactions: u32,
    /// Compactions that may wait.
    pub compaction_queue: u32,
    /// Counting jobs at the same time, a thread each.
    pub countings: u32,
    /// Seconds without progress after which an attempt is taken for stuck.
    pub stuck_after_seconds: u64,
    /// Seconds without work after which a session leaves memory.
    pub passivate_after_seconds: u64,
    /// Sessions that stay in memory; those that work stay in any case.
    pub sessions_in_memory: u32,
    /// Bytes of messages of all sessions in memory together.
    pub session_bytes_in_memory: u64,
    /// What agents may search and read by the tool `recall`.
    pub recall: Reach,
}

/// The daemon over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Whether that may be an address that others can reach.
    pub allow_remote: bool,
    /// Host names it may be asked by, besides its own address and `localhost`.
    pub hosts: Vec<String>,
    /// The file of the token, absolute.
    pub token_file: PathBuf,
    /// Requests at the same time; more are told to come back.
    pub requests: u32,
    /// Streams of events at the same time; more are told to come back.
    pub streams: u32,
    /// Requests in a second, of all clients together, and at once; 0: no limit.
    pub requests_per_second: u32,
    /// Connections at the same time; of more than these only whether it lives is answered.
    pub connections: u32,
    /// Bytes of a request's body at most.
    pub body_limit_bytes: u32,
    /// Bytes of the bodies of all requests that are being answered, together.
    pub bodies_bytes: u64,
    /// Messages of a conversation that is imported, at most.
    pub import_messages: u32,
    /// Seconds without progress, either way, after which a client's connection ends.
    pub stall_seconds: u64,
    /// Seconds that what is being answered may take when the program stops.
    pub drain_seconds: u64,
    /// What becomes of images and files that OpenAI's clients send.
    pub attachments: Attachments,
    /// Seconds between two looks at the files that define agents; 0: they are read when somebody
    /// asks for it.
    pub reload_seconds: u64,
}

/// What becomes of an image or a file that a request holds: models are not sent any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attachments {
    /// The request is refused.
    #[default]
    Refuse,
    /// A note with name, type and size stands in its place.
    Note,
}

/// Messages on stderr.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Log {
    /// A level, or directives per module.
    pub level: String,
    /// Their form.
    pub format: LogFormat,
}

/// Where traces are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Telemetry {
    /// The base address of a receiver of OTLP over HTTP; empty: none.
    pub otlp_endpoint: String,
}

/// The form of log messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
