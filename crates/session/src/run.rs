//! One agent working on one task, as a pure machine: which call comes next follows from the
//! steps that were recorded ([`next()`]), what of them the model is shown from their tokens
//! ([`tail`]).

use std::sync::Arc;

use unisono_context::{AgentId, Digest, RunId, SnapshotId, Timestamp, Tokens, TurnId};

use crate::event::{OpenedRun, RunRole};

use calls::CallRound;

pub mod calls;
pub mod excerpts;
mod next;
mod retrace;
mod round;
pub mod tail;

pub use next::{
    NextAction, RunBounds, last_text, longest_reply, narrowed_headroom, next_action, reply_usage,
    total_usage,
};
pub use retrace::{Divergence, ModelCall, Retraced, retrace};
pub use round::{DelegationRound, DelegationStatus};

pub use unisono_context::call::{
    Choice, ClientOptions, FallbackUsed, Reply, Sent, Stop, ToolCall, ToolResult, Usage,
};

/// How the reason begins for which an answer is partial whose last reply was as long as it may be.
pub const CUT_OFF: &str = "cut off at the model's output limit";

/// A finished step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A model replied.
    Model(Reply),
    /// The tools a reply called have answered, in the order of the calls.
    Tools(Vec<ToolResult>),
    /// A named step of a custom agent.
    Named {
        /// Its name, unique within the run.
        name: Arc<str>,
        /// Its result as JSON text.
        result: Arc<str>,
    },
    /// The provider found a request too large that had been counted to fit.
    Narrowed {
        /// What the run's own exchange may hold from now on.
        room: Tokens,
        /// The longest reply from now on; none: as before.
        output: Option<Tokens>,
    },
    /// Something was paid for besides replies.
    Spent(Spent),
    /// The oldest rounds stand as a summary from now on.
    Summarised {
        /// How many of the run's first steps it stands for.
        replaced: u32,
        /// The summary.
        text: Arc<str>,
    },
}

/// What was paid for besides a run's replies: a request of its own that wrote the provider's
/// cache, a reply that broke off, or one that failed its attempt. Recorded at once, whatever
/// becomes of the request after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    /// What was used.
    pub usage: Usage,
    /// The model whose it was, where another one stood in for the run's.
    pub fallback: Option<Arc<str>>,
}

impl Step {
    /// What it used.
    pub fn usage(&self) -> Usage {
        match self {
            Step::Model(reply) => reply.usage,
            Step::Spent(spent) => spent.usage,
            Step::Tools(_)
            | Step::Named { .. }
            | Step::Narrowed { .. }
            | Step::Summarised { .. } => Usage::NONE,
        }
    }

    /// The model that used it, where another one stood in for the run's.
    pub fn fallback(&self) -> Option<&Arc<str>> {
        match self {
            Step::Model(reply) => reply.fallback.as_ref().map(|by| &by.model),
            Step::Spent(spent) => spent.fallback.as_ref(),
            Step::Tools(_)
            | Step::Named { .. }
            | Step::Narrowed { .. }
            | Step::Summarised { .. } => None,
        }
    }

    /// The reply, where it is one.
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Step::Model(reply) => Some(reply),
            _ => None,
        }
    }

    /// Whether it is beside the exchange with the model, and may stand between any others.
    pub(crate) const fn is_outside_exchange(&self) -> bool {
        match self {
            Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => true,
            Step::Model(_) | Step::Tools(_) | Step::Summarised { .. } => false,
        }
    }

    /// Whether a request of a model is another one because of it.
    pub(crate) const fn changes_request(&self) -> bool {
        match self {
            Step::Model(_) | Step::Tools(_) | Step::Narrowed { .. } | Step::Summarised { .. } => {
                true
            }
            Step::Named { .. } | Step::Spent(_) => false,
        }
    }
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunCause {
    /// The worker panicked or was lost.
    Panic,
    /// The attempt took longer than its agent allows.
    Timeout,
    /// A program could not be started.
    Spawn,
    /// A program ended with a failure.
    Exit,
    /// What came back is not an answer.
    BadOutput,
    /// The model failed.
    Model,
    /// No worker could be had: the queue is full.
    Busy,
    /// The task or its context cannot be worked on.
    BadInput,
    /// The bytes to be sent are not those that were recorded.
    SnapshotMismatch,
    /// The model's provider cannot be had now.
    Unavailable,
    /// The provider will not take the request: its key, account or model is not in order.
    Rejected,
    /// What is to be sent does not fit the model.
    Overflow,
    /// The model declined to answer.
    Refused,
    /// A budget has not enough left.
    Budget,
    /// The attempt made no progress for longer than its time.
    Stuck,
}

