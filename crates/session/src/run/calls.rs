//! Calls of tools with effects outside, made for the agent of a run.
//!
//! ```text
//! Hooks are asked first, one after the other (`HookPending`); a denial ends the call.
//!
//!            ┌─ AwaitingApproval ──approved──┐                    ┌──► Ended
//! called ────┤          └────denied, expired─────────────────────►│
//!            └────────────────────────────► Ready ──► Started ────┤
//!                                             ▲                   └──► InDoubt ──done, failed──► Ended
//!                                             └─────────repeat────────────┘
//! ```
//!
//! A call is made only once [`Started`](Status::Started) is on disk. A session that finds such a
//! call without a result when it comes back cannot know what became of it: what may be repeated
//! is made again under the same key, all else waits for a person.

use std::sync::Arc;

use unisono_context::{AgentId, CallId, RunId, Timestamp, TurnId};

use crate::ids;
use crate::state::State;
use crate::tool::Contract;

use super::{Run, ToolResult};

/// Names a call within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallPlace {
    /// Whose it is.
    pub run: RunId,
    /// How many replies that run had from its model by then; for an author's own code, how often
    /// it had called tools by then.
    pub round: u32,
    /// Its position among the calls of the round, from 0.
    pub index: u32,
}

/// A call that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// The model's id of it.
    pub call_id: Arc<str>,
    /// The tool, as the model names it.
    pub tool: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
    /// What making it twice would do.
    pub contract: Contract,
    /// Set where a person has to agree first.
    pub approval: Option<Approval>,
    /// The hooks that are asked before anybody else, by their positions among those of the turn.
    pub hooks: Vec<u32>,
}

impl PlannedCall {
    /// How it stands once so many of its hooks have let it through.
    fn status_after(&self, asked: usize) -> CallStatus {
        match (self.hooks.get(asked), &self.approval) {
            (Some(rule), _) => CallStatus::HookPending {
                rule: *rule,
                hooks_passed: asked,
            },
            (None, Some(_)) => CallStatus::AwaitingApproval,
            (None, None) => CallStatus::Ready,
        }
    }
}

/// Why a call waits for a person, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The rule that asks for it, as it is written.
    pub rule: Arc<str>,
    /// When it is denied if nobody has decided by then; none: it waits for ever.
    pub until: Option<Timestamp>,
}

/// What a call came back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutput {
    /// The text the model is told.
    pub content: Arc<str>,
    /// Whether it failed.
    pub is_error: bool,
}

/// What was decided about a call that waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallDecision {
    /// It is to be made.
    Approved,
    /// It is not to be made.
    Denied {
        /// Why, for the model; none: no reason was given.
        reason: Option<Arc<str>>,
    },
    /// Nobody decided in time: it is not made.
    Expired,
    /// It was in doubt, and had been made.
    Done {
        /// What it came back with.
        text: Arc<str>,
    },
    /// It was in doubt, and had not been made, or may be made twice: it is made again.
    Repeat,
    /// It was in doubt, and had failed.
    Failed {
        /// What went wrong.
        text: Arc<str>,
    },
}

impl CallDecision {
    /// The stable word.
    pub const fn name(&self) -> &'static str {
        match self {
            CallDecision::Approved => "approved",
            CallDecision::Denied { .. } => "denied",
            CallDecision::Expired => "expired",
            CallDecision::Done { .. } => "done",
            CallDecision::Repeat => "repeated",
            CallDecision::Failed { .. } => "failed",
        }
    }

    /// Whether it answers a call in that status.
    pub const fn can_answer(&self, status: &CallStatus) -> bool {
        match self {
            CallDecision::Approved | CallDecision::Denied { .. } | CallDecision::Expired => {
                matches!(status, CallStatus::AwaitingApproval)
            }
            CallDecision::Done { .. } | CallDecision::Repeat | CallDecision::Failed { .. } => {
                matches!(status, CallStatus::InDoubt)
            }
        }
    }

    /// How the call stands after it.
    pub(crate) fn status(&self) -> CallStatus {
        let error = |content: String| CallOutput {
            content: content.into(),
            is_error: true,
        };
        CallStatus::Ended(match self {
            CallDecision::Approved | CallDecision::Repeat => return CallStatus::Ready,
            CallDecision::Denied { reason: None } => error(
                "[denied: a person did not allow this call; it was not made. Go on without it, \
                 or ask what is wanted instead]"
                    .to_owned(),
            ),
            CallDecision::Denied {
                reason: Some(reason),
            } => error(format!(
                "[denied: a person did not allow this call; it was not made. They said: {reason}]"
            )),
            CallDecision::Expired => {
                error("[denied: nobody allowed this call in time; it was not made]".to_owned())
            }
            CallDecision::Done { text } => CallOutput {
                content: text.clone(),
                is_error: false,
            },
            CallDecision::Failed { text } => CallOutput {
                content: text.clone(),
                is_error: true,
            },
        })
    }
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// A hook is asked.
    HookPending {
        /// Which, by its position among those of the turn.
        rule: u32,
        /// How many of the call's hooks were asked before.
        hooks_passed: usize,
    },
    /// It waits for a person to agree.
    AwaitingApproval,
    /// It may be made, once those before it are done with.
    Ready,
    /// It is being made.
    Started,
    /// It may have been made: it waits for a person who knows.
    InDoubt,
    /// It is done with.
    Ended(CallOutput),
}

