//! The configuration: its settings, their origins, and its errors.
//!
//! `config/unisono.toml` holds every default and is built in as the lowest layer, so there is one
//! source of defaults. Values are merged and read by figment; keys, types and positions are checked
//! before that, so that each error is reported with its file, line and column.

mod automation;
mod budget;
mod compaction;
mod contradictions;
pub(crate) mod header;
mod hooks;
mod hosts;
pub(crate) mod keys;
mod layers;
pub(crate) mod mcp;
pub(crate) mod models;
pub mod overrides;
mod program;
mod prompts;
mod providers;
mod sections;
mod show;
mod sources;
mod stored;
mod tiers;
mod transport;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use unisono_context::policy::Policy;
use unisono_model::catalogue::{Catalogue, EXTRACTIVE, Entry};
use unisono_model::summariser::Prompts;

pub use automation::{Schedule, Task, Trigger};
pub use budget::{
    Budget, Daemon as DaemonBudget, Level as BudgetLevel, Owner as OwnerBudget, dollars,
};
pub use compaction::ConfiguredNumber;
pub use compaction::{Compaction, Numbers, Resolved};
pub use hooks::{Hook, Hooks};
pub use mcp::{Approvals, McpServer, Tools};
pub use models::entry_lines;
pub use overrides::{
    MODEL_OVERRIDE, OverrideChanges, OverrideError, SessionOverrides, is_settable,
    session_overrides, settable,
};
pub(crate) use program::BUILT_IN_KINDS;
pub use program::{Program, TOOLS};
pub use providers::{Api, Provider};
pub use sections::{
    AgentDefaults, AttachmentSettings, Attachments, Audit, Cluster, Delegation, EditAgents, Log,
    LogFormat, Models, Runtime, SearchIndex, Server, Store, Telemetry, TimeText, Turn, UserScope,
    Vacuum, Web,
};
pub use show::Setting;
pub use sources::{FILE, Override, PREFIX, SYSTEM, Sources, Variables};
pub use stored::changed;
pub use stored::{
    STORED, UnchangeableKey, canonical, changeable, is_changeable, name_written_values,
    parse_value, scoped,
};
pub use tiers::TierNumbers;
pub use transport::Transport;

use crate::automation::Automation;
use crate::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::document::Table;
use crate::providers::Providers;
use layers::Layers;

/// Every default with a comment and unit: the text of `config/unisono.toml`.
pub const DEFAULTS: &str = include_str!("../embedded/unisono.toml");

/// The value of the default model that selects the first provider with an API key.
pub const AUTO: &str = "auto";

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Config {
    /// The store.
    pub store: Store,
    /// Models.
    pub models: Models,
    /// Their providers, by name.
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
    /// Tool servers, by name.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpServer>,
    /// Approval rules of all agents.
    pub approvals: Approvals,
    /// Programs and servers that sessions ask, by name.
    #[serde(default)]
    pub hooks: BTreeMap<String, Hook>,
    /// Turns that begin at times, by name.
    #[serde(default)]
    pub schedules: BTreeMap<String, Schedule>,
    /// Turns that begin when other programs ask, by name.
    #[serde(default)]
    pub triggers: BTreeMap<String, Trigger>,
    /// When and how conversations are compacted.
    pub compaction: Compaction,
    /// The agents of a turn, and the limits of a turn.
    pub turn: Turn,
    /// The depth of delegation.
    pub delegation: Delegation,
    /// Budgets.
    #[serde(default)]
    pub budget: Budget,
    /// Defaults of agents.
    pub agent_defaults: AgentDefaults,
    /// Limits of the runtime.
    pub runtime: Runtime,
    /// The daemon over HTTP.
    pub server: Server,
    /// Images and documents in messages.
    pub attachments: AttachmentSettings,
    /// Several programs on one database.
    pub cluster: Cluster,
    /// The audit log.
    pub audit: Audit,
    /// Messages on stderr.
    pub log: Log,
    /// The receiver of traces.
    pub telemetry: Telemetry,
    /// The web page.
    pub web: Web,
}

/// The loaded configuration, with the origins of all values.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The known models, including a person's own catalogue.
    pub catalogue: Catalogue,
    /// Their providers.
    pub providers: Providers,
    /// The tool servers, and the approval rules.
    pub tools: Tools,
    /// Programs and servers that sessions ask.
    pub hooks: Hooks,
    /// Turns that begin by themselves.
    pub automation: Automation,
    /// The model of agents that name no model.
    pub default_model: String,
    /// The prompts of summarisers.
    pub prompts: Prompts,
    /// The project's directory, if there is one.
    pub project: Option<PathBuf>,
    /// Warnings.
    pub warnings: Diagnostics,
    sources: Sources,
    layers: Layers,
    /// The layers of the values: a file that changes while the program runs affects only agents.
    taken: Layers,
}

