//! What a person asks of a session, as a turn with its agents and its policy.

mod bounds;
mod caps;
mod request;
mod tools;

use std::sync::Arc;

use unisono_context::call::ClientOptions;
use unisono_context::checkpoint::Checkpoint;
use unisono_context::compaction::{ContextPart, Mode};
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::policy::{Keep, ModelQuota, Policy};
use unisono_context::snapshot::ToolSpec;
use unisono_context::tokens::{Counts, Ppm};
use unisono_context::{CheckpointId, MessageId, TurnId};
use unisono_model::calibration::Calibrations;
use unisono_model::redact::redact;
use unisono_runtime::{Reach, clock};
use unisono_session::State;
use unisono_session::agent::Team;
use unisono_session::event::{
    AcceptedTurn, Calibration, DelegationLimits, Outcome, RequestKey, Work, Writing,
};
use unisono_session::machine::{NewTurn, Preceding};
use unisono_session::state::{CallCap, MAIN};
use uuid::Uuid;

use crate::context;
use crate::models;
use unisono_config::agents::Error;
use unisono_config::settings::{Override, Resolved};
use unisono_config::setup::Setup;
use unisono_config::summarisers::{self, Unaskable};

pub use bounds::{Bounds, Shape};
pub use caps::caps;
pub(crate) use tools::lend;
pub(crate) use tools::offered_to;
pub use tools::{ClientToolsRefused, rules_of, servers_of, tools_of};

/// A task for a session. What is not said is as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    work: What,
    branch: Arc<str>,
    lead: Option<String>,
    agents: Option<Vec<String>>,
    key: Option<RequestKey>,
    settings: Vec<Override>,
    tools: Vec<ToolSpec>,
    client_options: ClientOptions,
    /// What tools came back with before the task.
    brought: Vec<Part>,
    /// What is appended before it.
    preceding: Option<Preceding>,
    bounds: Bounds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Task(String),
    /// What the tools came back with whose calls the last answer left to whoever asked.
    Results(Vec<Part>),
    Compact(Option<Keep>, Writing),
    CompactPart(ContextPart, Writing),
    Restore(CheckpointId),
    Regenerate(CheckpointId, Writing),
    Edit(CheckpointId, Arc<str>, Counts),
}

impl Ask {
    /// Asks for an answer.
    pub fn new(task: impl Into<String>) -> Ask {
        Ask::of(What::Task(task.into()))
    }

    /// Has an agent go on that left calls to whoever asked. `results` are what they came back
    /// with, each a [`Part::ToolResult`].
    pub fn go_on(results: Vec<Part>) -> Ask {
        Ask::of(What::Results(results))
    }

    /// What tools came back with whose calls the last answer left to whoever asked, before what is
    /// asked now; each a [`Part::ToolResult`].
    #[must_use]
    pub fn after(self, results: Vec<Part>) -> Ask {
        Ask {
            brought: results,
            ..self
        }
    }

    /// Behind messages that are appended with it; where it is refused, they are not.
    #[must_use]
    pub fn behind(self, preceding: Preceding) -> Ask {
        Ask {
            preceding: Some(preceding),
            ..self
        }
    }

    /// Lends the lead tools: what it calls of them is left to whoever asks.
    #[must_use]
    pub fn lending(self, tools: Vec<ToolSpec>, client_options: ClientOptions) -> Ask {
        Ask {
            tools,
            client_options,
            ..self
        }
    }

    /// Has agents work at once, each on what it is given or else on the task of all, and a lead
    /// answer with what they found. A lead that delegates by itself gives out nothing else.
    pub fn delegation<'a>(
        task: &str,
        agents: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Ask {
        let agents = agents.into_iter();
        // Each with a task: those without one are a delegating lead's to choose from.
        let agents = agents.map(|(agent, own)| format!("{agent}={}", own.unwrap_or(task)));
        Ask::new(task).agents(agents)
    }

    /// Asks for a compaction. Without `keep`, all from the newest user message on stays.
    pub fn compaction(keep: Option<Keep>, writing: Writing) -> Ask {
        Ask {
            agents: Some(Vec::new()),
            ..Ask::of(What::Compact(keep, writing))
        }
    }

    /// Asks for one part of the context to be made smaller.
    pub fn compaction_of(part: ContextPart, writing: Writing) -> Ask {
        Ask {
            agents: Some(Vec::new()),
            ..Ask::of(What::CompactPart(part, writing))
        }
    }

    /// Asks for a checkpoint to be taken back.
    pub fn restore(checkpoint: CheckpointId) -> Ask {
        Ask {
            agents: Some(Vec::new()),
            ..Ask::of(What::Restore(checkpoint))
        }
    }

