//! An agent's pool: admits its runs to a bounded number of workers.
//!
//! Owns the places and the queue of one agent. Cancellation does not pass through it: it reaches
//! the attempt by its token, so an attempt cancelled in the queue ends as soon as it starts.
//! Sessions send to it through its [`Handle`]; its workers are linked to it, so a worker that
//! panics is reported as a lost attempt and its siblings go on. One that has ended its attempt is
//! given the next one. The queue holds at most [`Options::pool_queue`](crate::Options) attempts and
//! serves sessions in turn.
//!
//! An attempt that waits for other agents lends its place: of those that hold one, none waits
//! for another's place, so agents that delegate to each other never block each other.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, MessagingErr, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::time::Instant;
use unisono_context::AgentId;
use unisono_session::Definition;
use unisono_session::machine::AttemptEnd;
use unisono_session::run::RunCause;

use crate::address::ActorAddress;
use crate::fair_queue::{Admission, FairQueue};
use crate::load::GaugePart;
use crate::runtime::Env;
use crate::worker::{self, Attempt, Start, Worker};

/// What a pool is sent.
#[derive(Debug)]
pub(crate) enum Msg {
    /// Carry out an attempt.
    Dispatch(Job),
    /// An attempt has ended; its worker is free.
    Ended { ticket: Ticket, end: AttemptEnd },
    /// An attempt waits for other agents and yields its permit.
    YieldPermit { ticket: Ticket },
    /// An attempt continues: reply when it has a permit again.
    ReacquirePermit {
        ticket: Ticket,
        reply: oneshot::Sender<()>,
    },
}

/// The number of an attempt that was started, which no other one of the pool has: what is left of
/// one attempt cannot be taken for the next one of the same worker.
type Ticket = u64;

/// An attempt, and who wants to know how it ended.
#[derive(Debug)]
pub(crate) struct Job {
    attempt: Box<Attempt>,
    reply: AttemptReply,
}

/// Who is told how an attempt ended: once, and also where it is lost with its pool.
pub(crate) struct AttemptReply(Option<Box<dyn FnOnce(AttemptEnd) + Send>>);

impl AttemptReply {
    /// Tells by calling that, which must not block.
    pub(crate) fn new(callback: impl FnOnce(AttemptEnd) + Send + 'static) -> AttemptReply {
        AttemptReply(Some(Box::new(callback)))
    }

    pub(crate) fn send(mut self, end: AttemptEnd) {
        if let Some(callback) = self.0.take() {
            callback(end);
        }
    }
}

impl Drop for AttemptReply {
    fn drop(&mut self) {
        if let Some(callback) = self.0.take() {
            let reason = "the agent's pool is not available, or was lost";
            callback(AttemptEnd::failed(RunCause::Panic, reason));
        }
    }
}

impl fmt::Debug for AttemptReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply(..)")
    }
}

/// An attempt's place in its pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolPermit {
    pub(crate) pool: ActorRef<Msg>,
    pub(crate) ticket: Ticket,
}

impl PoolPermit {
    /// Lets another attempt have it. One that ends without taking it back needs nothing more.
    pub(crate) fn yield_permit(&self) {
        let ticket = self.ticket;
        // Without its pool the worker ends.
        let _ = self.pool.send_message(Msg::YieldPermit { ticket });
    }

    /// Waits until there is a place again.
    pub(crate) async fn reacquire(&self) {
        let (reply, free) = oneshot::channel();
        let ticket = self.ticket;
        if self
            .pool
            .send_message(Msg::ReacquirePermit { ticket, reply })
            .is_ok()
        {
            // Without its pool the worker ends.
            let _ = free.await;
        }
    }
}

/// What waits for a place.
enum QueueEntry {
    Attempt(Job),
    Returning {
        ticket: Ticket,
        reply: oneshot::Sender<()>,
    },
}

/// How full a pool's queue is, for those who would add to it.
#[derive(Debug, Default)]
pub(crate) struct QueueGauge {
    /// Milliseconds one that came now would wait, where the queue is full; else 0.
    full_for_ms: AtomicU64,
}

