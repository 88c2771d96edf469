//! The state of a turn from its updates: compactions, runs, end.

use unisono_api::approval::Approval;
use unisono_api::turn_event::{
    ChangedAgent, FrozenContext, Member, NewCheckpoint, TurnEnd, TurnEvent, TurnState,
};
use unisono_api::usage::Amounts;
use unisono_config::settings::Compaction;
use unisono_session::budget::EXCEEDED;

#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) session: String,
    pub(crate) turn: String,
    /// Its agents: the configured delegates in order, the lead, then the agents with delegated tasks.
    pub(crate) agents: Vec<Member>,
    /// Why the lead gives nobody a task though it could choose from some.
    pub(crate) no_delegation_reason: Option<String>,
    pub(crate) context: Option<FrozenContext>,
    /// Tokens of the context before anything was compacted.
    pub(crate) tokens_before: Option<u64>,
    /// Whether a step kept fewer messages than requested.
    pub(crate) tightened: bool,
    pub(crate) checkpoints: Vec<NewCheckpoint>,
    /// Its agents whose definitions have changed.
    pub(crate) changed: Vec<ChangedAgent>,
    /// Calls of tools that wait for a person.
    pub(crate) waiting: Vec<Approval>,
    pub(crate) end: Option<Box<TurnEnd>>,
    /// Whether automatic compactions are reported.
    pub(crate) notifies: bool,
    /// Whether a daemon works on it, so that it continues without this process.
    pub(crate) elsewhere: bool,
}

impl Watch {
    /// Of a turn that nothing is known of.
    pub(crate) fn new(session: String, turn: String) -> Watch {
        Watch {
            session,
            turn,
            notifies: true,
            ..Watch::default()
        }
    }

    /// Reports compactions as configured.
    pub(crate) fn notifying(mut self, compaction: &Compaction) -> Watch {
        self.notifies = compaction.notifies();
        self
    }

    /// Takes the next update.
    pub(crate) fn apply(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::State(state) => self.take(state.clone()),
            TurnEvent::Accepted {
                agents,
                no_delegation_reason,
                ..
            } => {
                self.agents.clone_from(agents);
                self.no_delegation_reason.clone_from(no_delegation_reason);
            }
            TurnEvent::Compacting {
                tokens_before,
                tightened,
                ..
            } => {
                self.tokens_before.get_or_insert(*tokens_before);
                self.tightened |= tightened.is_some();
            }
            TurnEvent::Compacted { checkpoint } => self.checkpoints.push(checkpoint.clone()),
            TurnEvent::Frozen { context } => self.context = Some(context.clone()),
            TurnEvent::Runs { agents } => agents.iter().for_each(|agent| self.put(agent)),
            TurnEvent::RunRetried { agent, .. } => self.put(agent),
            TurnEvent::Waiting { calls } => self.waiting.extend_from_slice(calls),
            TurnEvent::Decided { call, .. } => self.waiting.retain(|one| one.call != *call),
            TurnEvent::Ended(end) => {
                self.agents.clone_from(&end.agents);
                self.waiting.clear();
                self.end = Some(end.clone());
            }
            _ => {}
        }
    }

    fn take(&mut self, state: TurnState) {
        self.agents = state.agents;
        self.no_delegation_reason = state.no_delegation_reason;
        self.context = state.context;
        self.tokens_before = state.tokens_before;
        self.changed = state.changed_agents;
        self.waiting = state.waiting;
    }

    fn put(&mut self, agent: &Member) {
        if !agent.is_open() {
            // Its delegates have no receiver any more.
            let run = agent.run.as_deref();
            self.waiting.retain(|call| Some(&*call.run) != run);
        }
        match usize::try_from(agent.place)
            .ok()
            .and_then(|place| self.agents.get_mut(place))
        {
            Some(known) => known.clone_from(agent),
            None => self.agents.push(agent.clone()),
        }
    }

    /// The run of the lead, once it is open.
    pub(crate) fn lead(&self) -> Option<&str> {
        let mut agents = self.agents.iter();
        agents.find(|agent| agent.role == "lead")?.run.as_deref()
    }

    pub(crate) fn outcome(&self) -> Option<&str> {
        Some(self.end.as_ref()?.turn.state.as_str())
    }

    /// Why it failed: a code and a reason.
    pub(crate) fn error(&self) -> Option<(&str, &str)> {
        let error = self.end.as_ref()?.turn.error.as_ref()?;
        Some((&error.code, &error.reason))
    }

    pub(crate) fn answer(&self) -> Option<&str> {
        self.end.as_ref()?.turn.answer.as_deref()
    }

    /// The usage of the turn; before its end, of the finished runs.
    pub(crate) fn usage(&self) -> Amounts {
        match &self.end {
            Some(end) => end.turn.usage,
            None => {
                let finished = self.agents.iter().filter_map(|agent| agent.usage.as_ref());
                Amounts::together(finished)
            }
        }
    }

    /// For a compaction or a revert: the tokens before and after.
    pub(crate) fn amounts(&self) -> Option<(u64, u64)> {
        let end = self.end.as_ref()?;
        end.tokens_before.zip(end.tokens_after)
    }

    pub(crate) fn of_state(&self, state: &str) -> Vec<&str> {
        let agents = self.agents.iter().filter(|agent| agent.state == state);
        agents.map(|agent| agent.agent.as_str()).collect()
    }

    /// Why an agent was stopped by a budget, or the turn was.
    pub(crate) fn over_budget(&self) -> Option<&str> {
        if let Some((EXCEEDED, reason)) = self.error() {
            return Some(reason);
        }
        self.agents.iter().find_map(|agent| {
            let error = agent.error.as_ref()?;
            let over = match agent.state.as_str() {
                "partial" => error.reason.starts_with(EXCEEDED),
                _ => error.code == EXCEEDED,
            };
            over.then_some(error.reason.as_str())
        })
    }
}
