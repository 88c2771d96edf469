//! The interface for authors of agents, and the input of an agent.
//!
//! An [`Agent`] is a Rust type registered under a kind; it carries out definitions with `kind =
//! "<that kind>"`. It gets the [`Task`], and through [`Ctx`] the frozen context, tools,
//! cancellation, progress and durable steps.

mod actor;
mod ctx;
#[cfg(test)]
pub(crate) mod fixture;
mod job;
mod reading;
pub(crate) mod request;
pub(crate) mod results;
pub(crate) mod size;
mod spending;
pub mod template;
#[cfg(test)]
mod tests;
mod waiting;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use crate::failure::Failure;
pub(crate) use actor::{ActorAgent, Stop};
pub use ctx::Ctx;
pub(crate) use ctx::PaidReply;
pub use job::{Job, Msg};
use unisono_model::prompt::{Group, Persona};
use unisono_session::Definition;
use unisono_session::agent::{ContextMode, PrefixMode};
use unisono_session::assignment::DelegateResult;
use unisono_session::run::{ToolCall, Usage};
pub(crate) use waiting::Waiting;

/// The task of an agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Task {
    /// The text of the task: its own, or the input of the turn.
    pub text: Arc<str>,
    /// Results of other agents: for a lead, those of its delegates in the order of the fan-out; for
    /// a stage of a pipeline, those of the stages before it.
    pub results: Vec<DelegateResult>,
}

/// The answer of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The usage of its model calls.
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
///
/// An async function, or a closure that returns a future, is an agent as well:
///
/// ```
/// # use unisono_runtime as unisono;
/// use unisono::{Answer, Ctx, Failure, Task};
///
/// async fn words(task: Task, _: Ctx) -> Result<Answer, Failure> {
///     Ok(Answer::text(task.text.split_whitespace().count().to_string()))
/// }
/// # let _ = unisono::Extensions::default().agent("words", words);
/// ```
pub trait Agent: Send + Sync + 'static {
    /// Works on a task. The future is dropped if the task is cancelled, exceeds the `timeout` of the
    /// definition, or makes no progress for longer than the setting `runtime.stuck_after_seconds`
    /// allows: [`Ctx::progress`], a step or a part of a reply is progress. A panic fails the attempt,
    /// and so does an answer of more than 4 MiB.
    ///
    /// # Errors
    /// Anything that prevents an answer; [`RunCause::is_retryable`] says which causes lead to another
    /// attempt, up to `retries` of the definition.
    ///
    /// [`RunCause::is_retryable`]: unisono_session::run::RunCause::is_retryable
    fn run(&self, task: Task, ctx: Ctx) -> impl Future<Output = Result<Answer, Failure>> + Send;
}

impl<F, Working> Agent for F
where
    F: Fn(Task, Ctx) -> Working + Send + Sync + 'static,
    Working: Future<Output = Result<Answer, Failure>> + Send,
{
    fn run(&self, task: Task, ctx: Ctx) -> impl Future<Output = Result<Answer, Failure>> + Send {
        self(task, ctx)
    }
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send + 'a>>;

pub(crate) trait AnyAgent: Send + Sync + 'static {
    fn run_boxed(&self, task: Task, ctx: Ctx) -> Running<'_>;
}

impl<A: Agent> AnyAgent for A {
    fn run_boxed(&self, task: Task, ctx: Ctx) -> Running<'_> {
        Box::pin(self.run(task, ctx))
    }
}

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
