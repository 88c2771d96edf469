//! What an author's actor is sent: a task, what to work with, and whom to tell how it went.

use tokio::sync::oneshot;

use crate::agent::{Answer, Ctx, Failure, Task};

/// What the actor of an agent kind is sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum Msg {
    /// Work on a task.
    Work(Box<Job>),
}

/// A task that an actor has in its hands. Dropping it says that the task was lost.
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

    /// What is to be done.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// What to work with. [`Ctx::cancelled`] says when nobody waits for the task any more: it was
    /// cancelled, or its time is over.
    pub fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    /// Tells how it went. Nobody is told where the task was cancelled meanwhile.
    pub fn end(self, result: Result<Answer, Failure>) {
        // Whoever waited may be gone.
        let _ = self.reply.send(result);
    }
}