/// A call and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedCall {
    /// What is called.
    pub planned: PlannedCall,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// How far it has come.
    pub status: CallStatus,
}

impl TrackedCall {
    /// Whether a person is waited for.
    pub fn waits_for_person(&self) -> bool {
        matches!(
            self.status,
            CallStatus::AwaitingApproval | CallStatus::InDoubt
        )
    }

    /// How it stands once the hook that is asked has let it through.
    pub(crate) fn after_hook(&self) -> CallStatus {
        match self.status {
            CallStatus::HookPending {
                hooks_passed: asked,
                ..
            } => self.planned.status_after(asked + 1),
            ref other => other.clone(),
        }
    }

    /// Whether it must not be made before those asked for earlier are done with.
    fn keeps_order(&self) -> bool {
        self.planned.contract != Contract::Pure
    }
}

/// The calls of one reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRound {
    /// As in [`CallPlace::round`].
    pub number: u32,
    /// In the order of the reply.
    pub calls: Vec<TrackedCall>,
}

/// What came of the calls of a round. It changes only with the session's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallRoundStatus {
    /// There is no such round, or its turn has ended.
    Unknown,
    /// Some are not done with.
    InProgress {
        /// Whether nothing is done but to wait for a person.
        held: bool,
    },
    /// What each came back with, in the order of the calls. To be handed to the model once the
    /// journal is on disk up to where this was seen.
    Ended(Vec<ToolResult>),
}

/// A call that waits for a person, with all they need to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// The name by which it is answered.
    pub id: CallId,
    /// Where it is.
    pub place: CallPlace,
    /// Its turn.
    pub turn: TurnId,
    /// The agent that asked for it.
    pub agent: AgentId,
    /// The call.
    pub call: TrackedCall,
}

impl CallRound {
    pub(crate) fn new(number: u32, calls: &[PlannedCall], at: Timestamp) -> CallRound {
        let calls = calls.iter().map(|planned| TrackedCall {
            status: planned.status_after(0),
            planned: planned.clone(),
            asked_at: at,
        });
        CallRound {
            number,
            calls: calls.collect(),
        }
    }

    /// The calls to be made now: those that change nothing at once, all others one after the
    /// other.
    pub(crate) fn startable(&self) -> Vec<u32> {
        let mut to_start = Vec::new();
        let mut blocked = false;
        for (index, call) in (0..).zip(&self.calls) {
            if call.status == CallStatus::Ready && !(blocked && call.keeps_order()) {
                to_start.push(index);
            }
            blocked |= call.keeps_order() && !matches!(call.status, CallStatus::Ended(_));
        }
        to_start
    }

    /// What each came back with, in the order of the calls; none while some are not done with.
    pub(crate) fn results(&self) -> Option<Vec<ToolResult>> {
        let each = self.calls.iter();
        let ended = each.map(|call| match &call.status {
            CallStatus::Ended(output) => Some(ToolResult {
                call_id: call.planned.call_id.clone(),
                content: output.content.clone(),
                is_error: output.is_error,
            }),
            _ => None,
        });
        ended.collect()
    }

