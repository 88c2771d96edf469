//! One agent working on one task, as a pure machine: which call comes next follows from the
//! steps that were recorded ([`next()`]), what of them the model is shown from their tokens
//! ([`tail`]).

use std::sync::Arc;

use unisono_context::{AgentId, Digest, RunId, SnapshotId, Timestamp, Tokens, TurnId};

use crate::event::{OpenedRun, RunRole};

use calls::CallRound;

pub mod calls;
pub mod handed;
mod next;
mod retrace;
mod round;
pub mod tail;

pub use next::{Bounds, Next, longest_reply, narrowed, next, replied, said, used};
pub use retrace::{Asked, Diverged, Retraced, retrace};
pub use round::{Delegation, Round};

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
    pub(crate) const fn is_aside(&self) -> bool {
        match self {
            Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => true,
            Step::Model(_) | Step::Tools(_) | Step::Summarised { .. } => false,
        }
    }

    /// Whether a request of a model is another one because of it.
    pub(crate) const fn is_sent(&self) -> bool {
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
pub enum Cause {
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

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 15] = [
        Cause::Panic,
        Cause::Timeout,
        Cause::Spawn,
        Cause::Exit,
        Cause::BadOutput,
        Cause::Model,
        Cause::Busy,
        Cause::BadInput,
        Cause::SnapshotMismatch,
        Cause::Unavailable,
        Cause::Rejected,
        Cause::Overflow,
        Cause::Refused,
        Cause::Budget,
        Cause::Stuck,
    ];

    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Cause::Panic => "panic",
            Cause::Timeout => "timeout",
            Cause::Spawn => "spawn_failed",
            Cause::Exit => "exit_failure",
            Cause::BadOutput => "bad_output",
            Cause::Model => "model_failed",
            Cause::Busy => "busy",
            Cause::BadInput => "bad_input",
            Cause::SnapshotMismatch => "snapshot_mismatch",
            Cause::Unavailable => "provider_unavailable",
            Cause::Rejected => "provider_rejected",
            Cause::Overflow => "context_overflow",
            Cause::Refused => "refused",
            Cause::Budget => "budget_exceeded",
            Cause::Stuck => "stuck",
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
            Cause::Spawn
                | Cause::BadInput
                | Cause::SnapshotMismatch
                | Cause::Rejected
                | Cause::Overflow
                | Cause::Refused
                | Cause::Budget
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
        /// When the attempt that brought it began to work and to speak.
        pace: Pace,
    },
    /// Without one.
    Failed {
        /// Why the last attempt failed.
        cause: Cause,
        /// What happened.
        reason: Arc<str>,
        /// How long it took, all attempts.
        duration_ms: u64,
    },
    /// Its turn, or the run that gave it its task, ended before it did.
    Cancelled,
}

/// When an attempt got its place and began to work, and when its model began to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// When its agent began: until then it waited for a place among the active runs. None: it was
    /// not recorded.
    pub began: Option<Timestamp>,
    /// When the first piece of text of its first reply came. None: its model does not stream, or
    /// said nothing.
    pub first_token: Option<Timestamp>,
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
    pub rounds: Vec<Round>,
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
        let last = self.steps.iter().rposition(|step| step.is_sent());
        last.map_or(0, |at| at + 1)
    }

    /// Why its next request was its last one when it was made before, and its reply was lost.
    pub(crate) fn wraps_up(&self) -> Option<&Arc<str>> {
        let (at, why) = self.wrapped_up.as_ref()?;
        (*at == self.next_request()).then_some(why)
    }

    /// Whether it is still to be worked on.
    pub fn is_open(&self) -> bool {
        self.ending.is_none()
    }
}
