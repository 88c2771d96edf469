//! Agent definitions: `agents/<id>.md`, `agents/<id>.toml` and `[agents.<id>]` as one roster.
//!
//! Definitions are read from these places, and the whole file of a later place replaces the earlier
//! one: built into the program, the person's `agents/`, the project's `agents/`. A table
//! `[agents.<id>]` of the configuration then changes single keys of it, so that
//! `UNISONO__AGENTS__RISKS__MODEL` works for an agent in a file; without a file, the table is the
//! definition.

mod acp;
mod alone;
mod changed;
mod define;
mod difference;
mod files;
mod http;
mod output_schema;
mod pipeline;
mod seen;
mod team;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::{AgentId, Cost};
use unisono_session::agent::Definition;
use unisono_session::tool::ApprovalRule;

pub use alone::answers_alone;
pub use changed::Change;
pub use define::limits;
pub use difference::Difference;
pub use files::EMBEDDED;
pub use seen::FileStates;

pub use crate::settings::TOOLS;

use crate::diagnostic::{Diagnostic, Diagnostics, Origin, suggestion};
use crate::settings::Loaded;
use crate::settings::overrides;
use crate::skills::{self, Skills};

/// The default tools of an agent with a model.
pub const DEFAULT_TOOLS: [&str; 3] = ["read_message", "recall", skills::TOOL];

/// An agent and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its definition.
    pub definition: Arc<Definition>,
    /// Its approval rules.
    pub approvals: Vec<ApprovalRule>,
    /// The maximum cost of one of its runs; none: only the budgets limit it.
    pub max_cost: Option<Cost>,
    /// The file, or the layer of the configuration, that defines it.
    pub origin: Origin,
}

/// All agents.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    agents: BTreeMap<AgentId, Agent>,
    /// The definitions as written.
    sources: Arc<[files::Source]>,
    skills: Arc<Skills>,
}

/// An unknown agent, or an invalid team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no agent of that name.
    #[error("unknown agent `{name}`{}", .help.as_ref().map(|h| format!("; {h}")).unwrap_or_default())]
    Unknown {
        /// The requested name.
        name: String,
        /// The nearest name, or all names.
        help: Option<String>,
    },
    /// The lead cannot be one of its own delegates.
    #[error("agent `{0}` is the lead and cannot be one of its own delegates")]
    LeadDelegated(AgentId),
    /// A lead with a pipeline accepts no further agents.
    #[error(
        "agent `{0}` works through its pipeline and takes no other agents: leave them out, or add \
         them to its `pipeline`"
    )]
    PipelineAlone(AgentId),
    /// Only a lead can have a pipeline.
    #[error(
        "agent `{0}` has a pipeline and can only be the lead: name the agents of its pipeline \
         instead, or ask it with `--lead {0}`"
    )]
    PipelineGiven(AgentId),
    /// The name or the task is empty.
    #[error("`{0}` must be an agent, or agent=task")]
    BadAssignment(String),
}

impl Roster {
    /// Reads every agent. Returns the warnings as well.
    ///
    /// # Errors
    /// A definition is wrong; the list says which, where, and how to correct it.
    pub fn load(loaded: &Loaded) -> Result<(Roster, Diagnostics), Diagnostics> {
        let (roster, found) = Roster::read(loaded);
        Ok((roster, found.into_result()?))
    }

    /// Reads every valid agent.
    pub(crate) fn read(loaded: &Loaded) -> (Roster, Diagnostics) {
        let mut found = Diagnostics::default();
        let places = loaded.sources().skills();
        let skills = Skills::read(&places, &loaded.sources().directory, &mut found);
        let mut sources = files::collect(loaded, &mut found);
        for source in &mut sources {
            source.take_skills(&skills, &mut found);
            source.output_schema = output_schema::schema_text(source, &mut found);
        }
        Roster::define(sources.into(), skills.into(), loaded, found)
    }

    /// The same definitions under another configuration. No file is read.
    pub(crate) fn under(&self, loaded: &Loaded) -> (Roster, Diagnostics) {
        let found = Diagnostics::default();
        Roster::define(self.sources.clone(), self.skills.clone(), loaded, found)
    }

    /// An error of a definition that is already reported is not reported in other words: `found`
    /// continues.
    fn define(
        sources: Arc<[files::Source]>,
        skills: Arc<Skills>,
        loaded: &Loaded,
        mut found: Diagnostics,
    ) -> (Roster, Diagnostics) {
        let setting = define::Setting { loaded };
        let mut agents = BTreeMap::new();
        for source in &*sources {
            if let Some(definition) = setting.define(source, &mut found) {
                alone::check(source, &loaded.config.turn.lead, &definition, &mut found);
                let agent = Agent {
                    definition: Arc::new(definition),
                    approvals: tools::approvals(source, &loaded.tools, &mut found),
                    max_cost: define::max_cost(source),
                    origin: (*source.place.origin).clone(),
                };
                agents.insert(source.id.clone(), agent);
            }
        }
        let known: Vec<&str> = sources.iter().map(|source| source.id.as_str()).collect();
        for source in &*sources {
            check_delegates(source, &sources, &known, &mut found);
            pipeline::check(source, &sources, &known, &mut found);
        }
        check_turn(loaded, &known, &mut found);
        check_automation(loaded, &known, &mut found);
        found.sort();
        let roster = Roster {
            agents,
            sources,
            skills,
        };
        (roster, found)
    }

