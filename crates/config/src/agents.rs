//! Agent definitions: `agents/<id>.md`, `agents/<id>.toml` and `[agents.<id>]` as one roster.
//!
//! A definition is looked for in this order, and the whole file of a later place takes the
//! earlier one's: built into the program, the person's `agents/`, the project's `agents/`. A
//! table `[agents.<id>]` of the configuration then changes single keys of it, so that
//! `UNISONO__AGENTS__RISKS__MODEL` works for an agent that is a file; where there is no file, it
//! is the definition.

mod alone;
mod changed;
mod define;
mod difference;
mod files;
mod http;
mod keys;
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
pub(crate) use keys::KEYS;
pub use seen::Seen;

use crate::diagnostic::{Diagnostic, Diagnostics, Origin, suggestion};
use crate::settings::Loaded;
use crate::skills::{self, Skills};
pub(crate) use define::BUILT_IN_KINDS;

/// The built-in tools that agents may be given.
pub const TOOLS: [&str; 5] = {
    let [compact, delegate, read_message, recall] = unisono_runtime::tools::BUILT_IN;
    [compact, delegate, read_message, recall, skills::TOOL]
};
/// Those that a model has whose agent names none.
pub const DEFAULT_TOOLS: [&str; 3] = ["read_message", "recall", skills::TOOL];

/// An agent and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// What it is.
    pub definition: Arc<Definition>,
    /// Which of its calls of tools wait for a person.
    pub approvals: Vec<ApprovalRule>,
    /// The most that one of its runs may cost; none: nothing but the budgets bounds it.
    pub max_cost: Option<Cost>,
    /// The file, or the configuration's layer, that defines it.
    pub origin: Origin,
}

/// All agents that can be given a task.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    agents: BTreeMap<AgentId, Agent>,
    /// The definitions as they were written.
    sources: Arc<[files::Source]>,
    skills: Arc<Skills>,
}

/// No agent of that name, or a team that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nobody has that name.
    #[error("unknown agent `{name}`{}", .help.as_ref().map(|h| format!("; {h}")).unwrap_or_default())]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        help: Option<String>,
    },
    /// The agent that answers cannot work before itself.
    #[error("agent `{0}` is the lead and cannot be one of its own delegates")]
    LeadDelegated(AgentId),
    /// It works with the stages of its pipeline and nobody else.
    #[error(
        "agent `{0}` works through its pipeline and takes no other agents: leave them out, or add \
         them to its `pipeline`"
    )]
    PipelineAlone(AgentId),
    /// A pipeline is worked through for a lead alone.
    #[error(
        "agent `{0}` has a pipeline and can only be the lead: name the agents of its pipeline \
         instead, or ask it with `--lead {0}`"
    )]
    PipelineGiven(AgentId),
    /// Nothing stands before or after the equals sign.
    #[error("`{0}` must be an agent, or agent=task")]
    BadAssignment(String),
}

impl Roster {
    /// Reads every agent. Returns the warnings as well.
    ///
    /// # Errors
    /// An agent is wrong; the list says which, where, and how to put it right.
    pub fn load(loaded: &Loaded) -> Result<(Roster, Diagnostics), Diagnostics> {
        let (roster, found) = Roster::read(loaded);
        Ok((roster, found.into_result()?))
    }

    /// Reads every agent that is right.
    pub(crate) fn read(loaded: &Loaded) -> (Roster, Diagnostics) {
        let mut found = Diagnostics::default();
        let places = loaded.sources().skills();
        let skills = Skills::read(&places, &loaded.sources().directory, &mut found);
        let mut sources = files::collect(loaded, &mut found);
        for source in &mut sources {
            source.take_skills(&skills, &mut found);
        }
        Roster::define(sources.into(), skills.into(), loaded, found)
    }

    /// The same definitions under another configuration. Nothing is read.
    pub(crate) fn under(&self, loaded: &Loaded) -> (Roster, Diagnostics) {
        let found = Diagnostics::default();
        Roster::define(self.sources.clone(), self.skills.clone(), loaded, found)
    }

    /// What is wrong with a definition already is not said in other words: `found` goes on.
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
                alone::check(source, &loaded.config.run.lead, &definition, &mut found);
                let agent = Agent {
                    definition: Arc::new(definition),
                    approvals: tools::approvals(source, &mut found),
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
        check_run(loaded, &known, &mut found);
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
    /// There is none; the error names the nearest.
    pub fn get(&self, id: &str) -> Result<Arc<Definition>, Error> {
        match self.agents.get(&AgentId::from(id)) {
            Some(agent) => Ok(agent.definition.clone()),
            None => Err(Error::Unknown {
                name: id.to_owned(),
                help: suggestion(id, self.agents.keys().map(AgentId::as_str)),
            }),
        }
    }

    /// Which calls of an agent wait for a person; none where nobody has that name any more.
    pub fn approvals(&self, id: &AgentId) -> &[ApprovalRule] {
        self.agents.get(id).map_or(&[], |agent| &agent.approvals)
    }

    /// The most that one run of an agent may cost, if it says so itself.
    pub fn max_cost(&self, id: &AgentId) -> Option<Cost> {
        self.agents.get(id)?.max_cost
    }

    /// The skills that agents may read.
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
            found.push(Diagnostic::error(item.place.clone(), problem).on("delegates"));
        } else if !known.contains(&name) {
            let problem = format!("agent `{}` names an unknown delegate `{name}`", source.id);
            let diagnostic = Diagnostic::error(item.place.clone(), problem).on("delegates");
            found.push(diagnostic.suggest(name, known.iter().copied()));
        } else if pipeline::has(all, name) {
            let problem = format!(
                "agent `{}` names `{name}` as a delegate, which has a pipeline of its own",
                source.id
            );
            let diagnostic = Diagnostic::error(item.place.clone(), problem).on("delegates");
            found.push(diagnostic.help(pipeline::instead(name)));
        }
    }
}

/// The agents that `[run]` names must exist.
fn check_run(loaded: &Loaded, known: &[&str], found: &mut Diagnostics) {
    let run = &loaded.config.run;
    let lead = std::iter::once(("lead", run.lead.as_str()));
    let delegates = run
        .agents
        .iter()
        .map(|spec| ("agents", team::agent_of(spec)));
    for (key, name) in lead.chain(delegates) {
        if !known.contains(&name) {
            let place = loaded.place(&["run", key]);
            let problem = format!("`run.{key}` names an unknown agent `{name}`");
            let diagnostic = Diagnostic::error(place, problem).on(format!("run.{key}"));
            found.push(diagnostic.suggest(name, known.iter().copied()));
        }
    }
}

/// Whether a text can be the name of an agent: `[a-z0-9][a-z0-9_-]*`.
pub fn is_id(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    starts && name.chars().all(inner)
}
