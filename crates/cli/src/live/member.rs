//! The agents of a turn and what each is at.

use std::sync::Arc;

use unisono_context::{AgentId, RunId, Timestamp};
use unisono_session::Definition;
use unisono_session::agent::{ContextMode, Team};
use unisono_session::event::RunRole;
use unisono_session::run::{Cause, Ending, Run, Usage};

/// An agent of the turn.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) run: Option<RunId>,
    pub(crate) agent: AgentId,
    pub(crate) role: RunRole,
    pub(crate) opened_at: Timestamp,
    pub(crate) status: Status,
}

/// What it is at.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Waiting,
    Running {
        attempt: u32,
    },
    Done {
        text: Arc<str>,
        partial: Option<Arc<str>>,
        usage: Usage,
        ms: u64,
    },
    Failed {
        cause: Cause,
        reason: Arc<str>,
        ms: u64,
    },
    Cancelled,
}

impl Watched {
    /// An agent that has not begun.
    pub(super) fn waiting(role: RunRole, agent: AgentId) -> Watched {
        Watched {
            run: None,
            agent,
            role,
            opened_at: Timestamp(0),
            status: Status::Waiting,
        }
    }

    /// Takes over what is recorded of its run.
    pub(super) fn catch_up(&mut self, run: &Run) {
        self.run = Some(run.id);
        self.opened_at = run.opened_at;
        self.status = match run.ending.as_deref() {
            Some(ending) => Status::of(ending),
            None => Status::Running {
                attempt: run.attempt,
            },
        };
    }
}

impl Status {
    /// What an ending makes of it.
    pub(super) fn of(ending: &Ending) -> Status {
        match ending.clone() {
            Ending::Finished {
                text,
                partial,
                usage,
                duration_ms: ms,
            } => Status::Done {
                text,
                partial,
                usage,
                ms,
            },
            Ending::Failed {
                cause,
                reason,
                duration_ms: ms,
            } => Status::Failed { cause, reason, ms },
            Ending::Cancelled => Status::Cancelled,
        }
    }

    /// One word for it.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Status::Waiting => "waiting",
            Status::Running { .. } => "running",
            Status::Done { partial: None, .. } => "done",
            Status::Done {
                partial: Some(_), ..
            } => "partial",
            Status::Failed { .. } => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

/// The places of a team: the fan-out in order, then the lead.
pub(super) fn places(team: &Team) -> Vec<Watched> {
    let delegates = (0u32..).zip(&team.delegates);
    let delegates = delegates.map(|(index, d)| (RunRole::Delegate { index }, &d.agent));
    let all = delegates.chain([(RunRole::Lead, &team.lead)]);
    let place =
        |(role, agent): (RunRole, &Arc<Definition>)| Watched::waiting(role, agent.id.clone());
    all.map(place).collect()
}

/// How many agents of a team are given the snapshot.
pub(super) fn sharing(team: &Team) -> usize {
    let delegates = team.delegates.iter().map(|d| &d.agent);
    let shared = delegates.filter(|agent| agent.context == ContextMode::Snapshot);
    shared.count() + 1
}
