//! The actor: it remembers the number of messages of each session at its last task.
//!
//! All tasks of the kind share this memory. The mailbox brings one task at a time, so nothing is
//! locked. State that must survive the process belongs in `ctx.step` instead.

use std::collections::HashMap;

use unisono::ractor::{Actor, ActorProcessingErr, ActorRef};
use unisono::worker::{Job, Msg};
use unisono::{Answer, Ctx, Failure, RunCause};

/// Owns the lengths. The runtime sends it one message for each task.
#[derive(Debug)]
pub(crate) struct Register;

/// The number of messages of each session, as counted last.
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
        // An error returned here would end the actor and lose the task. The error of a task is its
        // result instead.
        if let Msg::Work(job) = message {
            on_work(*job, lengths).await;
        }
        Ok(())
    }
}

async fn on_work(job: Job, lengths: &mut Lengths) {
    // The task may have been cancelled while it waited in the mailbox.
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
    // On disk when it returns: after a crash, the next attempt gets this number.
    let shown = ctx.step("count", async { Ok(shown) }).await?;
    let session = ctx.assignment().session.to_string();
    let text = match lengths.insert(session, shown) {
        None => format!("{shown} messages; the first task of this session"),
        Some(before) => format!("{shown} messages; {before} at the last task"),
    };
    Ok(Answer::text(text))
}
