//! The compactor actor: carries out compaction steps.
//!
//! Owns the places and the queue of all compactions. Sessions send one step at a time through
//! its [`Handle`]; the queue holds at most [`Options::compaction_queue`](crate::Options) steps.
//! The steps of one turn share [`Options::compaction_deadline`](crate::Options): once it is over no
//! model is asked any more.
//! What is lost with a panic is answered as a failure; the session decides what to do about it.
//! It also knows which summarisers failed too often and are left alone for a while.

mod allowance;
mod ask;
mod batch;
mod carry_out;
mod chain;
mod extract;
mod rest;
mod retry;
mod spending;
mod summarise;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;
use unisono_context::call::Usage;
use unisono_session::assignment::CompactionJob;
use unisono_session::budget::Ask;
use unisono_session::machine::{CallEnd, StepResult};

use crate::address::ActorAddress;
use crate::agent;
use crate::clock;
use crate::fair_queue::{FairQueue, Offer};
use crate::load::Part;
use crate::runtime::Env;
use crate::tokenizer;

pub(crate) use allowance::Began;
pub use allowance::Deadline;
pub use chain::{Chain, Chains, Summariser};

use allowance::Allowance;
use rest::Rest;

/// How a step ended, or why it failed.
pub(crate) type StepEnd = Result<StepResult, Failure>;

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Why.
    pub(crate) reason: Arc<str>,
    /// Whether the same step may succeed when it is asked for again.
    pub(crate) again: bool,
}

impl<T: Into<Arc<str>>> From<T> for Failure {
    fn from(reason: T) -> Failure {
        Failure {
            reason: reason.into(),
            again: true,
        }
    }
}

/// What is told of a step while it is carried out.
#[derive(Debug)]
pub(crate) enum StepEvent {
    /// What is being done.
    Doing(Arc<str>),
    /// What did not work.
    Trouble(Arc<str>),
    /// A model replied, and used that much.
    Used { model: Arc<str>, usage: Usage },
    /// A model would be asked: what that may take is to be reserved first.
    Asks {
        ask: Ask,
        reply: oneshot::Sender<Result<Option<Arc<str>>, agent::Failure>>,
    },
    /// A request that was reserved has ended without a reply.
    CallEnded { call: u32, end: CallEnd },
}

/// Told of a step how it goes on. Must not block.
#[derive(Clone)]
pub(crate) struct Listener(pub(crate) Arc<dyn Fn(StepEvent) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener(..)")
    }
}

/// What the compactor is sent.
#[derive(Debug)]
pub(crate) enum Msg {
    /// Carry out a step.
    Carry(Box<Job>),
    /// A step has ended.
    Done,
    /// A model was asked for a summary.
    Asked { model: Arc<str>, succeeded: bool },
}

/// A step, and who waits for it.
#[derive(Debug)]
pub(crate) struct Job {
    step: CompactionJob,
    began: Began,
    listener: Listener,
    reply: oneshot::Sender<StepEnd>,
}

/// What others hold of it.
#[derive(Clone, Debug)]
pub(crate) struct Handle(pub(crate) ActorAddress<Msg>);

impl Handle {
    /// Carries out a step of a compaction that began then; the listener is told how it goes on.
    pub(crate) async fn carry_out(
        &self,
        step: CompactionJob,
        began: Began,
        listener: Listener,
    ) -> StepEnd {
        let (reply, end) = oneshot::channel();
        let job = Job {
            step,
            began,
            listener,
            reply,
        };
        if self.0.send(Msg::Carry(Box::new(job))).await.is_err() {
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
    fair_queue: FairQueue<Box<Job>>,
    rest: Rest,
}

/// A step under way, with all that carrying it out takes.
pub(super) struct Work {
    job: CompactionJob,
    env: Arc<Env>,
    tokenizer: tokenizer::Handle,
    /// How long it may take.
    allowance: Allowance,
    /// What was written ahead in this turn.
    drafts: batch::Drafts,
    /// The summarisers that are left alone for now.
    resting: BTreeSet<Arc<str>>,
    listener: Listener,
    compactor: ActorRef<Msg>,
    /// Requests that were reserved.
    calls: AtomicU32,
}

impl Work {
    /// Says what is being done.
    fn tell(&self, text: String) {
        (self.listener.0)(StepEvent::Doing(text.into()));
    }

    /// Says what did not work.
    fn warn(&self, text: String) {
        (self.listener.0)(StepEvent::Trouble(text.into()));
    }

    /// Says what a reply used, taken or not.
    fn used(&self, model: &Arc<str>, usage: Usage) {
        let model = model.clone();
        (self.listener.0)(StepEvent::Used { model, usage });
    }

    /// Takes note of how a model did.
    fn note(&self, model: &Arc<str>, succeeded: bool) {
        let model = model.clone();
        // A compactor that was started anew meanwhile knows of no failures.
        let _ = self.compactor.send_message(Msg::Asked { model, succeeded });
    }
}

impl State {
    fn on_carry(&mut self, myself: &ActorRef<Msg>, job: Box<Job>) {
        match self.fair_queue.offer(job.step.session, job) {
            Offer::Start(job) => self.start(myself, job),
            Offer::Queued => {}
            Offer::Full(job) => {
                let _ = job.reply.send(Err("too many compactions wait".into()));
            }
        }
    }

    fn on_done(&mut self, myself: &ActorRef<Msg>) {
        if let Some(job) = self.fair_queue.done() {
            self.start(myself, job);
        }
    }

    fn on_asked(&mut self, model: Arc<str>, succeeded: bool) {
        self.rest.note(model, succeeded, clock::now());
    }

    fn start(&self, myself: &ActorRef<Msg>, job: Box<Job>) {
        let deadline = self.env.options.compaction_deadline.get();
        let now = Instant::now();
        let place = Place(myself.clone());
        let Job {
            step,
            began,
            listener,
            mut reply,
        } = *job;
        let allowance = Allowance::new(began.at(now), now, deadline);
        let work = Work {
            job: step,
            env: self.env.clone(),
            tokenizer: self.tokenizer.clone(),
            allowance,
            drafts: began.drafts,
            resting: self.rest.resting(clock::now()),
            listener,
            compactor: myself.clone(),
            calls: AtomicU32::new(0),
        };
        let (session, turn) = (work.job.session, work.job.turn);
        let span = tracing::error_span!("compaction", %session, %turn);
        let carried = async move {
            let _place = place;
            let end = tokio::select! {
                end = timeout_at(allowance.step, carry_out::carry_out(&work)) => end,
                // Nobody waits any more: the turn was cancelled, or its session is gone.
                () = reply.closed() => return,
            };
            let time = allowance.step.saturating_duration_since(now).as_secs_f64();
            let late = |_| Err(format!("no result within {time:.1} s").into());
            let end = end.unwrap_or_else(late);
            // The session may have been stopped meanwhile; it asks again when it returns.
            let _ = reply.send(end);
        };
        tokio::spawn(carried.instrument(span));
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
        let fair_queue = FairQueue::new(
            options.compactions,
            options.compaction_queue,
            Part::of(&options.load.compactions),
        );
        Ok(State {
            fair_queue,
            env: args.env,
            tokenizer: args.tokenizer,
            rest: Rest::default(),
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
            Msg::Asked { model, succeeded } => state.on_asked(model, succeeded),
        }
        Ok(())
    }
}