    /// Asks for a checkpoint to be written anew.
    pub fn regenerate(checkpoint: CheckpointId, writing: Writing) -> Ask {
        Ask {
            agents: Some(Vec::new()),
            ..Ask::of(What::Regenerate(checkpoint, writing))
        }
    }

    /// Asks once more for a summary that a turn could not have written, and writes it that way;
    /// none where the turn was for something else.
    pub fn again(asked: &AcceptedTurn, writing: Writing) -> Option<Ask> {
        let ask = match asked.work {
            Work::Compact { keep, .. } => Ask::compaction(keep, writing),
            Work::CompactPart { part, .. } => Ask::compaction_of(part, writing),
            Work::Regenerate { checkpoint, .. } => Ask::regenerate(checkpoint, writing),
            Work::Answer { .. } | Work::Restore { .. } | Work::Edit { .. } => return None,
        };
        Some(ask.branch(asked.branch.clone()))
    }

    /// Puts a text in place of a checkpoint's, what looks like a key left out. Counts it: takes
    /// time.
    ///
    /// # Errors
    /// It cannot be counted.
    pub fn edit(checkpoint: &Checkpoint, text: &str) -> Result<Ask, context::Error> {
        let text: Arc<str> = redact(text.trim()).into();
        let counts = context::block_counts(checkpoint, &text)?;
        Ok(Ask {
            agents: Some(Vec::new()),
            ..Ask::of(What::Edit(checkpoint.id, text, counts))
        })
    }

    fn of(work: What) -> Ask {
        Ask {
            work,
            branch: MAIN.into(),
            lead: None,
            agents: None,
            key: None,
            settings: Vec::new(),
            tools: Vec::new(),
            client_options: ClientOptions::default(),
            brought: Vec::new(),
            preceding: None,
            bounds: Bounds::default(),
        }
    }

    /// Wants replies of that length and shape of the lead.
    #[must_use]
    pub fn bounded(mut self, bounds: Bounds) -> Ask {
        self.client_options.max_output = bounds.max_output;
        Ask { bounds, ..self }
    }

    /// Wants the lead's replies to end at the first of these texts.
    #[must_use]
    pub fn stopping_at(mut self, stop: Vec<Arc<str>>) -> Ask {
        self.client_options.stop = stop;
        self
    }

    /// On another branch than `main`.
    #[must_use]
    pub fn branch(mut self, branch: impl Into<Arc<str>>) -> Ask {
        self.branch = branch.into();
        self
    }

    /// Under a key: asked again under it, it is the same turn, also after a crash.
    #[must_use]
    pub fn keyed(mut self, key: Option<RequestKey>) -> Ask {
        self.key = key;
        self
    }

    /// With settings of its own, which win over all others.
    #[must_use]
    pub fn with_settings(mut self, settings: Vec<Override>) -> Ask {
        self.settings = settings;
        self
    }

    /// Its own settings.
    pub fn settings(&self) -> &[Override] {
        &self.settings
    }

    /// The key it is asked under.
    pub fn key(&self) -> Option<&RequestKey> {
        self.key.as_ref()
    }

    /// What is appended before it.
    pub(crate) fn preceding(&self) -> Option<&Preceding> {
        self.preceding.as_ref()
    }

    /// The branch it is asked of.
    pub fn on_branch(&self) -> &str {
        &self.branch
    }

    /// How a compaction is planned that is asked for.
    pub(crate) fn mode(&self) -> Mode {
        match self.work {
            What::Compact(keep, _) => Mode::Manual { keep },
            What::CompactPart(part, _) => Mode::Part(part),
            _ => Mode::Manual { keep: None },
        }
    }

    /// Who is to write a summary, in place of those that are configured.
    pub(crate) fn summariser(&self) -> Option<&str> {
        match &self.work {
            What::Compact(_, writing)
            | What::CompactPart(_, writing)
            | What::Regenerate(_, writing) => writing.summariser.as_deref(),
            _ => None,
        }
    }

    /// The agent that answers.
    #[must_use]
    pub fn lead(mut self, lead: impl Into<String>) -> Ask {
        self.lead = Some(lead.into());
        self
    }

    /// The agents that work before it, each `agent` or `agent=task`; for a lead with the tool
    /// `delegate`, those without a task are the ones it may choose from.
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
        let run = &setup.loaded.config.run;
        let lead = self.lead.as_deref().unwrap_or(&run.lead);
        let usual = match setup.roster.get(lead)?.pipeline[..] {
            [] => &run.agents[..],
            // It has all it works with.
            _ => &[],
        };
        let agents = self.agents.as_deref().unwrap_or(usual);
        let mut team = setup.roster.team(lead, agents)?;
        self.bounds.apply(&mut team);
        Ok(team)
    }

    /// What its context is measured by.
    ///
    /// # Errors
    /// An agent is unknown, or the lead among its delegates.
    pub fn measured_by(&self, setup: &Setup, learnt: &Calibrations) -> Result<Measure, Error> {
        let mut team = self.team(setup)?;
        models::within_learnt(&mut team, learnt);
        let (policy, safety) = policy(setup, &team);
        let calibrations = models::calibrations(setup, &team, learnt);
        Ok(Measure {
            team,
            policy,
            safety,
            calibrations,
            delegation: setup.loaded.config.delegation.limits(),
            recall: setup.loaded.config.runtime.recall,
            instructions: setup.instructions().into(),
        })
    }
}

