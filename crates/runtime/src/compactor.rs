//! The compactor actor: carries out compaction steps.
//!
//! Owns the permits and the queue of all compactions. Sessions send one step at a time through its
//! [`Handle`]; the queue contains at most [`Options::compaction_queue`](crate::Options) steps. The
//! steps of one turn share [`Options::compaction_deadline`](crate::Options): after it no model is
//! called. A step that finds the queue full calls no model, and gets one of as many permits for such
//! steps (`queues`). A step that waited longer than that deadline calls no model either: the queue
//! gets shorter. A panic is answered as a failure; the session decides what follows. The actor also
//! knows which summarisers failed too often and are in a cool-down. A summary that is written ahead
//! gets a permit only if one is free, and loses it as soon as another step has to wait.

mod ahead;
mod allowance;
mod anchors;
mod ask;
mod batch;
mod carry_out;
mod cooldown;
mod extract;
mod kept;
mod queues;
mod retry;
mod spending;
mod summarise;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use unisono_context::call::Usage;
use unisono_session::assignment::CompactionJob;
use unisono_session::budget::ReservationRequest;
use unisono_session::machine::{CallEnd, StepResult};

use crate::address::{ActorAddress, ActorResult};
use crate::clock;
use crate::env::Env;
use crate::failure;
use crate::tokenizer;

pub(crate) use allowance::CompactionStart;

use allowance::Allowance;
use cooldown::Cooldowns;
use queues::{Permit, Queues};

pub(crate) type StepEnd = Result<StepResult, Failure>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: Arc<str>,
    /// Whether the same step may succeed on another try.
    pub(crate) is_retryable: bool,
}

impl<T: Into<Arc<str>>> From<T> for Failure {
    fn from(reason: T) -> Failure {
        Failure {
            reason: reason.into(),
            is_retryable: true,
        }
    }
}

#[derive(Debug)]
pub(crate) enum StepEvent {
    /// The current action.
    Progress(Arc<str>),
    Problem(Arc<str>),
    /// A model replied, with this usage.
    Used {
        model: Arc<str>,
        usage: Usage,
    },
    /// A model call must be reserved first.
    Reserve {
        ask: ReservationRequest,
        reply: oneshot::Sender<Result<Option<Arc<str>>, failure::Failure>>,
    },
    /// A reserved request has ended without a reply.
    CallEnded {
        call: u32,
        end: CallEnd,
    },
}

/// Receives the progress of a step. Must not block.
#[derive(Clone)]
pub(crate) struct Listener(pub(crate) Arc<dyn Fn(StepEvent) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener(..)")
    }
}

#[derive(Debug)]
pub(crate) enum Msg {
    CarryOut(Box<Job>),
    /// A step has ended, with this permit.
    Done(Permit),
    /// A summariser answered or failed.
    ModelAnswered {
        model: Arc<str>,
        succeeded: bool,
    },
}

/// A step, and the channel for its result.
#[derive(Debug)]
pub(crate) struct Job {
    step: CompactionJob,
    began: CompactionStart,
    arrived: Instant,
    listener: Listener,
    reply: oneshot::Sender<StepEnd>,
}

/// The handle for sessions.
#[derive(Clone, Debug)]
pub(crate) struct Handle(pub(crate) ActorAddress<Msg>);

impl Handle {
    /// Carries out a step of a compaction that began at `began`; the listener receives its
    /// progress.
    pub(crate) async fn carry_out(
        &self,
        step: CompactionJob,
        began: CompactionStart,
        listener: Listener,
    ) -> StepEnd {
        let (reply, end) = oneshot::channel();
        let job = Job {
            step,
            began,
            arrived: Instant::now(),
            listener,
            reply,
        };
        if self.0.send(Msg::CarryOut(Box::new(job))).await.is_err() {
            return Err("the compactor is not available".into());
        }
        end.await
            .unwrap_or_else(|_| Err("the compaction step was lost: its task panicked".into()))
    }
}

pub(crate) struct Args {
    pub(crate) env: Arc<Env>,
    pub(crate) tokenizer: tokenizer::Handle,
}

pub(crate) struct Compactor;

pub(crate) struct State {
    env: Arc<Env>,
    tokenizer: tokenizer::Handle,
    queues: Queues<Box<Job>>,
    rest: Cooldowns,
    /// Stop the summaries that are written ahead.
    ahead: Vec<CancellationToken>,
}

/// A step in progress, with everything that it needs.
pub(super) struct Work {
    job: CompactionJob,
    env: Arc<Env>,
    tokenizer: tokenizer::Handle,
    /// Its time limits.
    allowance: Allowance,
    /// Whether it calls no model because too many steps wait.
    is_crowded: bool,
    /// Summaries that were written ahead in this turn.
    drafts: batch::Drafts,
    cooling_down: BTreeSet<Arc<str>>,
    listener: Listener,
    compactor: ActorRef<Msg>,
    /// The number of reserved requests.
    calls: AtomicU32,
    /// Whether a model has replied.
    is_paid: AtomicBool,
}

impl Work {
    fn report(&self, text: String) {
        (self.listener.0)(StepEvent::Progress(text.into()));
    }

    fn report_problem(&self, text: String) {
        (self.listener.0)(StepEvent::Problem(text.into()));
    }

    fn report_usage(&self, model: &Arc<str>, usage: Usage) {
        self.is_paid.store(true, Ordering::Relaxed);
        let model = model.clone();
        (self.listener.0)(StepEvent::Used { model, usage });
    }

