//! The interface for authors of agents, and the input of an agent.
//!
//! An [`Agent`] is a Rust type registered under a kind; it carries out definitions with `kind =
//! "<that kind>"`. It gets the [`Task`], and through [`Ctx`] the frozen context, tools,
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

/// The task of an agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Task {
    /// The text of the task.
    pub text: Arc<str>,
    /// Results of other agents: for a lead, those of its delegates in the order of the fan-out; for
    /// a stage of a pipeline, those of the stages before it.
    pub results: Vec<DelegateResult>,
}

/// The answer of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: Arc<str>,
    /// Calls of client tools ([`RunAssignment::client_options`]), which are left to the client;
    /// calls of any other tool are dropped.
    ///
    /// [`RunAssignment::client_options`]: unisono_session::assignment::RunAssignment::client_options
    pub calls: Vec<ToolCall>,
    /// The reason why it is not complete; none: it is complete.
    pub partial: Option<Arc<str>>,
    /// The usage of its replies.
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

/// A failed attempt. Its cause decides whether another attempt follows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct Failure {
    /// The class.
    pub cause: RunCause,
    /// The reason, and where it happened.
    pub reason: Arc<str>,
    /// The time for which another attempt would also fail, in milliseconds, if it is known.
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

/// An agent implemented in Rust. `run` may be called for several tasks at once, and again for the
/// same task after a crash. Use [`Ctx::step`] for everything that must not be repeated.
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
    /// Works on a task. The future is dropped if the task is cancelled or times out.
    ///
    /// # Errors
    /// Anything that prevents an answer; the cause decides about another attempt.
    fn run(&self, task: Task, ctx: Ctx) -> impl Future<Output = Result<Answer, Failure>> + Send;
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send + 'a>>;

/// [`Agent`] as a trait object.
pub(crate) trait AnyAgent: Send + Sync + 'static {
    fn run_boxed(&self, task: Task, ctx: Ctx) -> Running<'_>;
}

impl<A: Agent> AnyAgent for A {
    fn run_boxed(&self, task: Task, ctx: Ctx) -> Running<'_> {
        Box::pin(self.run(task, ctx))
    }
}

/// The persona of an agent.
pub(crate) fn persona(definition: &Definition) -> Persona {
    Persona {
        agent: definition.id.clone(),
        description: definition.description.clone(),
        instructions: definition.instructions.clone(),
    }
}

/// The agents whose prompt begins with the same prefix.
pub(crate) fn group(definition: &Definition) -> Group {
    match (definition.context, definition.prefix) {
        (ContextMode::TaskOnly, _) => Group::TaskOnly,
        (ContextMode::Snapshot, PrefixMode::Shared) => Group::Shared,
        (ContextMode::Snapshot, PrefixMode::Own) => Group::Own(persona(definition)),
    }
}
