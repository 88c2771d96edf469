//! The input of a hook.

use std::sync::Arc;

use unisono_context::message::Part;
use unisono_context::{AgentId, CallId, RunId, SessionId, TurnId};

use crate::event::{HookPlace, HookPoint, Outcome, Work};
use crate::ids;
use crate::run::calls::{CallPlace, CallStatus};
use crate::state::State;
use crate::tool::{HookEvent, HookRule};
use crate::turn::Phase;

/// A hook to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookJob {
    /// The subject of the question.
    pub place: HookPlace,
    /// The id under which a repetition of the question is recognised.
    pub id: CallId,
    /// The hook.
    pub hook: Arc<str>,
    /// The event about which it is asked.
    pub event: HookEvent,
    /// The session.
    pub session: SessionId,
    /// The branch.
    pub branch: Arc<str>,
    /// The turn.
    pub turn: TurnId,
    /// Its input.
    pub subject: HookSubject,
}

/// The input of a hook, by event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookSubject {
    /// A task.
    Task(Arc<str>),
    /// A compaction step.
    Compaction {
        /// Effective tokens before the step.
        tokens: u64,
        /// The first and the last message of the step; none if it has no messages.
        messages: Option<(u32, u32)>,
        /// The number of the checkpoint that it made.
        checkpoint: Option<u32>,
    },
    /// A call of a tool.
    Call {
        /// Its id.
        call: CallId,
        /// The run of the calling agent.
        run: RunId,
        /// The agent.
        agent: AgentId,
        /// The tool.
        tool: Arc<str>,
        /// Arguments as JSON text.
        arguments: Arc<str>,
    },
    /// How a turn ended.
    End {
        /// The state of the turn.
        state: &'static str,
        /// The reason of its failure.
        error: Option<Arc<str>>,
        /// The answer.
        answer: Option<Arc<str>>,
    },
}

impl State {
    /// Whether there is unfinished work: open turns, hooks that have not been asked about ended
    /// turns, and summaries that models write ahead.
    pub fn has_work(&self) -> bool {
        self.work_left() > 0
    }

    /// The number of open turns, of ended turns with pending hooks, and of summaries that models
    /// write ahead.
    pub fn work_left(&self) -> usize {
        let ahead = self.preparations_in_progress().count();
        self.turns.len() + self.ended_hooks.len() + ahead
    }

    /// Whether hooks have not been asked yet about turns that have ended.
    pub fn has_pending_end_hooks(&self) -> bool {
        !self.ended_hooks.is_empty()
    }

    /// The hook that is due at this place; none if no hook is due.
    pub(crate) fn hook_due(&self, place: HookPlace) -> Option<&HookRule> {
        let (rules, due) = match place.point {
            HookPoint::Turn { turn, .. } => match self.turns.get(&turn) {
                Some(turn) => (&turn.rules, turn.hooks_due.first().copied()),
                None => {
                    let ended = self.ended_hooks.get(&turn)?;
                    (&ended.rules, ended.due.first().copied())
                }
            },
            HookPoint::Call(call) => {
                let run = self.runs.get(&call.run).filter(|run| run.is_open())?;
                let due = hook_of_call(call, &self.call(call)?.status);
                (&self.turns.get(&run.turn)?.rules, due)
            }
        };
        let is_due = due == Some(place);
        is_due.then(|| rules.hooks.get(place.rule as usize))?
    }

    /// The input of the hook that is due.
    pub(crate) fn hook_job(&self, place: HookPlace) -> Option<HookJob> {
        let hook = self.hook_due(place)?.name.clone();
        let (turn, event) = match place.point {
            HookPoint::Turn { turn, event, .. } => (turn, event),
            HookPoint::Call(call) => (self.runs.get(&call.run)?.turn, HookEvent::BeforeToolCall),
        };
        let branch = match self.turns.get(&turn) {
            Some(turn) => turn.accepted.branch.clone(),
            None => self.ended_hooks.get(&turn)?.branch.clone(),
        };
        Some(HookJob {
            place,
            id: id_of(turn, place),
            hook,
            event,
            session: self.id?,
            branch,
            turn,
            subject: self.hook_subject(turn, place.point)?,
        })
    }

    fn hook_subject(&self, turn: TurnId, point: HookPoint) -> Option<HookSubject> {
        match point {
            HookPoint::Call(place) => {
                let (run, call) = (self.runs.get(&place.run)?, self.call(place)?);
                Some(HookSubject::Call {
                    call: ids::call(turn, place),
                    run: place.run,
                    agent: run.agent.clone(),
                    tool: call.planned.tool.clone(),
                    arguments: call.planned.arguments.clone(),
                })
            }
            HookPoint::Turn { event, step, .. } => match event {
                HookEvent::TurnEnded => {
                    let ended = self.ended_turn(turn)?;
                    let error = match &ended.outcome {
                        Outcome::Failed { reason, .. } => Some(reason.clone()),
                        _ => None,
                    };
                    let answer = ended.answer.and_then(|id| self.tree.get(id));
                    Some(HookSubject::End {
                        state: ended.outcome.name(),
                        error,
                        answer: answer.map(|node| text_of(&node.message.parts)),
                    })
                }
                HookEvent::BeforeCompaction | HookEvent::AfterCompaction => {
                    Some(self.compaction_subject(turn, step))
                }
                HookEvent::TurnAccepted | HookEvent::BeforeToolCall => {
                    match &self.turns.get(&turn)?.accepted.work {
                        Work::Answer { input, .. } => {
                            Some(HookSubject::Task(text_of(&input.parts)))
                        }
                        _ => None,
                    }
                }
            },
        }
    }

    fn compaction_subject(&self, turn: TurnId, step: u32) -> HookSubject {
        let open = self.turns.get(&turn);
        let plan = open.and_then(|turn| match &turn.phase {
            Phase::Compacting(plan) => Some(plan),
            _ => None,
        });
        let made = self.checkpoints.get(ids::checkpoint(turn, step));
        let spans = match (plan.and_then(|plan| plan.step.cover()), made) {
            (Some(cover), _) => Some(&cover.spans),
            (None, made) => made.map(|made| &made.covers),
        };
        let ends = spans.and_then(|spans| Some((spans.first()?.first.0, spans.last()?.last.0)));
        let before = open.and_then(|turn| turn.tokens_before);
        let tokens = plan.map(|plan| plan.before).or(before);
        HookSubject::Compaction {
            tokens: tokens.map_or(0, |tokens| tokens.0),
            messages: ends,
            checkpoint: made.map(|made| made.number),
        }
    }
}

pub(crate) fn hook_of_call(call: CallPlace, status: &CallStatus) -> Option<HookPlace> {
    match status {
        CallStatus::HookPending { rule, .. } => Some(HookPlace {
            point: HookPoint::Call(call),
            rule: *rule,
        }),
        _ => None,
    }
}

fn text_of(parts: &[Part]) -> Arc<str> {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n").into()
}

/// The id of a question, the same after a crash.
fn id_of(turn: TurnId, place: HookPlace) -> CallId {
    let rule = u128::from(place.rule);
    match place.point {
        HookPoint::Turn { event, step, .. } => {
            ids::hook_question(turn, event.name(), &[rule, u128::from(step)])
        }
        HookPoint::Call(call) => {
            let about = [
                rule,
                call.run.as_u128(),
                u128::from(call.round),
                u128::from(call.index),
            ];
            ids::hook_question(turn, HookEvent::BeforeToolCall.name(), &about)
        }
    }
}
