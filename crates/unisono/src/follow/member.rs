//! The agents of a turn and their states.

use unisono_api::turn::{ErrorInfo, RunPause};
use unisono_api::turn_event::Member;
use unisono_context::{AgentId, RunId};
use unisono_session::agent::Team;
use unisono_session::event::RunRole;
use unisono_session::run::{Ending, Run};
use unisono_session::turn::Turn;
use unisono_session::{Definition, State};

use crate::values;

/// The agents of an open turn: the delegates in order, the lead, then later delegates.
pub fn members(state: &State, turn: &Turn) -> Vec<Member> {
    Agents::at_work(state, turn).to_api()
}

#[derive(Debug, Default)]
pub(super) struct Agents(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    role: RunRole,
    run: Option<RunId>,
    agent: AgentId,
    stage: Option<u32>,
    status: Status,
}

#[derive(Debug)]
enum Status {
    Waiting,
    Running {
        attempt: u32,
        pause: Option<Box<RunPause>>,
    },
    Delegating,
    Ended(Ending),
}

impl Agents {
    pub(super) fn at_work(state: &State, turn: &Turn) -> Agents {
        let mut agents = Agents(seats(&turn.team));
        for run in state.runs_of(turn) {
            agents.open(run.role, &run.agent, run.id);
            agents.update(run);
        }
        agents
    }

    /// A run begins: the team has its positions from the start, later delegates are added at the
    /// end.
    pub(super) fn open(&mut self, role: RunRole, agent: &AgentId, run: RunId) -> Member {
        let known = self.0.iter().position(|seat| seat.role == role);
        let place = known.unwrap_or_else(|| {
            self.0.push(Slot::waiting(role, agent.clone()));
            self.0.len() - 1
        });
        let seat = &mut self.0[place];
        seat.run = Some(run);
        seat.status = Status::Running {
            attempt: 1,
            pause: None,
        };
        seat.to_api(place)
    }

    /// Updates the state of a run; none if the turn does not have it.
    pub(super) fn update(&mut self, run: &Run) -> Option<Member> {
        let place = self.0.iter().position(|seat| seat.run == Some(run.id))?;
        let seat = &mut self.0[place];
        seat.status = Status::of_run(run);
        Some(seat.to_api(place))
    }

    pub(super) fn parent_of(&self, run: RunId) -> Option<RunId> {
        let seat = self.0.iter().find(|seat| seat.run == Some(run))?;
        seat.role.parent()
    }

    /// Runs that have not ended are cancelled with their turn.
    pub(super) fn cancel_open(&mut self) {
        for seat in &mut self.0 {
            if !matches!(seat.status, Status::Ended(_)) {
                seat.status = Status::Ended(Ending::Cancelled);
            }
        }
    }

    pub(super) fn to_api(&self) -> Vec<Member> {
        let seats = self.0.iter().enumerate();
        seats.map(|(place, seat)| seat.to_api(place)).collect()
    }
}

impl Slot {
    fn waiting(role: RunRole, agent: AgentId) -> Slot {
        Slot {
            role,
            run: None,
            agent,
            stage: None,
            status: Status::Waiting,
        }
    }

    fn to_api(&self, place: usize) -> Member {
        let mut member = Member {
            place: place as u64,
            run: self.run.map(|run| run.to_string()),
            agent: self.agent.to_string(),
            role: self.role.name().to_owned(),
            stage: self.stage,
            parent: self.role.parent().map(|parent| parent.to_string()),
            state: self.status.name().to_owned(),
            attempt: None,
            pause: None,
            text: None,
            error: None,
            usage: None,
            duration_ms: None,
        };
        let fault = |code: &str, reason: &str| ErrorInfo {
            code: code.to_owned(),
            reason: reason.to_owned(),
        };
        match &self.status {
            Status::Running { attempt, pause } => {
                member.attempt = Some(*attempt);
                member.pause = pause.clone();
            }
            Status::Ended(Ending::Finished {
                text,
                partial,
                usage,
                duration_ms,
                ..
            }) => {
                member.text = Some(text.to_string());
                member.error = partial.as_ref().map(|why| fault("partial", why));
                member.usage = Some(values::amounts(usage));
                member.duration_ms = Some(*duration_ms);
            }
            Status::Ended(Ending::Failed {
                cause,
                reason,
                duration_ms,
                ..
            }) => {
                member.error = Some(fault(cause.code(), reason));
                member.duration_ms = Some(*duration_ms);
            }
            Status::Waiting | Status::Delegating | Status::Ended(Ending::Cancelled) => {}
        }
        member
    }
}

impl Status {
    fn of_run(run: &Run) -> Status {
        match run.ending.as_deref() {
            Some(ending) => Status::Ended(ending.clone()),
            None if run.awaited_children() > 0 => Status::Delegating,
            None => Status::Running {
                attempt: run.attempt,
                pause: run.failures.as_ref().map(|(_, last)| {
                    Box::new(RunPause {
                        until: values::instant(run.not_before),
                        reason: last.to_string(),
                    })
                }),
            },
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Status::Waiting | Status::Delegating => "waiting",
            Status::Running { .. } => "running",
            Status::Ended(Ending::Finished { partial: None, .. }) => "done",
            Status::Ended(Ending::Finished { .. }) => "partial",
            Status::Ended(Ending::Failed { .. }) => "failed",
            Status::Ended(Ending::Cancelled) => "cancelled",
        }
    }
}

/// The positions of a team: the delegates in order, then the lead.
fn seats(team: &Team) -> Vec<Slot> {
    let delegates = (0u32..).zip(&team.delegates);
    let delegates = delegates.map(|(index, d)| (RunRole::Delegate { index }, &d.agent));
    let all = delegates.chain([(RunRole::Lead, &team.lead)]);
    let in_order = !team.lead.pipeline.is_empty();
    let seat = |(role, agent): (RunRole, &std::sync::Arc<Definition>)| Slot {
        stage: match role {
            RunRole::Delegate { index } if in_order => Some(index + 1),
            _ => None,
        },
        ..Slot::waiting(role, agent.id.clone())
    };
    all.map(seat).collect()
}
