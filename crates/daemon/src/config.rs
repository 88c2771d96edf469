//! The configuration: what can be set, where it comes from, and what is wrong with it.
//!
//! `config/unisono.toml` holds every default and is built in as the lowest layer, so there is
//! one truth. Values are merged and read by figment; keys, types and places are checked before,
//! so that each fault is told with its file, line and column.

mod budget;
mod compaction;
mod contradictions;
pub(crate) mod header;
pub(crate) mod keys;
mod layers;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod own;
mod prompts;
mod providers;
mod show;
mod sources;
mod stored;
mod tiers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use unisono_context::Ppm;
use unisono_context::policy::Policy;
use unisono_model::catalogue::{Catalogue, EXTRACTIVE, Entry};
use unisono_model::summariser::Prompts;
use unisono_session::event::DelegationLimits;

pub use budget::{Budget, dollars};
pub(crate) use compaction::Given;
pub use compaction::{Compaction, Numbers, Resolved};
pub use mcp::{Approvals, McpServer, Tools};
pub use own::{MODEL_OVERRIDE, NotOwn, Own, OwnChanges, is_settable, own, settable};
pub use providers::{Api, Provider};
pub use show::Setting;
pub use sources::{FILE, Override, PREFIX, SYSTEM, Sources, Variables};
pub(crate) use stored::changed;
pub use stored::{STORED, Unchangeable, canonical, changeable, is_changeable, scoped, typed};

use crate::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::document::Table;
use crate::providers::Providers;
use layers::Layers;

/// Every default with a comment and unit: the text of `config/unisono.toml`.
pub const DEFAULTS: &str = include_str!("../../../config/unisono.toml");

/// The default model that stands for: whichever provider has a key.
pub const AUTO: &str = "auto";

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Config {
    /// Where sessions are kept.
    pub store: Store,
    /// Models.
    pub models: Models,
    /// Who serves them, by name.
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
    /// Servers of tools, by name.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpServer>,
    /// Which calls of tools wait for a person.
    pub approvals: Approvals,
    /// When conversations are summarised.
    pub compaction: Compaction,
    /// Who works on an input.
    pub run: Run,
    /// How far agents may delegate by themselves.
    pub delegation: Delegation,
    /// What may be used, and no more.
    #[serde(default)]
    pub budget: Budget,
    /// What an agent has that names nothing else.
    pub agent_defaults: AgentDefaults,
    /// Bounds of the running program.
    pub runtime: Runtime,
    /// The daemon over HTTP.
    pub server: Server,
    /// Messages on stderr.
    pub log: Log,
    /// Where traces are sent.
    pub telemetry: Telemetry,
}

/// Where sessions are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Store {
    /// Directory of the journal, absolute.
    pub path: PathBuf,
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
    /// The model of agents that name none; [`AUTO`]: that of the first provider with a key.
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

/// The configuration as it was read, with where everything came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The models known, a person's own catalogue included.
    pub catalogue: Catalogue,
    /// Who can be asked for them.
    pub providers: Providers,
    /// The servers of tools, and the rules about approval.
    pub tools: Tools,
    /// The model of agents that name none.
    pub default_model: String,
    /// The prompts of summarisers.
    pub prompts: Prompts,
    /// The project's directory, if there is one.
    pub project: Option<PathBuf>,
    /// What is wrong but keeps nothing from working.
    pub warnings: Diagnostics,
    sources: Sources,
    layers: Layers,
    /// Those that the values are of: what is written while the program runs counts for agents alone.
    taken: Layers,
}

impl Loaded {
    /// Every setting with its value and origin, without values that may be secrets, in the order of the defaults' file.
    pub fn show(&self) -> Vec<Setting> {
        show::shown(&self.layers)
    }

    /// When and how a conversation of that model is compacted.
    pub fn policy_for(&self, model: &Entry) -> Policy {
        self.config.compaction.resolve(model).policy
    }

    /// Whether the models of that provider can be asked.
    pub(crate) fn can_ask(&self, provider: &str) -> bool {
        self.providers.lacks(provider).is_none()
    }

    /// What it was read from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The place of the setting at a path of keys.
    pub fn place(&self, path: &[&str]) -> Place {
        self.layers.place(path)
    }

