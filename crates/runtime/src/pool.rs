//! An agent's pool: admits its runs to a bounded number of workers.
//!
//! Owns the permits and the queue of one agent. Cancellation reaches a started attempt by its token;
//! an attempt that is cancelled in the queue leaves the queue. Sessions send to it through its
//! [`Handle`](crate::pool_port::Handle); its workers are linked to it, so a worker that panics is
//! reported as a lost attempt and its siblings continue. A worker that has ended its attempt gets the
//! next one. The queue contains at most [`Options::pool_queue`](crate::Options) attempts and serves
//! sessions in turn.
//!
//! An attempt that waits for other agents yields its permit: no holder of a permit waits for
//! another one's permit, so agents that delegate to each other never block each other.

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorId, ActorRef, MessagingErr, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::time::Instant;
use unisono_session::machine::AttemptEnd;
use unisono_session::run::RunCause;

use crate::address::ActorResult;
use crate::env::Env;
use crate::fair_queue::{Admission, FairQueue};
use crate::load::GaugePart;
use crate::pool_port::{AttemptReply, Job, Msg, QueueGauge, Ticket};
use crate::worker::{self, Start, Worker};

enum QueueEntry {
    Attempt(Job),
    Returning {
        ticket: Ticket,
        reply: oneshot::Sender<()>,
    },
}

pub(crate) struct Args {
    pub(crate) env: Arc<Env>,
    /// The maximum number of concurrent workers.
    pub(crate) places: usize,
    pub(crate) gauge: Arc<QueueGauge>,
}

pub(crate) struct Pool;

pub(crate) struct State {
    env: Arc<Env>,
    fair_queue: FairQueue<QueueEntry>,
    /// Started attempts.
    running: HashMap<Ticket, Running>,
    /// The last ticket.
    tickets: Ticket,
    /// Idle workers: at most one per permit.
    idle_workers: Vec<ActorRef<Start>>,
    places: usize,
    gauge: Arc<QueueGauge>,
    /// The number of times that each attempt has yielded its permit without reacquiring it.
    yields: HashMap<Ticket, u32>,
}

/// A started attempt.
struct Running {
    worker: ActorRef<Start>,
    reply: AttemptReply,
    since: Instant,
}

impl State {
    async fn on_dispatch(&mut self, myself: &ActorRef<Msg>, job: Job) {
        if job.is_cancelled() {
            return job.end_cancelled();
        }
        let session = job.attempt.assignment.session;
        let offered = self.fair_queue.offer(session, QueueEntry::Attempt(job));
        self.update_gauge();
        match offered {
            Admission::Start(entrant) => self.start(myself, entrant).await,
            // Only attempts are rejected.
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
                    text: None,
                });
            }
        }
    }

    fn on_withdraw(&mut self) {
        let is_cancelled =
            |entry: &QueueEntry| matches!(entry, QueueEntry::Attempt(job) if job.is_cancelled());
        for entry in self.fair_queue.withdraw(is_cancelled) {
            if let QueueEntry::Attempt(job) = entry {
                job.end_cancelled();
            }
        }
        self.update_gauge();
    }

    /// Gives a permit to the entry.
    async fn start(&mut self, myself: &ActorRef<Msg>, entrant: QueueEntry) {
        let mut next = Some(entrant);
        while let Some(entrant) = next.take() {
            let started = match entrant {
                QueueEntry::Attempt(job) => self.start_attempt(myself, job).await,
                QueueEntry::Returning { ticket, reply } => self.give_back(ticket, reply),
            };
            if !started {
                next = self.pass_on();
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

    /// Gives the work to an idle worker, or to a new one.
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

    /// Whether the attempt still needs its permit. One that waits for something else since then goes on
    /// without it.
    fn give_back(&mut self, ticket: Ticket, reply: oneshot::Sender<()>) -> bool {
        let goes_on = self.running.contains_key(&ticket) && reply.send(()).is_ok();
        match self.yields.get_mut(&ticket) {
            Some(times) if *times > 1 => {
                *times -= 1;
                false
            }
            _ if goes_on => {
                self.yields.remove(&ticket);
                true
            }
            _ => false,
        }
    }

    async fn on_yield_permit(&mut self, myself: &ActorRef<Msg>, ticket: Ticket) {
        if !self.running.contains_key(&ticket) {
            return;
        }
        let times = self.yields.entry(ticket).or_default();
        *times += 1;
        if *times == 1
            && let Some(next) = self.pass_on()
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
                // It still waits for others, and reacquires its permit after that.
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
        // While permits are yielded there are more workers than permits.
        if self.idle_workers.len() < self.places {
            self.idle_workers.push(worker);
        } else {
            worker.stop(None);
        }
        self.release_permit(myself, ticket).await;
    }

    /// Handles a lost worker and its attempt.
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

    /// Reports the end of an attempt; returns its worker.
    fn end(&mut self, ticket: Ticket, end: AttemptEnd) -> Option<ActorRef<Start>> {
        let ended = self.running.remove(&ticket)?;
        self.fair_queue.record_time(ended.since.elapsed());
        // The session may have cancelled the run, or ended.
        ended.reply.send(end);
        Some(ended.worker)
    }

    /// Passes on the permit of an ended attempt, unless the attempt had yielded it.
    async fn release_permit(&mut self, myself: &ActorRef<Msg>, ticket: Ticket) {
        if self.yields.remove(&ticket).is_some() {
            return;
        }
        if let Some(next) = self.pass_on() {
            self.start(myself, next).await;
        }
    }

    /// Passes on a permit: returns the entry that gets it.
    fn pass_on(&mut self) -> Option<QueueEntry> {
        let next = self.fair_queue.done();
        self.update_gauge();
        next
    }

    fn update_gauge(&self) {
        self.gauge
            .set(&self.fair_queue, self.env.options.pool_queue);
    }
}

impl Actor for Pool {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> ActorResult<State> {
        let fair_queue = FairQueue::new(
            args.places,
            args.env.options.pool_queue,
            GaugePart::new(&args.env.options.load.attempts),
        );
        let state = State {
            env: args.env,
            fair_queue,
            running: HashMap::new(),
            tickets: 0,
            idle_workers: Vec::new(),
            places: args.places.max(1),
            gauge: args.gauge,
            yields: HashMap::new(),
        };
        // It may have the level of a pool that was lost.
        state.update_gauge();
        Ok(state)
    }

    async fn handle(&self, myself: ActorRef<Msg>, message: Msg, state: &mut State) -> ActorResult {
        match message {
            Msg::Dispatch(job) => state.on_dispatch(&myself, job).await,
            Msg::Ended { ticket, end } => state.on_ended(&myself, ticket, end).await,
            Msg::Withdraw => state.on_withdraw(),
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
    ) -> ActorResult {
        match event {
            SupervisionEvent::ActorFailed(worker, error) => {
                let reason = format!("the agent panicked: {error}");
                state.on_lost(&myself, worker.get_id(), reason).await;
            }
            // The pool stops workers that it does not need, without a reason.
            SupervisionEvent::ActorTerminated(worker, _, Some(reason)) => {
                let reason = format!("the worker was stopped: {reason}");
                state.on_lost(&myself, worker.get_id(), reason).await;
            }
            _ => {}
        }
        Ok(())
    }
}
