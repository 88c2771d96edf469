//! The builder of a [`Local`].

use std::path::PathBuf;
use std::sync::Arc;

use unisono_model::language::LanguageModel;
use unisono_runtime::{Agent, Extensions, Tool};

use super::{Local, OpenedStore, open_configured};
use crate::error::Error;
use unisono_config::settings::{Override, Program, Sources};
use unisono_config::setup::Setup;

/// Builds a [`Local`]. Every part has a default: settings and agents of the project of the working
/// directory, its store, no extensions.
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
}

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

    /// Adds a language model implemented in Rust, as `provider/model`.
    #[must_use]
    pub fn model(
        mut self,
        name: impl Into<Arc<str>>,
        model: impl LanguageModel + 'static,
    ) -> Builder {
        self.extensions = self.extensions.model(name, model);
        self
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

    /// Sets one key of the configuration: `set("compaction.trigger_tokens", "12000")`.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<String>) -> Builder {
        self.overrides.push(Override::new("set", key, value));
        self
    }

    /// Keeps sessions in that directory, which is created if it does not exist.
    #[must_use]
    pub fn store(self, directory: impl Into<PathBuf>) -> Builder {
        let directory = directory.into();
        self.set("store.path", directory.to_string_lossy())
    }

    /// Reads settings from these places only.
    #[must_use]
    pub fn sources(mut self, sources: Sources) -> Builder {
        self.sources = Some(sources);
        self
    }

    /// Uses a configuration that was already read, with the same extensions.
    #[must_use]
    pub fn setup(mut self, setup: Setup) -> Builder {
        self.setup = Some(setup);
        self
    }

    /// Keeps sessions in memory: nothing is written, nothing survives.
    #[must_use]
    pub fn in_memory(mut self) -> Builder {
        self.in_memory = true;
        self
    }

    /// Reads configuration and agents, opens the store, and starts the runtime.
    ///
    /// # Errors
    /// Configuration or agents are wrong, or the store cannot be opened.
    pub async fn start(self) -> Result<Local, Error> {
        let setup = match self.setup {
            Some(setup) => setup,
            None => {
                let mut sources = match (self.sources, self.directory) {
                    (Some(sources), _) => sources,
                    (None, Some(directory)) => Sources::of_process(directory),
                    (None, None) => {
                        Sources::of_process(std::env::current_dir().map_err(Error::Directory)?)
                    }
                };
                sources.overrides.extend(self.overrides);
                sources.program = Program::from(&self.extensions);
                Setup::load(sources)?
            }
        };
        let opened = if self.in_memory {
            OpenedStore::nothing()
        } else {
            open_configured(&setup.loaded.config).await?
        };
        Local::start_on(opened, setup, self.extensions).await
    }
}