impl QueueGauge {
    fn set<T>(&self, fair_queue: &FairQueue<T>, bound: usize) {
        let wait = fair_queue.expected_wait().as_millis();
        let wait = u64::try_from(wait).unwrap_or(u64::MAX).max(1);
        let full = fair_queue.queued() >= bound;
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
    pub(crate) address: ActorAddress<Msg>,
    pub(crate) gauge: Arc<QueueGauge>,
}

impl Handle {
    /// Carries out an attempt. An attempt that is lost with its worker or pool ends in
    /// [`Cause::Panic`].
    pub(crate) fn dispatch(&self, attempt: Attempt, reply: AttemptReply) {
        let attempt = Box::new(attempt);
        let job = Msg::Dispatch(Job { attempt, reply });
        if let Err(job) = self.address.send_now(job) {
            let pool = self.clone();
            // A job that finds nobody is dropped with its reply.
            tokio::spawn(async move {
                let _ = pool.address.send(job).await;
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
    pub(crate) fn get(&self, definition: &Definition) -> Option<Handle> {
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
    pub(crate) gauge: Arc<QueueGauge>,
}

/// The actor.
pub(crate) struct Pool;

pub(crate) struct State {
    env: Arc<Env>,
    fair_queue: FairQueue<QueueEntry>,
    /// Attempts that were started.
    running: HashMap<Ticket, Running>,
    /// The last ticket.
    tickets: Ticket,
    /// Workers that have nothing to do: at most one for each place.
    idle_workers: Vec<ActorRef<Start>>,
    places: usize,
    gauge: Arc<QueueGauge>,
    /// How often each attempt has lent its place and not taken it back.
    yields: HashMap<Ticket, u32>,
}

/// An attempt that was started.
struct Running {
    worker: ActorRef<Start>,
    reply: AttemptReply,
    since: Instant,
}

impl State {
    async fn on_dispatch(&mut self, myself: &ActorRef<Msg>, job: Job) {
        let session = job.attempt.assignment.session;
        let offered = self.fair_queue.offer(session, QueueEntry::Attempt(job));
        self.gauge
            .set(&self.fair_queue, self.env.options.pool_queue);
        match offered {
            Admission::Start(entrant) => self.start(myself, entrant).await,
            // Only attempts are turned away.
            Admission::Queued | Admission::Full(QueueEntry::Returning { .. }) => {}
            Admission::Full(QueueEntry::Attempt(job)) => {
                let bound = self.env.options.pool_queue;
                let wait = self.fair_queue.expected_wait();
                let reason = format!(
                    "the agent's queue of {bound} is full; try again in about {:.0} s",
                    wait.as_secs_f64().ceil()
                );
                job.reply.send(AttemptEnd::Failed {
                    cause: RunCause::Busy,
                    reason: reason.into(),
                    wait_ms: Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                });
            }
        }
    }

    /// Gives a place away.
    async fn start(&mut self, myself: &ActorRef<Msg>, entrant: QueueEntry) {
        let mut next = Some(entrant);
        while let Some(entrant) = next.take() {
            let started = match entrant {
                QueueEntry::Attempt(job) => self.start_attempt(myself, job).await,
                QueueEntry::Returning { ticket, reply } => self.give_back(ticket, reply),
            };
            if !started {
                next = self.fair_queue.done();
            }
        }
    }

    async fn start_attempt(&mut self, myself: &ActorRef<Msg>, job: Job) -> bool {
        let Job { attempt, reply } = job;
        self.tickets += 1;
        let ticket = self.tickets;
        match self.assign_worker(myself, Start { ticket, attempt }).await {
            Ok(worker) => {
                let since = Instant::now();
                let running = Running {
                    worker,
                    reply,
                    since,
                };
                self.running.insert(ticket, running);
                true
            }
            Err(reason) => {
                reply.send(AttemptEnd::failed(RunCause::Panic, reason));
                false
            }
        }
    }

    /// Gives the work to a worker that has none, else to a new one.
    async fn assign_worker(
        &mut self,
        myself: &ActorRef<Msg>,
        mut start: Start,
    ) -> Result<ActorRef<Start>, String> {
        while let Some(worker) = self.idle_workers.pop() {
            match worker.send_message(start) {
                Ok(()) => return Ok(worker),
                // It was stopped.
                Err(MessagingErr::SendErr(back)) => start = back,
                Err(error) => return Err(format!("no worker could be reached: {error}")),
            }
        }
        let args = worker::Args {
            env: self.env.clone(),
            pool: myself.clone(),
        };
        let spawned = Worker::spawn_linked(None, Worker, args, myself.get_cell()).await;
        let (worker, _) = spawned.map_err(|e| format!("no worker could be started: {e}"))?;
        let sent = worker.send_message(start);
        sent.map_err(|e| format!("no worker could be reached: {e}"))?;
        Ok(worker)
    }

    /// Whether the attempt still has use for its place.
    fn give_back(&mut self, ticket: Ticket, reply: oneshot::Sender<()>) -> bool {
        let wanted = self.running.contains_key(&ticket) && reply.send(()).is_ok();
        if wanted {
            self.yields.remove(&ticket);
        }
        wanted
    }

    async fn on_yield_permit(&mut self, myself: &ActorRef<Msg>, ticket: Ticket) {
        if !self.running.contains_key(&ticket) {
            return;
        }
        let times = self.yields.entry(ticket).or_default();
        *times += 1;
        if *times == 1
            && let Some(next) = self.fair_queue.done()
        {
            self.start(myself, next).await;
        }
    }

    async fn on_reacquire_permit(
        &mut self,
        myself: &ActorRef<Msg>,
        ticket: Ticket,
        reply: oneshot::Sender<()>,
    ) {
        match self.yields.get_mut(&ticket) {
            Some(times) if *times > 1 => {
                *times -= 1;
                // It waits for others still, and takes its place back after that.
                let _ = reply.send(());
            }
            Some(_) => {
                let returning = QueueEntry::Returning { ticket, reply };
                if let Some(entrant) = self.fair_queue.reacquire(returning) {
                    self.start(myself, entrant).await;
                }
            }
            None => drop(reply),
        }
    }

    async fn on_ended(&mut self, myself: &ActorRef<Msg>, ticket: Ticket, end: AttemptEnd) {
        let Some(worker) = self.end(ticket, end) else {
            return;
        };
        // While places are lent there are more workers than places.
        if self.idle_workers.len() < self.places {
            self.idle_workers.push(worker);
        } else {
            worker.stop(None);
        }
        self.release_permit(myself, ticket).await;
    }

    /// A worker is gone, and what it was at.
    async fn on_lost(&mut self, myself: &ActorRef<Msg>, lost: ActorId, reason: String) {
        self.idle_workers.retain(|worker| worker.get_id() != lost);
        let is_lost = |running: &Running| running.worker.get_id() == lost;
        let ticket = self.running.iter().find(|(_, at)| is_lost(at));
        let Some(ticket) = ticket.map(|(ticket, _)| *ticket) else {
            return;
        };
        self.end(ticket, AttemptEnd::failed(RunCause::Panic, reason));
        self.release_permit(myself, ticket).await;
    }

    /// Says how an attempt has ended; gives back its worker.
    fn end(&mut self, ticket: Ticket, end: AttemptEnd) -> Option<ActorRef<Start>> {
        let ended = self.running.remove(&ticket)?;
        self.fair_queue.record_time(ended.since.elapsed());
        // The session may have stopped caring: it cancelled the run, or is gone.
        ended.reply.send(end);
        Some(ended.worker)
    }

    /// Gives away the place of an attempt that has ended, unless that is another's already.
    async fn release_permit(&mut self, myself: &ActorRef<Msg>, ticket: Ticket) {
        if self.yields.remove(&ticket).is_some() {
            return;
        }
        if let Some(next) = self.fair_queue.done() {
            self.start(myself, next).await;
        }
        self.gauge
            .set(&self.fair_queue, self.env.options.pool_queue);
    }
}

impl Actor for Pool {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let fair_queue = FairQueue::new(
            args.places,
            args.env.options.pool_queue,
            GaugePart::of(&args.env.options.load.attempts),
        );
        Ok(State {
            env: args.env,
            fair_queue,
            running: HashMap::new(),
            tickets: 0,
            idle_workers: Vec::new(),
            places: args.places.max(1),
            gauge: args.gauge,
            yields: HashMap::new(),
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
            Msg::Ended { ticket, end } => state.on_ended(&myself, ticket, end).await,
            Msg::YieldPermit { ticket } => state.on_yield_permit(&myself, ticket).await,
            Msg::ReacquirePermit { ticket, reply } => {
                state.on_reacquire_permit(&myself, ticket, reply).await
            }
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
            // The pool stops those that it has no use for, without a reason.
            SupervisionEvent::ActorTerminated(worker, _, Some(reason)) => {
                let reason = format!("the worker was stopped: {reason}");
                state.on_lost(&myself, worker.get_id(), reason).await;
            }
            _ => {}
        }
        Ok(())
    }
}
