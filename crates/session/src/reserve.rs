//! The part of a model's window that an agent needs besides the context. It is reserved before a
//! context is planned, so a context that needs no compaction always fits its runs.
//!
//! ```text
//! window │ longest output │ safety │ system, tools │ role, task │ results │ usable
//! ```
//!
//! *Role* is the text about the agent itself, its tools and the agents to which it may delegate. It
//! depends only on its definition and its team, and is counted once per encoding. *Results* are the
//! results of its delegates: a share of the rest. If a context cannot be made small enough for
//! them, they get the tokens that it leaves: at least enough for one note in place of all.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use unisono_context::call::ClientOptions;
use unisono_context::digest::Hasher;
use unisono_context::snapshot::Preamble;
use unisono_context::tokens::Counts;
use unisono_context::{Digest, Encoding, Ppm, Tokens};

use crate::agent::{ContextMode, Definition, Team};
use crate::event::DelegationLimits;
use crate::tool;

/// The tool by which an agent delegates a task.
pub use unisono_context::message::DELEGATE;

/// The maximum number of tokens of the fixed words around role and task, and of the error of
/// counting in pieces.
const WORDS: Tokens = Tokens(96);
/// The maximum size of a task that one agent writes for another: a sixteenth of the window, at most
/// this.
const WRITTEN_TASK: Tokens = Tokens(512);
const WRITTEN_TASK_SHARE: u64 = 16;
/// The minimum size of a result in a prompt, or of a note in place of all results: how to read
/// them.
const LEAST_RESULT: Tokens = Tokens(64);
/// The number of messages that contain role and task.
pub const MESSAGES: u64 = 2;

/// The needs of all agents of a team that get the context.
#[derive(Clone, Debug)]
pub struct TeamNeeds {
    team: Team,
    preamble: Preamble,
    client_options: Option<ClientOptions>,
    results: Ppm,
    /// By definition digest.
    agents: BTreeMap<Digest, AgentNeeds>,
}

#[derive(Clone, Debug)]
struct AgentNeeds {
    definition: Arc<Definition>,
    /// Digest under which the count of its role is stored.
    role: Digest,
    /// Its own tasks, without the turn's input, which is part of the context.
    tasks: Vec<(Digest, Arc<str>)>,
    is_lead: bool,
    /// Whether other agents may write a task for it.
    is_available: bool,
    /// Whether it gets results of other agents, and at least how many.
    gets_results: bool,
    handed: u64,
}

impl TeamNeeds {
    /// The needs of a team. `digests` are the digests of its definitions, in the order of
    /// [`Team::definitions`]; `client_options` are the lead's client tools.
    pub fn new(
        team: &Team,
        digests: impl IntoIterator<Item = Digest>,
        preamble: &Preamble,
        client_options: Option<&ClientOptions>,
        delegation: DelegationLimits,
    ) -> TeamNeeds {
        let digests: Vec<Digest> = digests.into_iter().collect();
        let mut needs = TeamNeeds {
            team: team.clone(),
            preamble: preamble.clone(),
            client_options: client_options
                .filter(|client_options| !client_options.tools.is_empty())
                .cloned(),
            results: delegation.results,
            agents: BTreeMap::new(),
        };
        let around = needs.role_digest(&digests);
        let delegates = 1..=team.delegates.len();
        for (place, (definition, digest)) in team.definitions().zip(&digests).enumerate() {
            let is_lead = place == 0;
            if !is_lead && definition.context == ContextMode::TaskOnly {
                continue;
            }
            let agent = needs.agents.entry(*digest).or_insert_with(|| AgentNeeds {
                definition: definition.clone(),
                role: around.role(*digest, is_lead),
                tasks: Vec::new(),
                is_lead,
                is_available: false,
                gets_results: false,
                handed: 0,
            });
            let stage = !team.lead.pipeline.is_empty() && place > 1;
            let level = u32::from(!is_lead);
            let before = match is_lead {
                true => team.delegates.len(),
                false if stage && delegates.contains(&place) => place - 1,
                false => 0,
            };
            agent.handed = agent.handed.max(before as u64);
            agent.gets_results |=
                before > 0 || (level < delegation.depth && may_delegate(definition, team));
            agent.is_available |= place > team.delegates.len();
            let own = place.checked_sub(1).and_then(|at| team.delegates.get(at));
            if let Some(task) = own.and_then(|own| own.task.as_ref()) {
                let name = Digest::of_bytes(task.as_bytes());
                if agent.tasks.iter().all(|(known, _)| *known != name) {
                    agent.tasks.push((name, task.clone()));
                }
            }
        }
        needs
    }

    fn role_digest(&self, digests: &[Digest]) -> RoleContext {
        let first = 1 + self.team.delegates.len();
        let mut h = Hasher::new("unisono/role", 1);
        h.digest(&self.preamble.digest());
        for available in digests.get(first..).unwrap_or_default() {
            h.digest(available);
        }
        let team = h.finish();
        let client_options = self.client_options.as_ref().map(|client_options| {
            let mut h = Hasher::new("unisono/role-lent", 1);
            client_options.tools.iter().for_each(|tool| {
                h.str(tool);
            });
            h.finish()
        });
        RoleContext {
            team,
            client_options,
        }
    }

    /// Whether everything is counted in an encoding.
    pub fn are_counted(&self, encoding: Encoding, counts: &HashMap<Digest, Counts>) -> bool {
        self.uncounted(encoding, counts).next().is_none()
    }

