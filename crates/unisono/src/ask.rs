//! Requests to a session, as turns with their agents and their policy.

mod attachments;
mod bounds;
mod caps;
mod tools;

use std::sync::Arc;

use unisono_context::call::ClientOptions;
use unisono_context::compaction::{ContextPart, Mode};
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::policy::{Keep, ModelQuota, Policy};
use unisono_context::snapshot::ToolSpec;
use unisono_context::tokens::{Counts, Ppm};
use unisono_context::{AgentId, CheckpointId, Digest, MessageId, TurnId};
use unisono_model::calibration::Calibrations;
use unisono_runtime::{RecallScope, clock};
use unisono_session::State;
use unisono_session::agent::Team;
use unisono_session::event::{
    AcceptedTurn, Calibration, DelegationLimits, Outcome, RequestKey, SummaryOptions, Work,
};
use unisono_session::machine::{NewTurn, PrecedingMessages};
use unisono_session::state::{CallCap, MAIN};
use uuid::Uuid;

use crate::models;
use unisono_config::agents::Error;
use unisono_config::settings::{Override, Resolved};
use unisono_config::setup::Setup;
use unisono_config::summarisers::{self, SummariserUnavailable};

pub use bounds::{Bounds, Shape};
pub use caps::caps;
pub(crate) use tools::asks_permission;
pub use tools::{ClientToolsRefused, rules_of, servers_of, tools_of};
pub(crate) use tools::{add_client_tools, allow_server, offered_to};

/// A request to a session: a turn on the branch `main`, with the configured lead, agents and
/// settings, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    work: Purpose,
    branch: Arc<str>,
    lead: Option<String>,
    agents: Option<Vec<String>>,
    key: Option<RequestKey>,
    settings: Vec<Override>,
    tools: Vec<ToolSpec>,
    client_options: ClientOptions,
    /// All parts of the task, if it is more than a text.
    parts: Option<Vec<Part>>,
    /// The person who says the task, if it is known.
    author: Option<AgentId>,
    /// Results of client tools before the task.
    brought: Vec<Part>,
    /// Messages to append before it.
    preceding: Option<PrecedingMessages>,
    bounds: Bounds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    Task(String),
    /// The results of the client tool calls of the last answer.
    Results(Vec<Part>),
    Compact(Option<Keep>, SummaryOptions),
    CompactPart(ContextPart, SummaryOptions),
    Revert(CheckpointId),
    Regenerate(CheckpointId, SummaryOptions),
    Edit(CheckpointId, Arc<str>, Counts),
}

impl Ask {
    /// Asks for an answer to this task, which becomes a message of the user.
    pub fn new(task: impl Into<String>) -> Ask {
        Ask::for_purpose(Purpose::Task(task.into()))
    }

    /// Continues an agent that called client tools. `results` are the results of these calls, each
    /// a [`Part::ToolResult`].
    pub fn from_results(results: Vec<Part>) -> Ask {
        Ask::for_purpose(Purpose::Results(results))
    }

    /// Adds the results of client tool calls of the last answer before the new task; each is a
    /// [`Part::ToolResult`].
    #[must_use]
    pub fn after(mut self, results: Vec<Part>) -> Ask {
        self.brought = results;
        self
    }

    /// Names the person who says the task.
    #[must_use]
    pub fn with_author(self, author: Option<AgentId>) -> Ask {
        Ask { author, ..self }
    }

    /// Adds messages that are appended before it; if it is refused, they are not appended.
    #[must_use]
    pub fn with_preceding(mut self, preceding: PrecedingMessages) -> Ask {
        self.preceding = Some(preceding);
        self
    }

    /// Adds client tools for the lead: the client makes their calls.
    #[must_use]
    pub fn with_client_tools(self, tools: Vec<ToolSpec>, client_options: ClientOptions) -> Ask {
        Ask {
            tools,
            client_options,
            ..self
        }
    }

    /// Runs agents in parallel, each on its own task or on `task`, and then a lead that answers
    /// with their results. A lead that delegates by itself delegates to no other agents.
    pub fn delegation<'a>(
        task: &str,
        agents: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Ask {
        let agents = agents.into_iter();
        // Each with a task: a delegating lead chooses among agents without one.
        let agents = agents.map(|(agent, own)| format!("{agent}={}", own.unwrap_or(task)));
        Ask::new(task).agents(agents)
    }