impl RunCause {
    /// Every cause.
    pub const ALL: [RunCause; 15] = [
        RunCause::Panic,
        RunCause::Timeout,
        RunCause::Spawn,
        RunCause::Exit,
        RunCause::BadOutput,
        RunCause::Model,
        RunCause::Busy,
        RunCause::BadInput,
        RunCause::SnapshotMismatch,
        RunCause::Unavailable,
        RunCause::Rejected,
        RunCause::Overflow,
        RunCause::Refused,
        RunCause::Budget,
        RunCause::Stuck,
    ];

    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            RunCause::Panic => "panic",
            RunCause::Timeout => "timeout",
            RunCause::Spawn => "spawn_failed",
            RunCause::Exit => "exit_failure",
            RunCause::BadOutput => "bad_output",
            RunCause::Model => "model_failed",
            RunCause::Busy => "busy",
            RunCause::BadInput => "bad_input",
            RunCause::SnapshotMismatch => "snapshot_mismatch",
            RunCause::Unavailable => "provider_unavailable",
            RunCause::Rejected => "provider_rejected",
            RunCause::Overflow => "context_overflow",
            RunCause::Refused => "refused",
            RunCause::Budget => "budget_exceeded",
            RunCause::Stuck => "stuck",
        }
    }

    /// The code and a reason, for where the reason stands without its cause: an answer in part.
    pub fn describe(self, reason: &str) -> Arc<str> {
        format!("{}: {reason}", self.code()).into()
    }

    /// Whether another attempt may end otherwise.
    pub const fn is_retryable(self) -> bool {
        !matches!(
            self,
            RunCause::Spawn
                | RunCause::BadInput
                | RunCause::SnapshotMismatch
                | RunCause::Rejected
                | RunCause::Overflow
                | RunCause::Refused
                | RunCause::Budget
        )
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a result.
    Finished {
        /// The answer, or what was said with its calls.
        text: Arc<str>,
        /// Calls of lent tools: whoever asked makes them, and the answer is theirs to go on with.
        calls: Vec<ToolCall>,
        /// Set where it is not complete, saying why.
        partial: Option<Arc<str>>,
        /// What it used.
        usage: Usage,
        /// How long it took, all attempts.
        duration_ms: u64,
    },
    /// Without one.
    Failed {
        /// Why the last attempt failed.
        cause: RunCause,
        /// What happened.
        reason: Arc<str>,
        /// How long it took, all attempts.
        duration_ms: u64,
    },
    /// Its turn, or the run that gave it its task, ended before it did.
    Cancelled,
}

/// A run and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its turn.
    pub turn: TurnId,
    /// Its place in the turn.
    pub role: RunRole,
    /// The agent.
    pub agent: AgentId,
    /// Digest of the definition it was opened with.
    pub definition: Digest,
    /// The frozen context it was given.
    pub snapshot: Option<SnapshotId>,
    /// Digest of the prompt bytes it shares.
    pub prefix: Digest,
    /// The attempt under way, from 1.
    pub attempt: u32,
    /// The attempt may not start before this.
    pub not_before: Timestamp,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The number of the event that opened it.
    pub opened_as: u64,
    /// Finished steps, oldest first.
    pub steps: Vec<Arc<Step>>,
    /// Tasks its agent gave to others, oldest first.
    pub rounds: Vec<DelegationRound>,
    /// Calls of tools with effects outside, oldest first.
    pub calls: Vec<CallRound>,
    /// How it ended, once it has.
    pub ending: Option<Arc<Ending>>,
    /// Set where its model was asked for the last time because of a budget: after how many steps,
    /// up to the last that its request depends on, and why.
    pub wrapped_up: Option<(usize, Arc<str>)>,
}

impl Run {
    pub(crate) fn new(opened: &OpenedRun, at: Timestamp, opened_as: u64) -> Run {
        Run {
            id: opened.id,
            turn: opened.turn,
            role: opened.role,
            agent: opened.agent.clone(),
            definition: opened.definition,
            snapshot: opened.snapshot,
            prefix: opened.prefix,
            attempt: 1,
            not_before: at,
            opened_at: at,
            opened_as,
            steps: Vec::new(),
            rounds: Vec::new(),
            calls: Vec::new(),
            ending: None,
            wrapped_up: None,
        }
    }

    /// After how many steps its next request is, up to the last that it depends on.
    pub(crate) fn next_request(&self) -> usize {
        let last = self.steps.iter().rposition(|step| step.changes_request());
        last.map_or(0, |at| at + 1)
    }

    /// Why its next request was its last one when it was made before, and its reply was lost.
    pub(crate) fn wrap_up_reason(&self) -> Option<&Arc<str>> {
        let (at, why) = self.wrapped_up.as_ref()?;
        (*at == self.next_request()).then_some(why)
    }

    /// Whether it is still to be worked on.
    pub fn is_open(&self) -> bool {
        self.ending.is_none()
    }
}
