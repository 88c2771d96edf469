//! The run of one agent on one task, as a pure machine: the recorded steps determine the next call
//! ([`next_action`]), and their tokens determine which of them the model gets ([`tail`]).

use std::sync::Arc;

use unisono_context::attachment::AttachedFile;
use unisono_context::{AgentId, Digest, RunId, SnapshotId, Timestamp, Tokens, TurnId};

use calls::CallRound;

pub mod calls;
pub mod excerpts;
mod next;
mod retrace;
mod round;
pub mod tail;

pub use next::{
    NextAction, RunBounds, is_blank, last_text, longest_reply, narrowed_headroom, next_action,
    reply_usage, total_usage,
};
pub use retrace::{Divergence, ModelCall, RetracedRun, retrace};
pub use round::{DelegatedCall, DelegationRound, DelegationStatus};

pub use unisono_context::call::{
    Choice, ClientOptions, FallbackUsed, Reply, Sent, Stop, ToolCall, ToolResult, Usage,
};

/// The beginning of the reason of a partial answer whose last reply reached the model's output
/// limit.
pub const CUT_OFF: &str = "cut off at the model's output limit";

/// A finished step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A model replied.
    Model(Reply),
    /// The results of the tools that a reply called, in the order of the calls.
    Tools(Vec<ToolResult>),
    /// A named step of a custom agent.
    Named {
        /// Its name, unique within the run.
        name: Arc<str>,
        /// Its result as JSON text.
        result: Arc<str>,
    },
    /// The provider rejected a request as too large although its count fitted.
    Narrowed {
        /// The new headroom of the run's exchange.
        room: Tokens,
        /// The new maximum reply; none: unchanged.
        output: Option<Tokens>,
    },
    /// A cost in addition to replies.
    Spent(AuxiliaryUsage),
    /// The oldest rounds are replaced by a summary.
    Summarised {
        /// The number of steps at the beginning of the run that it replaces.
        replaced: u32,
        /// The summary.
        text: Arc<str>,
    },
}

/// A cost in addition to a run's replies: a separate request that wrote the provider's cache, a
/// reply that broke off, or one that failed its attempt. It is recorded at once, independently of
/// the further course of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxiliaryUsage {
    /// The usage.
    pub usage: Usage,
    /// The fallback that caused it; none: the run's own model.
    pub fallback: Option<Arc<str>>,
}

impl RunRole {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            RunRole::Lead => "lead",
            RunRole::Delegate { .. } => "delegate",
            RunRole::Child { .. } => "child",
        }
    }

    /// The run that delegated the task.
    pub const fn parent(self) -> Option<RunId> {
        match self {
            RunRole::Child { parent, .. } => Some(parent),
            RunRole::Lead | RunRole::Delegate { .. } => None,
        }
    }
}

impl Step {
    /// A named step with this result.
    pub fn named(name: impl Into<Arc<str>>, result: impl Into<Arc<str>>) -> Step {
        Step::Named {
            name: name.into(),
            result: result.into(),
        }
    }

    /// The usage of the step.
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

    /// The fallback that caused the usage; none: the run's own model.
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

    /// The reply, if the step is one.
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Step::Model(reply) => Some(reply),
            _ => None,
        }
    }

    /// The files in the results of tools, if it has any.
    pub fn files(&self) -> impl Iterator<Item = &AttachedFile> {
        let results = match self {
            Step::Tools(results) => &results[..],
            _ => &[],
        };
        results.iter().flat_map(|result| &result.files)
    }

    /// Whether it is outside the exchange with the model, so that it may come between any other
    /// steps.
    pub(crate) const fn is_outside_exchange(&self) -> bool {
        match self {
            Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => true,
            Step::Model(_) | Step::Tools(_) | Step::Summarised { .. } => false,
        }
    }

    /// Whether it changes the next request to the model.
    pub(crate) const fn changes_request(&self) -> bool {
        match self {
            Step::Model(_) | Step::Tools(_) | Step::Narrowed { .. } | Step::Summarised { .. } => {
                true
            }
            Step::Named { .. } | Step::Spent(_) => false,
        }
    }
}

/// The result of the named step with this name.
pub fn named_result<'s>(steps: &'s [Arc<Step>], wanted: &str) -> Option<&'s Arc<str>> {
    steps.iter().find_map(|step| match &**step {
        Step::Named { name, result } if **name == *wanted => Some(result),
        _ => None,
    })
}

/// The cause of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunCause {
    /// The worker panicked or was lost.
    Panic,
    /// The attempt exceeded the time limit of its agent.
    Timeout,
    /// A program could not be started.
    Spawn,
    /// A program ended with an error.
    Exit,
    /// The output is not an answer.
    BadOutput,
    /// The model failed.
    Model,
    /// No worker is available: the queue is full, or the machine can start no further program now.
    Busy,
    /// The task or its context cannot be processed.
    BadInput,
    /// The prompt differs from the recorded one.
    SnapshotMismatch,
    /// The model's provider is unavailable now.
    Unavailable,
    /// The provider rejects the request because of its API key, account or model.
    Rejected,
    /// The request does not fit the model.
    Overflow,
    /// The model declined to answer.
    Refused,
    /// A budget is too small.
    Budget,
    /// The attempt made no progress for too long.
    Stuck,
}

