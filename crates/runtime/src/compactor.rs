//! The compactor actor: carries out compaction steps.
//!
//! Owns the places and the queue of all compactions. Sessions send one step at a time through
//! its [`Handle`]; the queue holds at most [`Options::compaction_queue`](crate::Options) steps,
//! and a step that takes longer than [`Options::compaction_deadline`](crate::Options) fails.
//! What is lost with a panic is answered as a failure; the session decides what to do about it.

mod carry_out;
mod summarise;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use unisono_session::brief::CompactionJob;
use unisono_session::machine::StepResult;

use crate::lane::{Lane, Offer};
use crate::runtime::Env;
use crate::slot::Slot;
use crate::tokenizer;

/// How a step ended, or why it failed.
pub(crate) type StepEnd = Result<StepResult, Arc<str>>;

/// What the compactor is sent.
#[derive(Debug)]
pub(crate) enum Msg {
    /// Carry out a step.
    Carry(Box<Job>),
    /// A step has ended.
    Done,
}

/// A step, and who waits for it.
#[derive(Debug)]
pub(crate) struct Job {
    step: CompactionJob,
    reply: oneshot::Sender<StepEnd>,
}

/// What others hold of it.
#[derive(Clone, Debug)]
pub(crate) struct Handle(pub(crate) Slot<Msg>);

impl Handle {
    /// Carries out a step.
    pub(crate) async fn carry_out(&self, step: CompactionJob) -> StepEnd {
        let (reply, end) = oneshot::channel();
        if self
            .0
            .send(Msg::Carry(Box::new(Job { step, reply })))
            .await
            .is_err()
        {
            return Err("the compactor is not available".into());
        }
        end.await
            .unwrap_or_else(|_| Err("the compaction step was lost: its task panicked".into()))
    }
}

/// What the compactor is made of.
pub(crate) struct Args {
    pub(crate) env: Arc<Env>,
    pub(crate) tokenizer: tokenizer::Handle,
}

/// The actor.
pub(crate) struct Compactor;

pub(crate) struct State {
    env: Arc<Env>,
    tokenizer: tokenizer::Handle,
    lane: Lane<Box<Job>>,
}

impl State {
    fn on_carry(&mut self, myself: &ActorRef<Msg>, job: Box<Job>) {
        match self.lane.offer(job) {
            Offer::Start(job) => self.start(myself, job),
            Offer::Queued => {}
            Offer::Full(job) => {
                let _ = job.reply.send(Err("too many compactions wait".into()));
            }
        }
    }

    fn on_done(&mut self, myself: &ActorRef<Msg>) {
        if let Some(job) = self.lane.done() {
            self.start(myself, job);
        }
    }

    fn start(&self, myself: &ActorRef<Msg>, job: Box<Job>) {
        let deadline = self.env.options.compaction_deadline;
        let tokenizer = self.tokenizer.clone();
        let place = Place(myself.clone());
        tokio::spawn(async move {
            let _place = place;
            let Job { step, mut reply } = *job;
            let work = carry_out::carry_out(&step, &tokenizer);
            let end = tokio::select! {
                end = tokio::time::timeout(deadline, work) => end,
                // Nobody waits any more: the turn was cancelled, or its session is gone.
                () = reply.closed() => return,
            };
            let late = |_| Err(format!("no result within {:.1} s", deadline.as_secs_f64()).into());
            let end = end.unwrap_or_else(late);
            // The session may have been stopped meanwhile; it asks again when it returns.
            let _ = reply.send(end);
        });
    }
}

/// Gives its place back when it is dropped, also by a panic.
struct Place(ActorRef<Msg>);

impl Drop for Place {
    fn drop(&mut self) {
        // An actor that is gone has no places to keep.
        let _ = self.0.send_message(Msg::Done);
    }
}

impl Actor for Compactor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let options = &args.env.options;
        let lane = Lane::new(options.compactions, options.compaction_queue);
        Ok(State {
            lane,
            env: args.env,
            tokenizer: args.tokenizer,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Carry(job) => state.on_carry(&myself, job),
            Msg::Done => state.on_done(&myself),
        }
        Ok(())
    }
}