    /// Asks for a compaction. Without `keep`, all messages from the newest user message on stay.
    pub fn compaction(keep: Option<Keep>, writing: SummaryOptions) -> Ask {
        Ask::without_agents(Purpose::Compact(keep, writing))
    }

    /// Asks for the compaction of one part of the context.
    pub fn compaction_of(part: ContextPart, writing: SummaryOptions) -> Ask {
        Ask::without_agents(Purpose::CompactPart(part, writing))
    }

    /// Asks to revert a checkpoint.
    pub fn revert(checkpoint: CheckpointId) -> Ask {
        Ask::without_agents(Purpose::Revert(checkpoint))
    }

    /// Asks to regenerate a checkpoint.
    pub fn regenerate(checkpoint: CheckpointId, writing: SummaryOptions) -> Ask {
        Ask::without_agents(Purpose::Regenerate(checkpoint, writing))
    }

    /// Requests a summary again that a turn could not write, with other options; none if the turn
    /// had another purpose.
    pub fn retry(asked: &AcceptedTurn, writing: SummaryOptions) -> Option<Ask> {
        let ask = match asked.work {
            Work::Compact { keep, .. } => Ask::compaction(keep, writing),
            Work::CompactPart { part, .. } => Ask::compaction_of(part, writing),
            Work::Regenerate { checkpoint, .. } => Ask::regenerate(checkpoint, writing),
            Work::Answer { .. } | Work::Revert { .. } | Work::Edit { .. } => return None,
        };
        Some(ask.branch(asked.branch.clone()))
    }

    /// Replaces the text of a checkpoint. `counts` are the tokens of its block with this text.
    pub fn edit(checkpoint: CheckpointId, text: Arc<str>, counts: Counts) -> Ask {
        Ask::without_agents(Purpose::Edit(checkpoint, text, counts))
    }

    fn without_agents(work: Purpose) -> Ask {
        Ask {
            agents: Some(Vec::new()),
            ..Ask::for_purpose(work)
        }
    }

    fn for_purpose(work: Purpose) -> Ask {
        Ask {
            work,
            branch: MAIN.into(),
            lead: None,
            agents: None,
            key: None,
            settings: Vec::new(),
            tools: Vec::new(),
            client_options: ClientOptions::default(),
            parts: None,
            author: None,
            brought: Vec::new(),
            preceding: None,
            bounds: Bounds::default(),
        }
    }

    /// Limits the length and the format of the lead's replies.
    #[must_use]
    pub fn with_bounds(mut self, bounds: Bounds) -> Ask {
        self.client_options.max_output = bounds.max_output;
        Ask { bounds, ..self }
    }

    /// Ends the lead's replies at the first of these texts.
    #[must_use]
    pub fn stopping_at(mut self, stop: Vec<Arc<str>>) -> Ask {
        self.client_options.stop = stop;
        self
    }

    /// Selects another branch than `main`.
    #[must_use]
    pub fn branch(mut self, branch: impl Into<Arc<str>>) -> Ask {
        self.branch = branch.into();
        self
    }

    /// Sets an idempotency key: a repeated request with it is the same turn, also after a crash.
    #[must_use]
    pub fn with_key(mut self, key: Option<RequestKey>) -> Ask {
        self.key = key;
        self
    }

    /// Sets its own settings, which override all others.
    #[must_use]
    pub fn with_settings(mut self, settings: Vec<Override>) -> Ask {
        self.settings = settings;
        self
    }

    /// Its own settings.
    pub fn settings(&self) -> &[Override] {
        &self.settings
    }

    /// Its idempotency key.
    pub fn key(&self) -> Option<&RequestKey> {
        self.key.as_ref()
    }

    /// The person who says the task, if it is known.
    pub(crate) fn author(&self) -> Option<&AgentId> {
        self.author.as_ref()
    }

    pub(crate) fn preceding(&self) -> Option<&PrecedingMessages> {
        self.preceding.as_ref()
    }

    /// Its branch.
    pub fn on_branch(&self) -> &str {
        &self.branch
    }