unisono_context::names!(RunCause.code {
    Panic = "panic",
    Timeout = "timeout",
    Spawn = "spawn_failed",
    Exit = "exit_failure",
    BadOutput = "bad_output",
    Model = "model_failed",
    Busy = "busy",
    BadInput = "bad_input",
    SnapshotMismatch = "snapshot_mismatch",
    Unavailable = "provider_unavailable",
    Rejected = "provider_rejected",
    Overflow = "context_overflow",
    Refused = "refused",
    Budget = "budget_exceeded",
    Stuck = "stuck",
});

impl RunCause {
    /// The code and a reason, for texts that show the reason without its cause: partial answers.
    pub fn describe(self, reason: &str) -> Arc<str> {
        format!("{}: {reason}", self.code()).into()
    }

    /// Whether another attempt may succeed.
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

/// The ending of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a result.
    Finished {
        /// The answer, or the text beside its calls.
        text: Arc<str>,
        /// Calls of client tools: the client makes them and continues with their results.
        calls: Vec<ToolCall>,
        /// The reason why it is not complete; none: it is complete.
        partial: Option<Arc<str>>,
        /// Its usage.
        usage: Usage,
        /// The duration of all attempts, in milliseconds.
        duration_ms: u64,
        /// When the attempt that brought it began to work and to speak.
        attempt_times: AttemptTimes,
    },
    /// Without a result.
    Failed {
        /// The cause of the last failure.
        cause: RunCause,
        /// The reason.
        reason: Arc<str>,
        /// The duration of all attempts, in milliseconds.
        duration_ms: u64,
        /// The text of the last reply, if that broke off or was rejected.
        text: Option<Arc<str>>,
    },
    /// Its turn or its parent run ended before it.
    Cancelled,
}

/// When an attempt got its place and began to work, until when it waited for the provider's cache,
/// and when its model began to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// When its agent began: until then it waited for a place among the active runs. None: it was
    /// not recorded.
    pub began: Option<Timestamp>,
    /// When the first piece of text of its first reply came. None: its model does not stream, or
    /// said nothing.
    pub first_token: Option<Timestamp>,
    /// Until when its first request waited for the provider's cache: until another request had
    /// written it, or it had written it first. None: it did not wait.
    pub cache_ready: Option<Timestamp>,
}

/// The input of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedRun {
    /// Its id.
    pub id: RunId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// Its place in the turn.
    pub role: RunRole,
    /// The agent.
    pub agent: AgentId,
    /// Digest of the agent's definition.
    pub definition: Digest,
    /// The frozen context; none if the agent gets only the task.
    pub snapshot: Option<SnapshotId>,
    /// Digest of the prefix.
    pub prefix: Digest,
}

/// A run's place in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunRole {
    /// Works on one part, before the lead.
    Delegate {
        /// Its position in the fan-out, from 0.
        index: u32,
    },
    /// Answers the turn.
    Lead,
    /// Works on a task that another run delegated to it.
    Child {
        /// The run that delegated the task.
        parent: RunId,
        /// The round of that run, as in [`DelegationRound::number`].
        round: u32,
        /// Its position among the calls of the round, from 0.
        index: u32,
    },
}

/// A run and its state.
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
    /// Digest of the definition with which it was opened.
    pub definition: Digest,
    /// Its frozen context.
    pub snapshot: Option<SnapshotId>,
    /// Digest of the prefix.
    pub prefix: Digest,
    /// The current attempt, from 1.
    pub attempt: u32,
    /// The earliest start of the attempt.
    pub not_before: Timestamp,
    /// The time at which it was opened.
    pub opened_at: Timestamp,
    /// The number of the event that opened it.
    pub opened_as: u64,
    /// Finished steps, oldest first.
    pub steps: Vec<Arc<Step>>,
    /// Tasks that its agent delegated, oldest first.
    pub rounds: Vec<DelegationRound>,
    /// Calls of tools with effects outside, oldest first.
    pub calls: Vec<CallRound>,
    /// Its ending; none: it is open.
    pub ending: Option<Arc<Ending>>,
    /// Set if its model was called for the last time because of a budget: the number of steps, up
    /// to the last one that its request depends on, and the reason.
    pub wrapped_up: Option<(usize, Arc<str>)>,
    /// The reasons of its first and its last failed attempt; none: no attempt failed.
    pub failures: Option<(Arc<str>, Arc<str>)>,
    /// The newest request that has a trace in the journal besides a reply: the number of steps
    /// before it, as in [`Run::wrapped_up`]. It was reserved, charged or repeated.
    pub requested: Option<usize>,
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
            failures: None,
            requested: None,
        }
    }

    /// The number of steps before its next request, up to the last one that the request depends on.
    pub(crate) fn next_request(&self) -> usize {
        let last = self.steps.iter().rposition(|step| step.changes_request());
        last.map_or(0, |at| at + 1)
    }

    /// The reason why its next request was already made as its last one, if its reply was lost.
    pub(crate) fn wrap_up_reason(&self) -> Option<&Arc<str>> {
        let (at, why) = self.wrapped_up.as_ref()?;
        (*at == self.next_request()).then_some(why)
    }

    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        self.ending.is_none()
    }
}

#[cfg(test)]
mod fixture;
