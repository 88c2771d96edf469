//! The builder of a [`Local`].

use std::path::PathBuf;
use std::sync::Arc;

use unisono_model::language::LanguageModel;
use unisono_runtime::{Agent, Extensions, Tool};

use super::opened::open_directory;
use super::{Local, OpenedStore, open_configured};
use crate::error::Error;
use unisono_config::settings::{Override, Program, Sources};
use unisono_config::setup::Setup;

/// Builds a [`Local`]. The program chooses where its sessions are: [`Builder::store`],
/// [`Builder::in_memory`], or [`Builder::configured_store`] for the store that the command line uses as
/// well. Without that choice [`Builder::start`] fails. Every other part has a default: settings and
/// agents of the person and of the project of the working directory, no extensions.
/// [`Builder::sources`] reads settings and agents from other places.
///
/// ```
/// use unisono::{Ask, Conversation, Local};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let local = Local::builder().set("compaction.preset", "retention").in_memory();
/// let local = local.start().await?;
/// let talk = Conversation::new("The move").user("The shop moves on Friday.");
/// let session = local.import(talk).await?;
/// let finished = local.ask(&session, &Ask::new("When does the shop move?")).await?;
/// assert!(finished.answer.is_some_and(|answer| answer.contains("Friday")));
/// local.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Builder {
    setup: Option<Setup>,
    sources: Option<Sources>,
    directory: Option<PathBuf>,
    overrides: Vec<Override>,
    extensions: Extensions,
    in_memory: bool,
    in_directory: bool,
    /// A path that cannot be a setting.
    unreadable_store: Option<PathBuf>,
    configured_store: bool,
}

/// The settings that determine the store.
const PATH: &str = "store.path";
const URL: &str = "store.url";

impl Builder {
    /// Adds an agent implemented in Rust, for definitions of that `kind`.
    #[must_use]
    pub fn agent(mut self, kind: impl Into<String>, agent: impl Agent) -> Builder {
        self.extensions = self.extensions.agent(kind, agent);
        self
    }

    /// Adds a tool implemented in Rust, for agents that name it among their `tools`.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Builder {
        self.extensions = self.extensions.tool(tool);
        self
    }

    /// Adds a language model implemented in Rust, as `provider/model`. The provider must not be a
    /// configured one.
    #[must_use]
    pub fn model(
        mut self,
        name: impl Into<Arc<str>>,
        model: impl LanguageModel + 'static,
    ) -> Builder {
        self.extensions = self.extensions.model(name, model);
        self
    }

    /// Adds a language model implemented in Rust and makes it the model of all agents that name no
    /// other.
    #[must_use]
    pub fn default_model(self, name: &str, model: impl LanguageModel + 'static) -> Builder {
        self.model(name, model).set("models.default", name)
    }

    /// Defines an agent of that `kind`, as a table `[agents.<id>]` of the settings does. A lead
    /// chooses delegates by their descriptions. The agent may call these `tools` and no others.
    /// [`Builder::set`] sets further keys: `set("agents.<id>.timeout", "10s")`.
    #[must_use]
    pub fn define_agent(self, id: &str, kind: &str, description: &str, tools: &[&str]) -> Builder {
        self.set(&format!("agents.{id}.kind"), kind)
            .set(&format!("agents.{id}.description"), description)
            // Names in quotes: a TOML array.
            .set(&format!("agents.{id}.tools"), format!("{tools:?}"))
    }

    /// Replaces all agents, tools and models added so far.
    #[must_use]
    pub fn extensions(mut self, extensions: Extensions) -> Builder {
        self.extensions = extensions;
        self
    }

    /// Searches for the project from this directory upwards, instead of from the working directory.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.directory = Some(directory.into());
        self
    }

    /// Sets one key of the configuration, over all settings files and environment variables:
    /// `set("compaction.trigger_tokens", "12000")`. A list is a TOML array, or its items with commas
    /// between them. [`Builder::start`] reports wrong keys and values.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<String>) -> Builder {
        self.overrides.push(Override::new("set", key, value));
        self
    }

    /// Keeps sessions in that directory, which is created if it does not exist; also if the settings of
    /// the person, the project or the environment name a database. A relative path begins at
    /// [`Builder::directory`] or at the working directory.
    #[must_use]
    pub fn store(mut self, directory: impl Into<PathBuf>) -> Builder {
        let directory = directory.into();
        self.in_directory = true;
        let shown = directory.to_string_lossy().into_owned();
        self.unreadable_store = directory.to_str().is_none().then_some(directory);
        self.set(PATH, shown)
    }

    /// Keeps sessions in the store that the settings name: the project's store, or the person's store if
    /// there is no project. The command line uses the same store. Only one process at a time can open it.
    #[must_use]
    pub fn configured_store(mut self) -> Builder {
        self.configured_store = true;
        self
    }

    /// Reads settings from these places and [`Builder::set`] only; [`Builder::directory`] then has no
    /// effect.
    #[must_use]
    pub fn sources(mut self, sources: Sources) -> Builder {
        self.sources = Some(sources);
        self
    }

    /// Uses a configuration that was already read, and its store, with the same extensions.
    /// [`Builder::set`], [`Builder::store`], [`Builder::sources`] and [`Builder::directory`] then have
    /// no effect.
    #[must_use]
    pub fn setup(mut self, setup: Setup) -> Builder {
        self.setup = Some(setup);
        self
    }

    /// Keeps sessions in memory: the store is not written, and sessions end with the [`Local`].
    #[must_use]
    pub fn in_memory(mut self) -> Builder {
        self.in_memory = true;
        self
    }

    /// Reads configuration and agents, opens the store, and starts the runtime.
    ///
    /// # Errors
    /// No store was chosen, configuration or agents are wrong, or the store cannot be opened, for
    /// example because another process has opened it.
    pub async fn start(self) -> Result<Local, Error> {
        let mut in_directory = false;
        let setup = match self.setup {
            Some(setup) => setup,
            None => {
                if let Some(path) = self.unreadable_store {
                    return Err(Error::StorePath(path));
                }
                let mut sources = match (self.sources, self.directory) {
                    (Some(sources), _) => sources,
                    (None, Some(directory)) => {
                        let directory = std::path::absolute(directory);
                        Sources::of_process(directory.map_err(Error::Directory)?)
                    }
                    (None, None) => {
                        Sources::of_process(std::env::current_dir().map_err(Error::Directory)?)
                    }
                };
                sources.overrides.extend(self.overrides);
                let sets = |key: &str| sources.overrides.iter().any(|one| one.key == key);
                if !(self.in_memory || self.configured_store || sets(PATH) || sets(URL)) {
                    return Err(Error::NoStoreChosen);
                }
                in_directory = self.in_directory && !sets(URL);
                sources.program = Program::from(&self.extensions);
                Setup::load(sources)?
            }
        };
        let config = &setup.loaded.config;
        let opened = if self.in_memory {
            OpenedStore::nothing()
        } else if in_directory {
            open_directory(config).await?
        } else {
            open_configured(config).await?
        };
        Local::start_on(opened, setup, self.extensions).await
    }
}