    /// The agent of that name.
    ///
    /// # Errors
    /// There is no such agent; the error names the nearest name.
    pub fn get(&self, id: &str) -> Result<Arc<Definition>, Error> {
        match self.agents.get(&AgentId::from(id)) {
            Some(agent) => Ok(agent.definition.clone()),
            None => Err(Error::Unknown {
                name: id.to_owned(),
                help: suggestion(id, self.agents.keys().map(AgentId::as_str)),
            }),
        }
    }

    /// The approval rules of an agent; none if there is no agent of that name any more.
    pub fn approvals(&self, id: &AgentId) -> &[ApprovalRule] {
        self.agents.get(id).map_or(&[], |agent| &agent.approvals)
    }

    /// The maximum cost of one run of an agent, if its definition sets one.
    pub fn max_cost(&self, id: &AgentId) -> Option<Cost> {
        self.agents.get(id)?.max_cost
    }

    /// The file that defines an agent; none: it is built in, or defined by settings or the program.
    /// Reads directories: not for an async thread.
    pub fn file_of(loaded: &Loaded, id: &AgentId) -> Option<std::path::PathBuf> {
        files::of_agent(loaded, id.as_str())
    }

    /// The files with the schemas of answers.
    pub(crate) fn schema_files(&self) -> impl Iterator<Item = std::path::PathBuf> {
        self.sources.iter().filter_map(output_schema::file)
    }

    /// The names of the skills that an agent's definition has.
    pub fn skills_of(&self, id: &AgentId) -> Vec<String> {
        let source = self.sources.iter().find(|source| source.id == *id);
        let skills = source.into_iter().flat_map(|source| source.texts("skills"));
        skills.map(|item| item.text.to_owned()).collect()
    }

    /// The skills of all agents.
    pub fn skills(&self) -> &Arc<Skills> {
        &self.skills
    }

    /// Every agent, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Agent> {
        self.agents.values()
    }
}

fn check_delegates(
    source: &files::Source,
    all: &[files::Source],
    known: &[&str],
    found: &mut Diagnostics,
) {
    for item in source.texts("delegates") {
        let name = item.text;
        if name == source.id.as_str() {
            let problem = format!("agent `{name}` names itself as a delegate");
            found.push(Diagnostic::error(item.place.clone(), problem).with_key("delegates"));
        } else if !known.contains(&name) {
            let problem = format!("agent `{}` names an unknown delegate `{name}`", source.id);
            let diagnostic = Diagnostic::error(item.place.clone(), problem).with_key("delegates");
            found.push(diagnostic.suggest(name, known.iter().copied()));
        } else if pipeline::has(all, name) {
            let problem = format!(
                "agent `{}` names `{name}` as a delegate, which has its own pipeline",
                source.id
            );
            let diagnostic = Diagnostic::error(item.place.clone(), problem).with_key("delegates");
            found.push(diagnostic.help(pipeline::instead(name)));
        }
    }
}

/// The agents that `[turn]` names must exist; one that other programs cannot find is warned of.
fn check_turn(loaded: &Loaded, known: &[&str], found: &mut Diagnostics) {
    let turn = &loaded.config.turn;
    let lead = std::iter::once((["turn", "lead"], turn.lead.as_str()));
    let delegates = turn.agents.iter();
    let delegates = delegates.map(|spec| (["turn", "agents"], team::agent_of(spec)));
    let exposed = loaded.config.server.a2a_agents.iter();
    let exposed = exposed.map(|name| (["server", "a2a_agents"], name.as_str()));
    let all = lead.chain(delegates).chain(exposed);
    for (path, name) in all.filter(|(_, name)| !known.contains(name)) {
        let (place, key) = (loaded.place(&path), path.join("."));
        let problem = format!("`{key}` names an unknown agent `{name}`");
        let diagnostic = match path {
            ["server", _] => Diagnostic::warning(place, problem),
            _ => Diagnostic::error(place, problem),
        };
        let diagnostic = diagnostic.with_key(key);
        found.push(diagnostic.suggest(name, known.iter().copied()));
    }
}

/// The agents that schedules and triggers name must exist, and their settings must be of a request.
fn check_automation(loaded: &Loaded, known: &[&str], found: &mut Diagnostics) {
    let automation = &loaded.automation;
    let schedules = automation.schedules.iter();
    let schedules = schedules.map(|one| ("schedules", &one.name, &one.task));
    let triggers = automation.triggers.iter();
    let triggers = triggers.map(|one| ("triggers", &one.name, &one.task));
    for (table, name, task) in schedules.chain(triggers) {
        let lead = task.lead.iter().map(|lead| ("lead", lead.as_str()));
        let agents = task.agents.iter().flatten();
        let agents = agents.map(|spec| ("agents", team::agent_of(spec)));
        for (key, agent) in lead.chain(agents) {
            if !known.contains(&agent) {
                let place = loaded.place(&[table, name, key]);
                let problem = format!("`{table}.{name}.{key}` names an unknown agent `{agent}`");
                let diagnostic = Diagnostic::error(place, problem).with_key(key);
                found.push(diagnostic.suggest(agent, known.iter().copied()));
            }
        }
        for key in task
            .settings
            .keys()
            .filter(|key| !overrides::is_of_request(key))
        {
            let place = loaded.place(&[table, name, "settings"]);
            let meant = overrides::similar(key).map(|key| format!(", did you mean `{key}`?"));
            let meant = meant.unwrap_or_default();
            let problem =
                format!("`{table}.{name}.settings`: `{key}` cannot be set for one turn{meant}");
            found.push(Diagnostic::error(place, problem).with_key("settings"));
        }
    }
}

/// Whether a text can be the name of an agent: `[a-z0-9][a-z0-9_-]*`.
pub fn is_id(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    starts && name.chars().all(inner)
}
