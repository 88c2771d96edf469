//! An agent's pool: admits its runs to a bounded number of workers.
//!
//! Owns the places and the queue of one agent. Cancellation does not pass through it: it reaches
//! the attempt by its token, so an attempt cancelled in the queue ends as soon as it starts. Sessions send to it through its [`Handle`]; its
//! workers are linked to it, so a worker that panics is reported as a lost attempt and its
//! siblings go on. The queue holds at most [`Options::pool_queue`](crate::Options) attempts and serves sessions in turn.
//!
//! An attempt that waits for other agents lends its place: of those that hold one, none waits
//! for another's place, so agents that delegate to each other never block each other.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::time::Instant;
use unisono_context::AgentId;
use unisono_session::Definition;
use unisono_session::machine::AttemptEnd;
use unisono_session::run::Cause;

use crate::lane::{Lane, Offer};
use crate::load::Part;
use crate::runtime::Env;
use crate::slot::Slot;
use crate::worker::{self, Attempt, Worker};

/// What a pool is sent.
#[derive(Debug)]
pub(crate) enum Msg {
    /// Carry out an attempt.
    Dispatch(Box<Job>),
    /// A worker has ended its attempt.
    Ended { worker: ActorId, end: AttemptEnd },
    /// A worker waits for other agents: its place is free.
    Lend { worker: ActorId },
    /// It goes on: told when it has a place again.
    TakeBack {
        worker: ActorId,
        reply: oneshot::Sender<()>,
    },
}

/// An attempt, and who wants to know how it ended.
#[derive(Debug)]
pub(crate) struct Job {
    attempt: Attempt,
    reply: Reply,
}

/// Who is told how an attempt ended: once, and also where it is lost with its pool.
pub(crate) struct Reply(Option<Box<dyn FnOnce(AttemptEnd) + Send>>);

impl Reply {
    /// Tells by calling that, which must not block.
    pub(crate) fn new(tell: impl FnOnce(AttemptEnd) + Send + 'static) -> Reply {
        Reply(Some(Box::new(tell)))
    }

    pub(crate) fn send(mut self, end: AttemptEnd) {
        if let Some(tell) = self.0.take() {
            tell(end);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            let reason = "the agent's pool is not available, or was lost";
            tell(AttemptEnd::failed(Cause::Panic, reason));
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply(..)")
    }
}

/// A worker's place in its pool.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pool: ActorRef<Msg>,
    pub(crate) worker: ActorId,
}

impl Place {
    /// Lets another attempt have it. One that ends without taking it back needs nothing more.
    pub(crate) fn lend(&self) {
        let worker = self.worker;
        // Without its pool the worker ends.
        let _ = self.pool.send_message(Msg::Lend { worker });
    }

    /// Waits until there is a place again.
    pub(crate) async fn take_back(&self) {
        let (reply, free) = oneshot::channel();
        let worker = self.worker;
        if self
            .pool
            .send_message(Msg::TakeBack { worker, reply })
            .is_ok()
        {
            // Without its pool the worker ends.
            let _ = free.await;
        }
    }
}

/// What waits for a place.
enum Entrant {
    Attempt(Box<Job>),
    Returning {
        worker: ActorId,
        reply: oneshot::Sender<()>,
    },
}

/// How full a pool's queue is, for those who would add to it.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Milliseconds one that came now would wait, where the queue is full; else 0.
    full_for_ms: AtomicU64,
}

impl Gauge {
    fn set<T>(&self, lane: &Lane<T>, bound: usize) {
        let wait = lane.expected_wait().as_millis();
        let wait = u64::try_from(wait).unwrap_or(u64::MAX).max(1);
        let full = lane.queued() >= bound;
        self.full_for_ms
            .store(if full { wait } else { 0 }, Ordering::Relaxed);
    }

    /// Set where the queue is full: how long until there may be a place.
    pub(crate) fn full_for(&self) -> Option<Duration> {
        let ms = self.full_for_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }
}

/// What others hold of it.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) slot: Slot<Msg>,
    pub(crate) gauge: Arc<Gauge>,
}

impl Handle {
    /// Carries out an attempt. An attempt that is lost with its worker or pool ends in
    /// [`Cause::Panic`].
    pub(crate) fn dispatch(&self, attempt: Attempt, reply: Reply) {
        let job = Msg::Dispatch(Box::new(Job { attempt, reply }));
        if let Err(job) = self.slot.send_now(job) {
            let pool = self.clone();
            // A job that finds nobody is dropped with its reply.
            tokio::spawn(async move {
                let _ = pool.slot.send(job).await;
            });
        }
    }
}

/// An agent and the places of its pool: a definition with another limit has another pool.
pub(crate) type Key = (AgentId, u32);

/// The pools there are. One that was started stays: what becomes of its actor is its slot's.
#[derive(Debug, Default)]
pub(crate) struct Pools(RwLock<HashMap<Key, Handle>>);

impl Pools {
    /// The pool of an agent, if it was started.
    pub(crate) fn of(&self, definition: &Definition) -> Option<Handle> {
        let pools = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pools.get(&key(definition)).cloned()
    }

    /// Adds one that was started.
    pub(crate) fn add(&self, key: Key, pool: Handle) {
        let mut pools = self.0.write().unwrap_or_else(PoisonError::into_inner);
        pools.insert(key, pool);
    }
}

/// The pool that a definition's runs go through.
pub(crate) fn key(definition: &Definition) -> Key {
    (definition.id.clone(), definition.max_concurrent)
}

/// What a pool is made of.
pub(crate) struct Args {
    pub(crate) env: Arc<Env>,
    /// Workers at one time.
    pub(crate) places: usize,
    pub(crate) gauge: Arc<Gauge>,
}

