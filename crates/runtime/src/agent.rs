//! What an author of an agent implements, and what their agent is given.
//!
//! An [`Agent`] is a Rust type registered under a kind; a definition with `kind = "<that kind>"`
//! is carried out by it. It gets the [`Task`], and through [`Ctx`] the frozen context, tools,
//! cancellation, progress and durable steps.

pub(crate) mod a2a;
pub(crate) mod acp;
mod actor;
pub(crate) mod command;
mod ctx;
mod failure;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod http;
pub(crate) mod llm;
pub(crate) mod pipeline;
mod reading;
pub(crate) mod request;
mod spending;
pub mod template;
#[cfg(test)]
mod tests;
mod waiting;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub(crate) use actor::{ActorAgent, Stop};
pub use ctx::Ctx;
pub(crate) use ctx::PaidReply;
use unisono_model::prompt::{Group, Persona};
use unisono_session::Definition;
use unisono_session::agent::{ContextMode, PrefixMode};
use unisono_session::assignment::DelegateResult;
use unisono_session::run::{RunCause, ToolCall, Usage};
pub(crate) use waiting::Waiting;

/// What an agent is to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Task {
    /// The task in words.
    pub text: Arc<str>,
    /// What it is given of others' work: a lead, that of its delegates in the order of the fan-out;
    /// a stage of a pipeline, that of the stages before it.
    pub results: Vec<DelegateResult>,
}

/// What an agent came back with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The answer.
    pub text: Arc<str>,
    /// Calls that are left to whoever asked, of tools that they lent ([`RunAssignment::client_options`]); those of
    /// any other tool are dropped.
    ///
    /// [`RunAssignment::client_options`]: unisono_session::assignment::RunAssignment::client_options
    pub calls: Vec<ToolCall>,
    /// Set where it is not complete, saying why.
    pub partial: Option<Arc<str>>,
    /// What it used.
    pub usage: Usage,
}

impl Answer {
    /// A complete answer.
    pub fn text(text: impl Into<Arc<str>>) -> Answer {
        Answer {
            text: text.into(),
            ..Answer::default()
        }
    }
}

/// Why an attempt failed. Its cause decides whether there is another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct Failure {
    /// The class.
    pub cause: RunCause,
    /// What happened, and where.
    pub reason: Arc<str>,
    /// How long another attempt would fail as well, where that is known, in milliseconds.
    pub wait_ms: Option<u64>,
}

impl Failure {
    /// A failure of that class.
    pub fn new(cause: RunCause, reason: impl Into<Arc<str>>) -> Failure {
        Failure {
            cause,
            reason: reason.into(),
            wait_ms: None,
        }
    }
}

/// An agent implemented in Rust. `run` may be called for several tasks at once, and again for
/// the same task after a crash: what must not be repeated goes through [`Ctx::step`].
///
/// ```
/// # use unisono_runtime as unisono;
/// use unisono::{Agent, Answer, Ctx, Failure, Task};
///
/// struct Words;
///
/// impl Agent for Words {
///     async fn run(&self, task: Task, _: Ctx) -> Result<Answer, Failure> {
///         Ok(Answer::text(task.text.split_whitespace().count().to_string()))
///     }
/// }
/// # let _ = unisono::Extensions::default().agent("words", Words);
/// ```
pub trait Agent: Send + Sync + 'static {
    /// Works on a task. Dropped when the task is cancelled or takes too long.
    ///
    /// # Errors
    /// Whatever keeps it from answering; the cause decides about another attempt.
    fn run(&self, task: Task, ctx: Ctx) -> impl Future<Output = Result<Answer, Failure>> + Send;
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send + 'a>>;

/// [`Agent`] behind a pointer.
pub(crate) trait AnyAgent: Send + Sync + 'static {
    fn run_boxed(&self, task: Task, ctx: Ctx) -> Running<'_>;
}

impl<A: Agent> AnyAgent for A {
    fn run_boxed(&self, task: Task, ctx: Ctx) -> Running<'_> {
        Box::pin(self.run(task, ctx))
    }
}

/// Who an agent is, as it is told.
pub(crate) fn persona(definition: &Definition) -> Persona {
    Persona {
        agent: definition.id.clone(),
        description: definition.description.clone(),
        instructions: definition.instructions.clone(),
    }
}

/// The agents whose prompt begins with the same bytes.
pub(crate) fn group(definition: &Definition) -> Group {
    match (definition.context, definition.prefix) {
        (ContextMode::TaskOnly, _) => Group::TaskOnly,
        (ContextMode::Snapshot, PrefixMode::Shared) => Group::Shared,
        (ContextMode::Snapshot, PrefixMode::Own) => Group::Own(persona(definition)),
    }
}
