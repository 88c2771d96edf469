//! The agents of a turn and what each is at.

use std::sync::Arc;

use unisono_context::{AgentId, RunId, Timestamp};
use unisono_session::agent::Team;
use unisono_session::event::RunRole;
use unisono_session::run::{Cause, Ending, Run, Usage};
use unisono_session::turn::Turn;
use unisono_session::{Definition, State};

/// An agent of the turn.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) run: Option<RunId>,
    pub(crate) agent: AgentId,
    pub(crate) role: RunRole,
    /// Its stage, from 1, where it works in a pipeline.
    pub(crate) stage: Option<u32>,
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
    /// It gave tasks to others and goes on when all of them are done.
    Delegating,
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
            stage: None,
            opened_at: Timestamp(0),
            status: Status::Waiting,
        }
    }

    /// One word for its place.
    pub(crate) const fn role_word(&self) -> &'static str {
        match self.role {
            RunRole::Lead => "lead",
            RunRole::Delegate { .. } => "delegate",
            RunRole::Child { .. } => "child",
        }
    }

    /// Takes over what is recorded of its run.
    fn catch_up(&mut self, run: &Run) {
        self.run = Some(run.id);
        self.opened_at = run.opened_at;
        self.status = Status::at(run);
    }
}

/// The place of a run: the team has its own from the start, others come at the end.
pub(super) fn place_of(runs: &mut Vec<Watched>, role: RunRole, agent: &AgentId) -> usize {
    let known = runs.iter().position(|watched| watched.role == role);
    known.unwrap_or_else(|| {
        runs.push(Watched::waiting(role, agent.clone()));
        runs.len() - 1
    })
}

/// The agents of an open turn: the fan-out in order, the lead, then those that were given tasks
/// meanwhile.
pub(crate) fn members(state: &State, turn: &Turn) -> Vec<Watched> {
    let mut members = places(&turn.team);
    for run in state.runs_of(turn) {
        let index = place_of(&mut members, run.role, &run.agent);
        members[index].catch_up(run);
    }
    members
}

impl Status {
    /// What a run is at.
    pub(super) fn at(run: &Run) -> Status {
        match run.ending.as_deref() {
            Some(ending) => Status::of(ending),
            None if run.awaited() > 0 => Status::Delegating,
            None => Status::Running {
                attempt: run.attempt,
            },
        }
    }

    /// Whether it is still to end.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(
            self,
            Status::Waiting | Status::Running { .. } | Status::Delegating
        )
    }

    /// What an ending makes of it.
    fn of(ending: &Ending) -> Status {
        match ending.clone() {
            Ending::Finished {
                text,
                partial,
                usage,
                duration_ms: ms,
                ..
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
            Status::Waiting | Status::Delegating => "waiting",
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
fn places(team: &Team) -> Vec<Watched> {
    let delegates = (0u32..).zip(&team.delegates);
    let delegates = delegates.map(|(index, d)| (RunRole::Delegate { index }, &d.agent));
    let all = delegates.chain([(RunRole::Lead, &team.lead)]);
    let in_order = !team.lead.pipeline.is_empty();
    let place = |(role, agent): (RunRole, &Arc<Definition>)| Watched {
        stage: match role {
            RunRole::Delegate { index } if in_order => Some(index + 1),
            _ => None,
        },
        ..Watched::waiting(role, agent.id.clone())
    };
    all.map(place).collect()
}