/// What a context is measured by: a turn is planned by it, and those see it who only look.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The agents, within the windows that are known of their models.
    pub team: Team,
    /// When their conversation is compacted.
    pub policy: Policy,
    /// The share of the window that stays free.
    pub safety: Ppm,
    /// What is known of models whose tokens are estimated.
    pub calibrations: Vec<Calibration>,
    /// What of a window is kept free for results of delegates.
    pub delegation: DelegationLimits,
    /// What `recall` may search, which its description says.
    pub recall: Reach,
    /// What the project tells every agent.
    pub instructions: Arc<str>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finished {
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub outcome: Outcome,
    /// The lead's answer.
    pub answer: Option<String>,
}

/// The turn that an ask becomes, with a new id.
///
/// # Errors
/// An agent is unknown, or the lead among its delegates.
pub fn turn(setup: &Setup, ask: &Ask, learnt: &Calibrations) -> Result<NewTurn, Error> {
    let Measure {
        team,
        policy,
        safety,
        calibrations,
        delegation,
        recall,
        instructions,
    } = ask.measured_by(setup, learnt)?;
    let caps = caps(setup, &team);
    let answer = |role, parts| Work::Answer {
        input: NewMessage {
            id: MessageId::new(Uuid::now_v7()),
            role,
            parts,
            author: None,
            at: clock::now(),
            usage: None,
        },
        client_options: ask.client_options.clone(),
    };
    let work = match &ask.work {
        What::Task(task) => {
            let said = std::iter::once(Part::text(task.as_str()));
            answer(
                Role::User,
                ask.brought.iter().cloned().chain(said).collect(),
            )
        }
        What::Results(results) => answer(Role::Tool, results.clone()),
        What::Compact(keep, writing) => Work::Compact {
            keep: *keep,
            writing: writing.clone(),
        },
        What::CompactPart(part, writing) => Work::CompactPart {
            part: *part,
            writing: writing.clone(),
        },
        What::Restore(checkpoint) => Work::Restore {
            checkpoint: *checkpoint,
        },
        What::Regenerate(checkpoint, writing) => Work::Regenerate {
            checkpoint: *checkpoint,
            writing: writing.clone(),
        },
        What::Edit(checkpoint, text, counts) => Work::Edit {
            checkpoint: *checkpoint,
            text: text.clone(),
            counts: *counts,
        },
    };
    Ok(NewTurn {
        id: TurnId::new(Uuid::now_v7()),
        branch: ask.branch.clone(),
        work,
        tools: tools_of(&team, recall, []),
        instructions,
        phrases: phrases(setup, &team.lead),
        calibrations,
        team,
        policy,
        safety,
        delegation,
        rules: Arc::default(),
        call_cap: CallCap(setup.loaded.config.run.calls_per_reply),
        caps,
    })
}

/// When a team's conversation is compacted, and the share of the window that stays free: as
/// configured for the lead's model. Where no model can be asked for summaries, none is planned to
/// write one.
pub fn policy(setup: &Setup, team: &Team) -> (Policy, Ppm) {
    let config = &setup.loaded.config.compaction;
    let model = setup.loaded.catalogue.get(None, &team.lead.model);
    // A roster holds no agent whose model cannot be looked up.
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

/// Whether the summariser that is asked for, if one is, can write.
///
/// # Errors
/// Why not.
pub(crate) fn check_chosen(
    setup: &Setup,
    ask: &Ask,
    team: &Team,
    policy: &Policy,
) -> Result<(), Unaskable> {
    let lead = &team.lead.model;
    let check = |name| summarisers::check_chosen(setup, lead, policy, name);
    ask.summariser().map_or(Ok(()), check)
}

/// What ends a topic of a conversation that the agent leads.
pub(crate) fn phrases(setup: &Setup, lead: &unisono_session::Definition) -> Vec<Arc<str>> {
    let model = setup.loaded.catalogue.get(None, &lead.model);
    let config = &setup.loaded.config.compaction;
    model.map_or_else(|_| Vec::new(), |entry| config.resolve(&entry).phrases)
}

/// The text of a message.
pub(crate) fn text_of(state: &State, id: MessageId) -> Option<String> {
    state
        .tree()
        .get(id)
        .map(|node| node.message.countable_text())
}