    fn calling(&self) -> CallRoundStatus {
        match self.results() {
            Some(results) => CallRoundStatus::Ended(results),
            None => {
                let mut calls = self.calls.iter();
                let asks = |status: &CallStatus| {
                    matches!(status, CallStatus::Started | CallStatus::HookPending { .. })
                };
                let made = calls.any(|call| asks(&call.status));
                CallRoundStatus::InProgress { held: !made }
            }
        }
    }
}

impl Run {
    /// The calls of a round.
    pub fn calls(&self, number: u32) -> Option<&CallRound> {
        self.calls.iter().find(|round| round.number == number)
    }

    /// Its calls that are not done with.
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = (CallPlace, &TrackedCall)> {
        let rounds = self.is_open().then_some(&self.calls);
        let rounds = rounds.into_iter().flatten();
        rounds.flat_map(move |round| {
            let calls = (0..).zip(&round.calls);
            let open = calls.filter(|(_, call)| !matches!(call.status, CallStatus::Ended(_)));
            open.map(move |(index, call)| {
                let place = CallPlace {
                    run: self.id,
                    round: round.number,
                    index,
                };
                (place, call)
            })
        })
    }
}

impl State {
    /// A call of an open turn.
    pub fn call(&self, place: CallPlace) -> Option<&TrackedCall> {
        let round = self.runs.get(&place.run)?.calls(place.round)?;
        round.calls.get(place.index as usize)
    }

    /// What came of the calls of a round: the answer to [`crate::Input::CallTools`].
    pub fn call_round_status(&self, run: RunId, round: u32) -> CallRoundStatus {
        let run = self.runs.get(&run).filter(|run| run.is_open());
        let round = run.and_then(|run| run.calls(round));
        round.map_or(CallRoundStatus::Unknown, CallRound::calling)
    }

    /// The calls that wait for a person, of all runs at every depth, oldest turn first.
    pub fn waiting_calls(&self) -> impl Iterator<Item = WaitingCall> {
        let runs = self.turns.values().flat_map(|turn| self.runs_of(turn));
        let calls = runs.flat_map(|run| run.open_calls().map(move |open| (run, open)));
        let waiting = calls.filter(|(_, (_, call))| call.waits_for_person());
        waiting.map(|(run, (place, call))| WaitingCall {
            id: ids::call(run.turn, place),
            place,
            turn: run.turn,
            agent: run.agent.clone(),
            call: call.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    //! Which calls of a round are made when.

    use super::*;

    fn round(calls: &[(Contract, CallStatus)]) -> CallRound {
        let calls = calls.iter().map(|(contract, status)| TrackedCall {
            planned: PlannedCall {
                call_id: "c".into(),
                tool: "files__write".into(),
                arguments: "{}".into(),
                contract: *contract,
                approval: None,
                hooks: Vec::new(),
            },
            asked_at: Timestamp(0),
            status: status.clone(),
        });
        CallRound {
            number: 1,
            calls: calls.collect(),
        }
    }

    #[test]
    fn pure_calls_are_made_at_once_and_all_others_in_order() {
        use CallStatus::{AwaitingApproval, InDoubt, Ready, Started};
        use Contract::{AtMostOnce, Idempotent, Pure};
        let ended = || {
            CallStatus::Ended(CallOutput {
                content: "ok".into(),
                is_error: false,
            })
        };
        type Case = (Vec<(Contract, CallStatus)>, Vec<u32>);
        let cases: Vec<Case> = vec![
            (vec![], vec![]),
            (vec![(Pure, Ready), (Pure, Ready)], vec![0, 1]),
            (vec![(AtMostOnce, Ready), (AtMostOnce, Ready)], vec![0]),
            (
                vec![(Idempotent, Ready), (Pure, Ready), (AtMostOnce, Ready)],
                vec![0, 1],
            ),
            (vec![(AtMostOnce, Started), (Idempotent, Ready)], vec![]),
            (
                vec![(AtMostOnce, AwaitingApproval), (AtMostOnce, Ready)],
                vec![],
            ),
            (vec![(AtMostOnce, InDoubt), (Pure, Ready)], vec![1]),
            (vec![(AtMostOnce, ended()), (AtMostOnce, Ready)], vec![1]),
            (vec![(Pure, AwaitingApproval), (AtMostOnce, Ready)], vec![1]),
        ];
        for (calls, expected) in cases {
            assert_eq!(round(&calls).startable(), expected, "{calls:?}");
        }
    }
}
