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
//! A call is made only after [`Started`](CallStatus::Started) is on disk. A session that recovers
//! with such a call and no result cannot know its outcome: repeatable calls are made again under
//! the same key, all others wait for a person. A call whose server works on a task of its own
//! ([`TrackedCall::task`]) is not made again: the task is polled.
//!
//! An agent in another program may make its calls itself, and only ask for [`Permission`]. Such a
//! call ends here as soon as it is [`Ready`](CallStatus::Ready); its output is the answer.

use std::sync::Arc;

use unisono_context::attachment::AttachedFile;
use unisono_context::{AgentId, CallId, Timestamp, TurnId};

use crate::tool::Contract;

use super::{Run, ToolResult};

pub use crate::ids::CallPlace;

/// A requested call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// The model's id of the call.
    pub call_id: Arc<str>,
    /// The tool, as the model names it.
    pub tool: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
    /// The effect of making it twice.
    pub contract: Contract,
    /// Set if a person must approve it first.
    pub approval: Option<Approval>,
    /// The hooks that are asked first, by their positions among the hooks of the turn.
    pub hooks: Vec<u32>,
    /// For a call that its agent makes itself: whether it may, once no hook and no person objects.
    /// None: the call is made here.
    pub permitted: Option<bool>,
}

/// Whether the definition of an agent permits a call that the agent makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may be made.
    Allowed,
    /// It may be made only if a person approves it.
    Unlisted,
    /// It may not be made.
    Denied,
}

impl PlannedCall {
    /// Its status after this number of its hooks have permitted it.
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

/// The reason and the deadline of an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The text of the rule that requires it.
    pub rule: Arc<str>,
    /// The time at which an undecided call is denied; none: it waits without limit.
    pub until: Option<Timestamp>,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOutput {
    /// The text for the model.
    pub content: Arc<str>,
    /// Whether it failed.
    pub is_error: bool,
    /// The images and documents in it. Their contents are in the store when the call is recorded
    /// as ended.
    pub files: Vec<AttachedFile>,
}

impl CallOutput {
    /// A text without files.
    pub fn text(content: impl Into<Arc<str>>, is_error: bool) -> CallOutput {
        CallOutput {
            content: content.into(),
            is_error,
            files: Vec::new(),
        }
    }

    /// Bytes of its files.
    pub fn attached_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }
}

/// The decision about a waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallDecision {
    /// Make it.
    Approved,
    /// Do not make it.
    Denied {
        /// The reason, for the model; none: no reason was given.
        reason: Option<Arc<str>>,
    },
    /// Nobody decided in time: it is not made.
    Expired,
    /// It was in doubt, and had been made.
    Done {
        /// Its result.
        text: Arc<str>,
    },
    /// It was in doubt. It had not been made, or may be made twice: it is made again.
    Repeat,
    /// It was in doubt, and had failed.
    Failed {
        /// The error.
        text: Arc<str>,
    },
}

impl CallDecision {
    /// The stable name.
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

    /// Whether the decision applies to a call with this status.
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

    pub(crate) fn status(&self) -> CallStatus {
        let error = |content: String| CallOutput::text(content, true);
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
            CallDecision::Done { text } => CallOutput::text(text.clone(), false),
            CallDecision::Failed { text } => CallOutput::text(text.clone(), true),
        })
    }
}

/// The status of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// It waits for a hook.
    HookPending {
        /// The position of the hook among those of the turn.
        rule: u32,
        /// The number of the call's hooks that were asked before.
        hooks_passed: usize,
    },
    /// It waits for the approval of a person.
    AwaitingApproval,
    /// It may be made, once the calls before it have ended.
    Ready,
    /// It is in progress.
    Started,
    /// It may have been made: it waits for a person's decision.
    InDoubt,
    /// It has ended.
    Ended(CallOutput),
}

/// A call and its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedCall {
    /// The call.
    pub planned: PlannedCall,
    /// The time of the request.
    pub asked_at: Timestamp,
    /// How far it has come.
    pub status: CallStatus,
    /// The task as which its server works on it. None: the server has not answered, or answers
    /// directly.
    pub task: Option<Arc<str>>,
}

impl TrackedCall {
    /// Whether it waits for a person.
    pub fn waits_for_person(&self) -> bool {
        matches!(
            self.status,
            CallStatus::AwaitingApproval | CallStatus::InDoubt
        )
    }

    /// Whether the time in which a person could approve it is over.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        let approval = self.planned.approval.as_ref();
        let until = approval.and_then(|approval| approval.until);
        self.status == CallStatus::AwaitingApproval && until.is_some_and(|until| until <= now)
    }

    pub(crate) fn after_hook(&self) -> CallStatus {
        match self.status {
            CallStatus::HookPending {
                hooks_passed: asked,
                ..
            } => self.planned.status_after(asked + 1),
            ref other => other.clone(),
        }
    }

    /// The output at the end of a call that its agent makes itself; none: it is made here.
    pub(crate) fn permission_output(&self) -> Option<CallOutput> {
        self.planned
            .permitted
            .map(|is_permitted| match is_permitted {
                true => CallOutput::text("[permitted]", false),
                false => CallOutput::text(
                    "[refused: the definition of the agent does not allow this kind of call]",
                    true,
                ),
            })
    }

    /// Whether it must wait until the calls before it have ended.
    fn keeps_order(&self) -> bool {
        self.planned.contract != Contract::Pure
    }
}

/// The maximum number of tool calls of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCap(pub u32);

impl Default for CallCap {
    /// More than a working model makes in one reply.
    fn default() -> CallCap {
        CallCap(128)
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

/// The state of the calls of a round. It changes only with the session's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallRoundStatus {
    /// There is no such round, or its turn has ended.
    Unknown,
    /// Some calls have not ended.
    InProgress {
        /// Whether all remaining calls wait for a person.
        held: bool,
    },
    /// The results in the order of the calls. Give them to the model only after the journal is on
    /// disk up to this state.
    Ended(Vec<ToolResult>),
}

/// A call that waits for a person, with everything needed for the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// The id for the decision.
    pub id: CallId,
    /// Its position.
    pub place: CallPlace,
    /// Its turn.
    pub turn: TurnId,
    /// The agent that requested it.
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
            task: None,
        });
        CallRound {
            number,
            calls: calls.collect(),
        }
    }

    /// The calls to make now: calls without effects at once, all others one after the other.
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

    /// The results in the order of the calls; none while some calls have not ended.
    pub(crate) fn results(&self) -> Option<Vec<ToolResult>> {
        let each = self.calls.iter();
        let ended = each.map(|call| match &call.status {
            CallStatus::Ended(output) => Some(ToolResult {
                call_id: call.planned.call_id.clone(),
                content: output.content.clone(),
                is_error: output.is_error,
                files: output.files.clone(),
            }),
            _ => None,
        });
        ended.collect()
    }

    pub(crate) fn status(&self) -> CallRoundStatus {
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

    pub(crate) fn waits_for_person(&self) -> bool {
        let mut calls = self.open_calls();
        calls.any(|(_, call)| call.waits_for_person())
    }

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

#[cfg(test)]
mod tests {
    //! The order in which the calls of a round are made.

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
                permitted: None,
            },
            asked_at: Timestamp(0),
            status: status.clone(),
            task: None,
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
        let ended = || CallStatus::Ended(CallOutput::text("ok", false));
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