    /// The mode of planning for a requested compaction.
    pub(crate) fn mode(&self) -> Mode {
        match self.work {
            Purpose::Compact(keep, _) => Mode::Manual { keep },
            Purpose::CompactPart(part, _) => Mode::Part(part),
            _ => Mode::Manual { keep: None },
        }
    }

    /// The summariser, instead of the configured ones.
    pub(crate) fn summariser(&self) -> Option<&str> {
        match &self.work {
            Purpose::Compact(_, writing)
            | Purpose::CompactPart(_, writing)
            | Purpose::Regenerate(_, writing) => writing.summariser.as_deref(),
            _ => None,
        }
    }

    /// Sets the agent that answers.
    #[must_use]
    pub fn lead(mut self, lead: impl Into<String>) -> Ask {
        self.lead = Some(lead.into());
        self
    }

    /// Sets the agents that work before the lead, each `agent` or `agent=task`; none: the lead works
    /// alone. A lead with the tool `delegate` chooses among those without a task.
    #[must_use]
    pub fn agents<S: Into<String>>(mut self, agents: impl IntoIterator<Item = S>) -> Ask {
        self.agents = Some(agents.into_iter().map(Into::into).collect());
        self
    }

    /// Its agents.
    ///
    /// # Errors
    /// An agent is unknown, or the lead among its delegates.
    pub fn team(&self, setup: &Setup) -> Result<Team, Error> {
        let turn = &setup.loaded.config.turn;
        let lead = self.lead.as_deref().unwrap_or(&turn.lead);
        let usual = match setup.roster.get(lead)?.pipeline[..] {
            [] => &turn.agents[..],
            // The team is complete.
            _ => &[],
        };
        let agents = self.agents.as_deref().unwrap_or(usual);
        let mut team = setup.roster.team(lead, agents)?;
        self.bounds.apply(&mut team);
        Ok(team)
    }

    /// The inputs for measuring its context.
    ///
    /// # Errors
    /// An agent is unknown, or the lead among its delegates.
    pub fn context_inputs(
        &self,
        setup: &Setup,
        learnt: &Calibrations,
    ) -> Result<ContextInputs, Error> {
        let mut team = self.team(setup)?;
        models::limit_to_reported_windows(&mut team, learnt);
        let (policy, safety) = policy(setup, &team);
        let calibrations = models::calibrations(setup, &team, learnt);
        Ok(ContextInputs {
            team,
            policy,
            safety,
            calibrations,
            delegation: setup.loaded.config.delegation.limits(),
            recall: setup.loaded.config.runtime.recall,
            instructions: setup.instructions(&[]).into(),
            reads_skills: setup.has_skills(),
        })
    }
}

/// The inputs for measuring a context: for planning a turn, and for showing the context.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContextInputs {
    /// The agents, with the known windows of their models.
    pub team: Team,
    /// When their conversation is compacted.
    pub policy: Policy,
    /// The share of the window that stays free.
    pub safety: Ppm,
    /// The calibrations of models whose tokens are estimated.
    pub calibrations: Vec<Calibration>,
    /// The limits of delegation, with the share of a window reserved for results of delegates.
    pub delegation: DelegationLimits,
    /// The scope of `recall`, which its description states.
    pub recall: RecallScope,
    /// The instructions of the project for every agent.
    pub instructions: Arc<str>,
    /// Whether there are skills, which agents read with the tool `skill`.
    pub reads_skills: bool,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedTurn {
    /// The turn.
    pub turn: TurnId,
    /// Its outcome.
    pub outcome: Outcome,
    /// The lead's answer; none if [`FinishedTurn::outcome`] is not [`Outcome::Answered`].
    pub answer: Option<String>,
}