    /// The same settings, with the tables of agents as they are written now. A setting of another
    /// kind that is written otherwise by now stays as it was; that is a warning.
    pub(crate) fn with_agents_of_now(&self) -> (Loaded, Diagnostics) {
        let mut found = Diagnostics::default();
        let layers = Layers::read(&self.sources, &mut found);
        for setting in show::differing(&self.layers, &layers) {
            let problem = format!("`{}` has changed", setting.key);
            let diagnostic = Diagnostic::warning(setting.place, problem).on(setting.key);
            found.push(diagnostic.help("it takes effect when the program is started again"));
        }
        let loaded = Loaded {
            project: self.sources.project(),
            layers,
            ..self.clone()
        };
        (loaded, found)
    }

    /// The same with the settings of a session, and settings above all others: those that change no
    /// server, provider, catalogue or prompt. Nothing is read.
    pub(crate) fn with(&self, own: &Own, settings: &[Override]) -> (Option<Loaded>, Diagnostics) {
        let mut found = Diagnostics::default();
        let layers = self.taken.with(&self.sources, own, settings, &mut found);
        let loaded = extract(&layers, &mut found).map(|config| {
            contradictions::check(&config.compaction, &layers, &mut found);
            models::check(&config, &self.catalogue, &layers, &mut found);
            prompts::check_named(&config, &self.prompts, &layers, &mut found);
            Loaded {
                default_model: default_model(&config, &self.providers).to_owned(),
                config,
                taken: layers.clone(),
                layers,
                ..self.clone()
            }
        });
        found.sort();
        (loaded, found)
    }

    /// The tables of agents, all layers merged.
    pub(crate) fn agent_tables(&self) -> Table {
        self.layers.agents()
    }
}

/// Reads the configuration. Keys nobody knows are warnings.
///
/// # Errors
/// Something is wrong that a person must put right; the list says what, where, and how.
pub fn load(sources: Sources) -> Result<Loaded, Diagnostics> {
    let (loaded, found) = read(sources);
    let warnings = found.into_result()?;
    match loaded {
        Some(loaded) => Ok(Loaded { warnings, ..loaded }),
        None => Err(warnings),
    }
}

/// Reads as much as can be read, without what is wrong.
pub(crate) fn read(sources: Sources) -> (Option<Loaded>, Diagnostics) {
    let mut found = Diagnostics::default();
    let layers = Layers::read(&sources, &mut found);
    let loaded = extract(&layers, &mut found).and_then(|config| {
        contradictions::check(&config.compaction, &layers, &mut found);
        let catalogue = models::catalogue(&config, &sources, &mut found)?;
        let providers = Providers::read(
            &config.providers,
            &catalogue,
            &sources.variables,
            &|path| layers.place(path),
            &mut found,
        );
        models::check(&config, &catalogue, &layers, &mut found);
        let place = |path: &[&str]| layers.place(path);
        let tools = mcp::read(&config, &sources.variables, &place, &mut found);
        let default_model = default_model(&config, &providers);
        let chosen = config.models.instead.is_some() || config.models.default != AUTO;
        if !chosen && default_model == EXTRACTIVE {
            providers.warn_of_unused(&config.providers, &place, &mut found);
        }
        let prompts = prompts::read(&config, &sources, &layers, &mut found)?;
        Some(Loaded {
            default_model: default_model.to_owned(),
            config,
            catalogue,
            providers,
            tools,
            prompts,
            project: sources.project(),
            warnings: Diagnostics::default(),
            sources,
            taken: layers.clone(),
            layers,
        })
    });
    found.sort();
    (loaded, found)
}

/// The model of agents that name none, or of all of them.
fn default_model<'c>(config: &'c Config, providers: &'c Providers) -> &'c str {
    if let Some(instead) = &config.models.instead {
        return instead;
    }
    match config.models.default.as_str() {
        AUTO => providers.default_model(),
        named => named,
    }
}

fn extract(layers: &Layers, found: &mut Diagnostics) -> Option<Config> {
    match layers.figment().extract() {
        Ok(config) => Some(config),
        // Checked before: only a default that is missing could get here.
        Err(errors) => {
            for error in errors {
                let place =
                    layers.place(&error.path.iter().map(String::as_str).collect::<Vec<_>>());
                found.push(Diagnostic::error(place, error.kind.to_string()));
            }
            None
        }
    }
}