impl Loaded {
    /// Every setting with its value and origin, without values that may be secrets, in the order of
    /// the defaults file.
    pub fn show(&self) -> Vec<Setting> {
        show::list(&self.layers)
    }

    /// When and how a conversation of that model is compacted.
    pub fn policy_for(&self, model: &Entry) -> Policy {
        self.config.compaction.resolve(model).policy
    }

    pub(crate) fn can_ask(&self, provider: &str) -> bool {
        self.providers.unavailable_reason(provider).is_none()
    }

    /// Its sources.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The same settings with these flags for requests to a daemon, which checks them by its own
    /// settings.
    pub(crate) fn with_request_overrides(mut self, overrides: Vec<Override>) -> Loaded {
        self.sources.overrides = overrides;
        self
    }

    /// The same settings with a draft for a file of an agent.
    pub(crate) fn with_draft(&self, path: PathBuf, text: String) -> Loaded {
        let mut loaded = self.clone();
        loaded.sources.drafts.insert(path, text);
        loaded
    }

    /// Whether files of agents can be changed by requests.
    pub fn edits_agents(&self) -> bool {
        match self.config.web.edit_agents {
            EditAgents::On => true,
            EditAgents::Off => false,
            EditAgents::Auto => self.config.server.bind.ip().is_loopback(),
        }
    }

    /// The position of the setting at a path of keys.
    pub fn place(&self, path: &[&str]) -> Place {
        self.layers.place(path)
    }

    /// The same settings, with the current tables of agents. Another setting that has changed in
    /// its file keeps its value; that is a warning.
    pub(crate) fn with_agents_of_now(&self) -> (Loaded, Diagnostics) {
        let mut found = Diagnostics::default();
        let files = Sources {
            texts: BTreeMap::new(),
            ..self.sources.clone()
        };
        let layers = Layers::read(&files, &mut found);
        for setting in show::differing(&self.layers, &layers) {
            let problem = format!("`{}` has changed", setting.key);
            let diagnostic = Diagnostic::warning(setting.place, problem).with_key(setting.key);
            found.push(diagnostic.help("it takes effect when the program is started again"));
        }
        let loaded = Loaded {
            project: self.sources.project(),
            layers,
            ..self.clone()
        };
        (loaded, found)
    }

    /// The same configuration with the settings of a session, and with settings above all others;
    /// neither may change a server, provider, catalogue or prompt. No file is read.
    pub fn with(
        &self,
        own: &SessionOverrides,
        settings: &[Override],
    ) -> (Option<Loaded>, Diagnostics) {
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

/// Reads the configuration. Unknown keys are warnings.
///
/// # Errors
/// The configuration has errors that a person must correct; the list says what, where, and how.
pub fn load(sources: Sources) -> Result<Loaded, Diagnostics> {
    let (loaded, found) = read(sources);
    let warnings = found.into_result()?;
    match loaded {
        Some(loaded) => Ok(Loaded { warnings, ..loaded }),
        None => Err(warnings),
    }
}

/// Reads everything that is valid and omits the rest.
pub(crate) fn read(sources: Sources) -> (Option<Loaded>, Diagnostics) {
    let sources = sources.with_texts();
    let mut found = Diagnostics::default();
    let layers = Layers::read(&sources, &mut found);
    let loaded = extract(&layers, &mut found).and_then(|config| {
        contradictions::check(&config.compaction, &layers, &mut found);
        hosts::check(&config, &layers, &mut found);
        let catalogue = models::catalogue(&config, &sources, &mut found)?;
        let providers = providers::read(
            &config.providers,
            &catalogue,
            &sources,
            &|path| layers.place(path),
            &mut found,
        );
        models::check(&config, &catalogue, &layers, &mut found);
        let place = |path: &[&str]| layers.place(path);
        sources.program.check(&mut found);
        let tools = mcp::read(&config, &sources, &place, &mut found);
        let hooks = hooks::read(&config, &sources, &place, &mut found);
        let automation = automation::read(&config, &sources, &place, &mut found);
        let default_model = default_model(&config, &providers);
        let chosen = config.models.instead.is_some() || config.models.default != AUTO;
        if !chosen && default_model == EXTRACTIVE {
            providers::warn_of_unused(&providers, &config.providers, &place, &mut found);
        }
        let prompts = prompts::read(&config, &sources, &layers, &mut found)?;
        Some(Loaded {
            default_model: default_model.to_owned(),
            config,
            catalogue,
            providers,
            tools,
            hooks,
            automation,
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

/// The model of agents that name no model, or of all agents.
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
        // A default that is impossible here was reported.
        Err(_) if found.has_errors() => None,
        // This was checked before: only a missing default could fail here.
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
