//! The message to an author's actor: a task, its context object, and the channel for the result.

use tokio::sync::oneshot;

use super::{Answer, Ctx, Failure, Task};

/// Messages to the actor of an agent kind.
#[derive(Debug)]
#[non_exhaustive]
pub enum Msg {
    /// Work on a task.
    Work(Box<Job>),
}

/// A task of an actor. Dropping it reports that the task was lost.
#[derive(Debug)]
pub struct Job {
    task: Task,
    ctx: Ctx,
    reply: oneshot::Sender<Result<Answer, Failure>>,
}

impl Job {
    pub(crate) fn new(
        task: Task,
        ctx: Ctx,
        reply: oneshot::Sender<Result<Answer, Failure>>,
    ) -> Job {
        Job { task, ctx, reply }
    }

    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The context object. [`Ctx::cancelled`] is triggered when nobody waits for the task any more:
    /// it was cancelled, or timed out.
    pub fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    /// Returns the result. Ignored if the task was cancelled meanwhile.
    pub fn end(self, result: Result<Answer, Failure>) {
        // The caller may have ended.
        let _ = self.reply.send(result);
    }
}
