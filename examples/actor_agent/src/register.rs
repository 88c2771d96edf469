//! The actor: it remembers how long each conversation was when it was last asked about it.
//!
//! Why an actor: the memory is one for all tasks of the kind, and its mailbox brings one task at a
//! time, so that nothing has to be locked. What must not be lost with the process belongs into
//! `ctx.step` instead.

use std::collections::HashMap;

use unisono::ractor::{Actor, ActorProcessingErr, ActorRef};
use unisono::worker::{Job, Msg};
use unisono::{Answer, Ctx, Failure, RunCause};

/// Owns the lengths; the runtime sends to it, one message a task.
#[derive(Debug)]
pub(crate) struct Register;

/// Messages by the session they are of, as they were counted last.
pub(crate) type Lengths = HashMap<String, usize>;

impl Actor for Register {
    type Msg = Msg;
    type State = Lengths;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Msg>, (): ()) -> Result<Lengths, ActorProcessingErr> {
        Ok(Lengths::new())
    }

    async fn handle(
        &self,
        _: ActorRef<Msg>,
        message: Msg,
        lengths: &mut Lengths,
    ) -> Result<(), ActorProcessingErr> {
        // An error returned here ends the actor, and the task is lost with it. What went wrong
        // with a task is said in its result instead.
        if let Msg::Work(job) = message {
            on_work(*job, lengths).await;
        }
        Ok(())
    }
}

async fn on_work(job: Job, lengths: &mut Lengths) {
    // Whoever asked may be gone before its task's turn came.
    if job.ctx().cancelled().is_cancelled() {
        return;
    }
    let result = count(job.ctx(), lengths).await;
    job.end(result);
}

async fn count(ctx: &Ctx, lengths: &mut Lengths) -> Result<Answer, Failure> {
    let nothing = || {
        let reason = "needs the conversation: context = snapshot";
        Failure::new(RunCause::BadInput, reason)
    };
    let snapshot = ctx.snapshot().ok_or_else(nothing)?;
    let shown = snapshot.entries().len();
    // On disk when it returns: after a crash the next attempt is given this number.
    let shown = ctx.step("count", async { Ok(shown) }).await?;
    let session = ctx.assignment().session.to_string();
    let told = match lengths.insert(session, shown) {
        None => format!("{shown} messages; nobody asked before"),
        Some(before) => format!("{shown} messages; {before} when somebody asked before"),
    };
    Ok(Answer::text(told))
}