    /// Whether its next request may be sent only if no other request waits: it is written ahead, and
    /// nothing was paid for it yet.
    fn needs_idle_capacity(&self) -> bool {
        self.job.is_ahead() && !self.is_paid.load(Ordering::Relaxed)
    }

    fn record_outcome(&self, model: &Arc<str>, succeeded: bool) {
        let model = model.clone();
        // A compactor that was restarted meanwhile has no record of failures.
        let _ = self
            .compactor
            .send_message(Msg::ModelAnswered { model, succeeded });
    }
}

impl State {
    fn on_carry_out(&mut self, myself: &ActorRef<Msg>, job: Box<Job>) {
        if job.step.is_ahead() && !self.queues.has_free_permit() {
            let _ = job.reply.send(Err(busy()));
            return;
        }
        // Nobody waits for the result of a step whose turn was cancelled.
        self.queues.withdraw(|queued| queued.reply.is_closed());
        let started = self.queues.offer(job.step.session, job);
        if !matches!(started, Some((_, Permit::WithModels))) {
            self.stop_ahead();
        }
        if let Some((job, permit)) = started {
            self.start(myself, job, permit);
        }
    }

    /// Stops a summary that is written ahead, if there is one: its permit is needed.
    fn stop_ahead(&mut self) {
        self.ahead.retain(|stopped| !stopped.is_cancelled());
        if let Some(stopped) = self.ahead.pop() {
            stopped.cancel();
        }
    }

    fn on_done(&mut self, myself: &ActorRef<Msg>, permit: Permit) {
        if let Some(job) = self.queues.done(permit) {
            self.start(myself, job, permit);
        }
    }

    fn on_model_answered(&mut self, model: Arc<str>, succeeded: bool) {
        self.rest.record(model, succeeded, clock::now());
    }

    fn start(&mut self, myself: &ActorRef<Msg>, job: Box<Job>, permit: Permit) {
        let is_crowded = permit == Permit::WithoutModels
            || job.arrived.elapsed() > self.env.options.compaction_deadline.get();
        let permit = PermitGuard(myself.clone(), permit);
        self.carry_out(myself, job, is_crowded, permit);
    }

    fn carry_out(
        &mut self,
        myself: &ActorRef<Msg>,
        job: Box<Job>,
        is_crowded: bool,
        permit: PermitGuard,
    ) {
        let deadline = self.env.options.compaction_deadline.get();
        let now = Instant::now();
        let Job {
            step,
            began,
            arrived: _,
            listener,
            mut reply,
        } = *job;
        let allowance = match is_crowded {
            true => Allowance::without_models(now, deadline),
            false => Allowance::new(began.deadline_at(now), now, deadline),
        };
        let work = Work {
            job: step,
            env: self.env.clone(),
            tokenizer: self.tokenizer.clone(),
            allowance,
            is_crowded,
            drafts: began.drafts,
            cooling_down: self.rest.cooling_down(clock::now()),
            listener,
            compactor: myself.clone(),
            calls: AtomicU32::new(0),
            is_paid: AtomicBool::new(false),
        };
        let stopped = CancellationToken::new();
        if work.job.is_ahead() {
            self.ahead.retain(|stopped| !stopped.is_cancelled());
            self.ahead.push(stopped.clone());
        }
        let (session, turn) = (work.job.session, work.job.turn);
        let span = tracing::error_span!("compaction", %session, %turn);
        let carried = async move {
            let _permit = permit;
            // Its token is of no use afterwards.
            let _ended = stopped.clone().drop_guard();
            let end = tokio::select! {
                end = timeout_at(allowance.step, carry_out::carry_out(&work)) => end,
                // Nobody waits for the result: the turn was cancelled, or its session ended.
                () = reply.closed() => return,
                () = stopped.cancelled() => Ok(Err(busy())),
            };
            let time = allowance.step.saturating_duration_since(now).as_secs_f64();
            let late = |_| Err(format!("no result within {time:.1} s").into());
            let end = end.unwrap_or_else(late);
            // The session may have stopped meanwhile; it asks again when it returns.
            let _ = reply.send(end);
        };
        tokio::spawn(carried.instrument(span));
    }
}

/// The failure of a summary that was to be written ahead: no permit is free for it.
fn busy() -> Failure {
    Failure {
        reason: "other compactions need the permits".into(),
        is_retryable: true,
    }
}

/// Releases the permit of a step when it is dropped, also by a panic.
struct PermitGuard(ActorRef<Msg>, Permit);

impl Drop for PermitGuard {
    fn drop(&mut self) {
        // An actor that has ended has no permits.
        let _ = self.0.send_message(Msg::Done(self.1));
    }
}

impl Actor for Compactor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> ActorResult<State> {
        let options = &args.env.options;
        let queues = Queues::new(
            options.compactions,
            options.compaction_queue,
            &options.load.compactions,
        );
        Ok(State {
            queues,
            env: args.env,
            tokenizer: args.tokenizer,
            rest: Cooldowns::default(),
            ahead: Vec::new(),
        })
    }

    async fn handle(&self, myself: ActorRef<Msg>, message: Msg, state: &mut State) -> ActorResult {
        match message {
            Msg::CarryOut(job) => state.on_carry_out(&myself, job),
            Msg::Done(permit) => state.on_done(&myself, permit),
            Msg::ModelAnswered { model, succeeded } => state.on_model_answered(model, succeeded),
        }
        Ok(())
    }
}