/// The actor.
pub(crate) struct Pool;

pub(crate) struct State {
    env: Arc<Env>,
    lane: Lane<Entrant>,
    running: HashMap<ActorId, (Reply, Instant)>,
    gauge: Arc<Gauge>,
    /// How often each worker has lent its place and not taken it back.
    lent: HashMap<ActorId, u32>,
}

impl State {
    async fn on_dispatch(&mut self, myself: &ActorRef<Msg>, job: Box<Job>) {
        let session = job.attempt.brief.session;
        let offered = self.lane.offer(session, Entrant::Attempt(job));
        self.gauge.set(&self.lane, self.env.options.pool_queue);
        match offered {
            Offer::Start(entrant) => self.start(myself, entrant).await,
            // Only attempts are turned away.
            Offer::Queued | Offer::Full(Entrant::Returning { .. }) => {}
            Offer::Full(Entrant::Attempt(job)) => {
                let bound = self.env.options.pool_queue;
                let wait = self.lane.expected_wait();
                let reason = format!(
                    "the agent's queue of {bound} is full; a place may be free in {:.0} s",
                    wait.as_secs_f64().ceil()
                );
                job.reply.send(AttemptEnd::Failed {
                    cause: Cause::Busy,
                    reason: reason.into(),
                    wait_ms: Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                });
            }
        }
    }

    /// Gives a place away.
    async fn start(&mut self, myself: &ActorRef<Msg>, entrant: Entrant) {
        let mut next = Some(entrant);
        while let Some(entrant) = next.take() {
            let started = match entrant {
                Entrant::Attempt(job) => self.spawn(myself, *job).await,
                Entrant::Returning { worker, reply } => self.give_back(worker, reply),
            };
            if !started {
                next = self.lane.done();
            }
        }
    }

    async fn spawn(&mut self, myself: &ActorRef<Msg>, job: Job) -> bool {
        let Job { attempt, reply } = job;
        let args = worker::Args {
            attempt,
            env: self.env.clone(),
            pool: myself.clone(),
        };
        match Worker::spawn_linked(None, Worker, args, myself.get_cell()).await {
            Ok((worker, _)) => {
                self.running
                    .insert(worker.get_id(), (reply, Instant::now()));
                true
            }
            Err(error) => {
                let reason = format!("no worker could be started: {error}");
                reply.send(AttemptEnd::failed(Cause::Panic, reason));
                false
            }
        }
    }

    /// Whether the worker still has use for its place.
    fn give_back(&mut self, worker: ActorId, reply: oneshot::Sender<()>) -> bool {
        let wanted = self.running.contains_key(&worker) && reply.send(()).is_ok();
        if wanted {
            self.lent.remove(&worker);
        }
        wanted
    }

    async fn on_lend(&mut self, myself: &ActorRef<Msg>, worker: ActorId) {
        if !self.running.contains_key(&worker) {
            return;
        }
        let times = self.lent.entry(worker).or_default();
        *times += 1;
        if *times == 1
            && let Some(next) = self.lane.done()
        {
            self.start(myself, next).await;
        }
    }

    async fn on_take_back(
        &mut self,
        myself: &ActorRef<Msg>,
        worker: ActorId,
        reply: oneshot::Sender<()>,
    ) {
        match self.lent.get_mut(&worker) {
            Some(times) if *times > 1 => {
                *times -= 1;
                // It waits for others still, and takes its place back after that.
                let _ = reply.send(());
            }
            Some(_) => {
                let returning = Entrant::Returning { worker, reply };
                if let Some(entrant) = self.lane.take_back(returning) {
                    self.start(myself, entrant).await;
                }
            }
            None => drop(reply),
        }
    }

    async fn on_ended(&mut self, myself: &ActorRef<Msg>, worker: ActorId, end: AttemptEnd) {
        let Some((reply, since)) = self.running.remove(&worker) else {
            return;
        };
        self.lane.took(since.elapsed());
        // The session may have stopped caring: it cancelled the run, or is gone.
        reply.send(end);
        if self.lent.remove(&worker).is_some() {
            return;
        }
        if let Some(next) = self.lane.done() {
            self.start(myself, next).await;
        }
        self.gauge.set(&self.lane, self.env.options.pool_queue);
    }

    async fn on_lost(&mut self, myself: &ActorRef<Msg>, worker: ActorId, reason: String) {
        let end = AttemptEnd::failed(Cause::Panic, reason);
        self.on_ended(myself, worker, end).await;
    }
}

impl Actor for Pool {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let lane = Lane::new(
            args.places,
            args.env.options.pool_queue,
            Part::of(&args.env.options.load.attempts),
        );
        Ok(State {
            env: args.env,
            lane,
            running: HashMap::new(),
            gauge: args.gauge,
            lent: HashMap::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Dispatch(job) => state.on_dispatch(&myself, job).await,
            Msg::Ended { worker, end } => state.on_ended(&myself, worker, end).await,
            Msg::Lend { worker } => state.on_lend(&myself, worker).await,
            Msg::TakeBack { worker, reply } => state.on_take_back(&myself, worker, reply).await,
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(worker, error) => {
                let reason = format!("the agent panicked: {error}");
                state.on_lost(&myself, worker.get_id(), reason).await;
            }
            // A worker that stops by itself has sent how its attempt ended; that message may come
            // after this event. One that was stopped has a reason.
            SupervisionEvent::ActorTerminated(worker, _, Some(reason)) => {
                let reason = format!("the worker was stopped: {reason}");
                state.on_lost(&myself, worker.get_id(), reason).await;
            }
            _ => {}
        }
        Ok(())
    }
}