    /// The texts without a count, each with its digest.
    pub fn texts(
        &self,
        encoding: Encoding,
        counts: &HashMap<Digest, Counts>,
    ) -> Vec<(Digest, String)> {
        let missing = self.uncounted(encoding, counts);
        let texts = missing.map(|(name, agent, task)| match task {
            Some(task) => (name, task.to_owned()),
            None => (name, self.role(agent)),
        });
        let mut texts: Vec<_> = texts.collect();
        texts.sort();
        texts.dedup_by(|a, b| a.0 == b.0);
        texts
    }

    fn uncounted<'n>(
        &'n self,
        encoding: Encoding,
        counts: &'n HashMap<Digest, Counts>,
    ) -> impl Iterator<Item = (Digest, &'n AgentNeeds, Option<&'n str>)> + 'n {
        let agents = self.agents.values();
        let agents = agents.filter(move |agent| agent.definition.limits.encoding == encoding);
        let texts = agents.flat_map(|agent| {
            let tasks = agent.tasks.iter();
            let tasks = tasks.map(move |(name, task)| (*name, agent, Some(&**task)));
            std::iter::once((agent.role, agent, None)).chain(tasks)
        });
        texts.filter(move |(name, ..)| {
            let known = counts.get(name);
            known.and_then(|counts| counts.get(encoding)).is_none()
        })
    }

    /// The tokens of an agent's role and task; none while they are not counted, zero for an agent
    /// that does not get the context.
    pub fn assignment_tokens(
        &self,
        agent: Digest,
        counts: &HashMap<Digest, Counts>,
    ) -> Option<Tokens> {
        let Some(agent) = self.agents.get(&agent) else {
            return Some(Tokens::ZERO);
        };
        let limits = agent.definition.limits;
        let count = |name: &Digest| Some(counts.get(name)?.get(limits.encoding)?.at_most);
        let tasks = agent.tasks.iter().map(|(name, _)| count(name));
        let longest = tasks.collect::<Option<Vec<Tokens>>>()?.into_iter().max();
        let written = WRITTEN_TASK.min(Tokens(limits.window.0 / WRITTEN_TASK_SHARE));
        let written = agent.is_available.then_some(written);
        let task = longest.max(written).unwrap_or_default();
        Some(count(&agent.role)? + task + WORDS + limits.per_message.times(MESSAGES))
    }

    /// The part of `usable` that is reserved for results of other agents.
    pub fn results(&self, agent: Digest, usable: Tokens) -> Tokens {
        let note = self.results_note(agent);
        match self.agents.get(&agent) {
            Some(agent) if agent.gets_results => {
                let least = LEAST_RESULT.times(agent.handed).min(Tokens(usable.0 / 2));
                self.results.share_of(usable).max(least).max(note)
            }
            _ => Tokens::ZERO,
        }
    }

    /// The tokens of one note in place of all results that an agent is handed: without room for
    /// it, the agent cannot work.
    pub fn results_note(&self, agent: Digest) -> Tokens {
        let handed = self.agents.get(&agent).map_or(0, |agent| agent.handed);
        LEAST_RESULT.times(handed.min(1))
    }

    fn role(&self, agent: &AgentNeeds) -> String {
        let definition = &*agent.definition;
        let client_options = self.client_options.as_ref().filter(|_| agent.is_lead);
        let names = self.preamble.tools().iter().map(|tool| &*tool.name);
        let allowed = names.filter(|name| {
            client_options.is_some_and(|client_options| client_options.has(name))
                || tool::allows(&definition.tools, name)
        });
        let colleagues = self.team.available.iter();
        let colleagues = colleagues.filter(|_| may_delegate(definition, &self.team));
        role_text(&Role {
            agent: definition.id.as_str(),
            description: &definition.description,
            instructions: &definition.instructions,
            allowed: &allowed.collect::<Vec<_>>(),
            colleagues: &colleagues
                .map(|agent| (agent.id.as_str(), &*agent.description))
                .collect::<Vec<_>>(),
            output_schema: definition.output_schema.as_deref(),
        })
    }
}

/// The values that roles depend on besides their definitions.
struct RoleContext {
    team: Digest,
    client_options: Option<Digest>,
}

impl RoleContext {
    fn role(&self, definition: Digest, is_lead: bool) -> Digest {
        let mut h = Hasher::new("unisono/role-of", 1);
        h.digest(&definition).digest(&self.team);
        if let Some(client_options) = self.client_options.filter(|_| is_lead) {
            h.digest(&client_options);
        }
        h.finish()
    }
}

/// The description of an agent for its own prompt.
#[derive(Clone, Copy, Debug)]
pub struct Role<'r> {
    /// Its name.
    pub agent: &'r str,
    /// Its purpose.
    pub description: &'r str,
    /// Its persona.
    pub instructions: &'r str,
    /// The tools it may call.
    pub allowed: &'r [&'r str],
    /// The agents to which it may delegate: name and description.
    pub colleagues: &'r [(&'r str, &'r str)],
    /// The schema of its answer.
    pub output_schema: Option<&'r str>,
}

/// The text of a role, as it is counted.
pub fn role_text(role: &Role<'_>) -> String {
    let mut out = format!(
        "{}\n{}\n{}\n{}",
        role.agent,
        role.description,
        role.instructions,
        role.allowed.join(" ")
    );
    for (agent, description) in role.colleagues {
        let _ = write!(out, "\n{agent}: {description}");
    }
    if let Some(schema) = role.output_schema {
        let _ = write!(out, "\n{schema}");
    }
    out
}

fn may_delegate(definition: &Definition, team: &Team) -> bool {
    let mut tools = definition.tools.iter();
    !team.available.is_empty() && tools.any(|tool| **tool == *DELEGATE)
}
