//! An agent that is an actor: one actor with its own state and mailbox for all tasks of its kind.
//!
//! The runtime starts it with the first task, sends it [`Msg`], restarts it with the next task after
//! it has ended or panicked, and stops it at shutdown. Tasks that it had when it ended are retried
//! according to the `retries` of their definitions. Its mailbox contains at most as many tasks as
//! its agents may work on at once (`max_concurrent`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef, ActorStatus};
use tokio::sync::{Mutex, oneshot};
use unisono_session::run::RunCause;

use super::{Agent, Answer, AnyAgent, Ctx, Failure, Job, Msg, Task};

const STOP_TIMEOUT: Duration = Duration::from_secs(5);

type Make<A> = dyn Fn() -> (A, <A as Actor>::Arguments) + Send + Sync;

pub(crate) struct ActorAgent<A: Actor<Msg = Msg>> {
    kind: Arc<str>,
    make: Arc<Make<A>>,
    alive: Mutex<Option<ActorRef<Msg>>>,
}

impl<A: Actor<Msg = Msg>> ActorAgent<A> {
    pub(crate) fn new(
        kind: Arc<str>,
        make: impl Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> ActorAgent<A> {
        ActorAgent {
            kind,
            make: Arc::new(make),
            alive: Mutex::default(),
        }
    }

    /// The running actor; started if there is none.
    async fn actor(&self) -> Result<ActorRef<Msg>, Failure> {
        let mut alive = self.alive.lock().await;
        if let Some(actor) = alive.as_ref().filter(|actor| is_running(actor)) {
            return Ok(actor.clone());
        }
        let (actor, args) = (self.make)();
        let (actor, _) = Actor::spawn(None, actor, args).await.map_err(|error| {
            let reason = format!(
                "the actor of kind `{}` cannot be started: {error}",
                self.kind
            );
            Failure::new(RunCause::Unavailable, reason)
        })?;
        *alive = Some(actor.clone());
        Ok(actor)
    }

    fn lost_failure(&self) -> Failure {
        let reason = format!(
            "the actor of kind `{}` ended or dropped the task without a result",
            self.kind
        );
        Failure::new(RunCause::Panic, reason)
    }
}

fn is_running(actor: &ActorRef<Msg>) -> bool {
    actor.get_status() < ActorStatus::Stopping
}

impl<A: Actor<Msg = Msg>> Agent for ActorAgent<A> {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let actor = self.actor().await?;
        let (reply, ended) = oneshot::channel();
        let job = Msg::Work(Box::new(Job::new(task, ctx, reply)));
        actor.send_message(job).map_err(|_| self.lost_failure())?;
        // If the actor ends, its tasks are dropped with their replies.
        ended.await.unwrap_or_else(|_| Err(self.lost_failure()))
    }
}

/// Stopped with the runtime.
pub(crate) trait Stop: Send + Sync {
    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// The same kind for another runtime, with an actor that is not started yet.
    fn unstarted(&self) -> (Arc<dyn AnyAgent>, Arc<dyn Stop>);
}

impl<A: Actor<Msg = Msg>> Stop for ActorAgent<A> {
    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let Some(actor) = self.alive.lock().await.take().filter(is_running) else {
                return;
            };
            if actor.stop_and_wait(None, Some(STOP_TIMEOUT)).await.is_err() {
                let kind = &*self.kind;
                tracing::warn!(kind, "the actor of a kind does not stop, and is killed");
                actor.kill();
            }
        })
    }

    fn unstarted(&self) -> (Arc<dyn AnyAgent>, Arc<dyn Stop>) {
        let agent = Arc::new(ActorAgent::<A> {
            kind: self.kind.clone(),
            make: self.make.clone(),
            alive: Mutex::default(),
        });
        (agent.clone(), agent)
    }
}

impl<A: Actor<Msg = Msg>> fmt::Debug for ActorAgent<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorAgent({})", self.kind)
    }
}

#[cfg(test)]
mod tests;