/// The turn for an ask, with a new id.
///
/// # Errors
/// An agent is unknown, or the lead among its delegates.
pub fn turn(setup: &Setup, ask: &Ask, learnt: &Calibrations) -> Result<NewTurn, Error> {
    let ContextInputs {
        team,
        policy,
        safety,
        calibrations,
        delegation,
        recall,
        instructions,
        reads_skills: _,
    } = ask.context_inputs(setup, learnt)?;
    Ok(NewTurn {
        id: TurnId::new(Uuid::now_v7()),
        branch: ask.branch.clone(),
        work: work(ask),
        tools: tools_of(&team, recall, []),
        instructions,
        phrases: phrases(setup, &team.lead),
        calibrations,
        prepare: prepare(setup, &team),
        caps: caps(setup, &team),
        team,
        policy,
        safety,
        delegation,
        rules: Arc::new(tools::hooks_alone(setup)),
        call_cap: CallCap(setup.loaded.config.turn.calls_per_reply),
    })
}

fn work(ask: &Ask) -> Work {
    match &ask.work {
        Purpose::Task(task) => answer(
            ask,
            Role::User,
            ask.brought.iter().cloned().chain(ask.parts(task)).collect(),
        ),
        Purpose::Results(results) => answer(ask, Role::Tool, results.clone()),
        Purpose::Compact(keep, writing) => Work::Compact {
            keep: *keep,
            writing: writing.clone(),
        },
        Purpose::CompactPart(part, writing) => Work::CompactPart {
            part: *part,
            writing: writing.clone(),
        },
        Purpose::Revert(checkpoint) => Work::Revert {
            checkpoint: *checkpoint,
        },
        Purpose::Regenerate(checkpoint, writing) => Work::Regenerate {
            checkpoint: *checkpoint,
            writing: writing.clone(),
        },
        Purpose::Edit(checkpoint, text, counts) => Work::Edit {
            checkpoint: *checkpoint,
            text: text.clone(),
            counts: *counts,
        },
    }
}

/// An answer to a new message.
fn answer(ask: &Ask, role: Role, parts: Vec<Part>) -> Work {
    Work::Answer {
        input: NewMessage {
            id: MessageId::new(Uuid::now_v7()),
            role,
            parts,
            author: ask.author.clone().filter(|_| role == Role::User),
            at: clock::now(),
            usage: None,
        },
        client_options: ask.client_options.clone(),
    }
}

/// Digest of the settings by which models write summaries, if one may be written ahead.
fn prepare(setup: &Setup, team: &Team) -> Option<Digest> {
    let prepares = setup.loaded.config.compaction.prepares();
    let digest = prepares.then(|| summarisers::digest(&setup.loaded, &team.lead.model));
    digest.flatten()
}

/// The compaction policy of a team's conversation, and the share of the window that stays free: as
/// configured for the lead's model. If no summariser is available, no summary by a model is
/// planned.
pub fn policy(setup: &Setup, team: &Team) -> (Policy, Ppm) {
    let config = &setup.loaded.config.compaction;
    let model = setup.loaded.catalogue.get(None, &team.lead.model);
    // A roster contains no agent with an unknown model.
    let resolved = model.map(|entry| config.resolve(&entry));
    let (mut policy, safety) = resolved.map_or_else(
        |_| (Policy::default(), Ppm::percent(5)),
        |Resolved { policy, safety, .. }| (policy, safety),
    );
    if summarisers::models(&setup.loaded, &team.lead.model).is_empty() {
        policy.quota = Some(ModelQuota::NONE);
    }
    (policy, safety)
}

/// Whether the requested summariser is available; without a request, nothing is checked.
///
/// # Errors
/// The reason why it is not available.
pub(crate) fn check_chosen(
    setup: &Setup,
    ask: &Ask,
    team: &Team,
    policy: &Policy,
) -> Result<(), SummariserUnavailable> {
    let lead = &team.lead.model;
    let check = |name| summarisers::check_chosen(&setup.loaded, lead, policy, name);
    ask.summariser().map_or(Ok(()), check)
}

/// The phrases that end a topic in conversations of this lead.
pub(crate) fn phrases(setup: &Setup, lead: &unisono_session::Definition) -> Vec<Arc<str>> {
    let model = setup.loaded.catalogue.get(None, &lead.model);
    let config = &setup.loaded.config.compaction;
    model.map_or_else(|_| Vec::new(), |entry| config.resolve(&entry).phrases)
}

pub(crate) fn text_of(state: &State, id: MessageId) -> Option<String> {
    state
        .tree()
        .get(id)
        .map(|node| node.message.countable_text())
}
