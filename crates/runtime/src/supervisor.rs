//! The supervisor: the root of the tree.
//!
//! Owns the tokenizer, the compactor, the budget broker, a pool per agent and the live sessions,
//! all linked to it. A failed child is restarted after a jittered pause, without its siblings. A
//! session that fails too often is stopped until it is opened again; if any other child fails too
//! often, the tree ends.

mod sessions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorId, ActorRef, SpawnErr, SupervisionEvent};
use tokio::sync::{Semaphore, watch};
use unisono_context::SessionId;

use crate::address::{ActorResult, Registration};
use crate::budget_broker::{self, BudgetBroker};
use crate::clock;
use crate::compactor::{self, Compactor};
use crate::env::Env;
use crate::error::Error;
use crate::mcp;
use crate::mcp::server::{self, ToolServer};
use crate::pool::{self, Pool};
use crate::pool_port;
use crate::residence::Residence;
use crate::restart::{History, Verdict};
use crate::session::supervision::{Child, Msg};
use crate::session::{self, Feed, Folded, Session};
use crate::tokenizer::{self, TokenizerActor};

pub(crate) struct Args {
    pub(crate) env: Arc<Env>,
    /// The channel for the reason why the tree gave up.
    pub(crate) ended: watch::Sender<Option<Arc<str>>>,
    pub(crate) servers: Vec<(Arc<mcp::Server>, Registration<server::Msg>)>,
}

pub(crate) struct Supervisor;

struct LiveSession {
    registration: Registration<session::Msg>,
    feed: Arc<Feed>,
    permits: Arc<Semaphore>,
    attaching: Arc<tokio::sync::Mutex<()>>,
    residence: Arc<Residence>,
    /// For its first start, if it was taken over.
    folded: Option<Box<Folded>>,
}

pub(crate) struct State {
    env: Arc<Env>,
    ended: watch::Sender<Option<Arc<str>>>,
    myself: ActorRef<Msg>,
    tokenizer_seat: Registration<tokenizer::Msg>,
    tokenizer: tokenizer::Handle,
    compactor_seat: Registration<compactor::Msg>,
    compactor: compactor::Handle,
    broker_registration: Registration<budget_broker::Msg>,
    pools: HashMap<pool_port::Key, (Registration<pool_port::Msg>, Arc<pool_port::QueueGauge>)>,
    servers: HashMap<Arc<str>, (Arc<mcp::Server>, Registration<server::Msg>)>,
    sessions: HashMap<SessionId, LiveSession>,
    /// Of live sessions, and of followed ones.
    feeds: HashMap<SessionId, Arc<Feed>>,
    actors: HashMap<ActorId, Child>,
    histories: HashMap<Child, History>,
}

impl State {
    fn new(myself: ActorRef<Msg>, args: Args) -> State {
        let tokenizer_seat = Registration::new();
        let compactor_seat = Registration::new();
        let countings = args.env.options.countings;
        State {
            tokenizer: tokenizer::Handle::new(tokenizer_seat.address(), countings),
            compactor: compactor::Handle(compactor_seat.address()),
            tokenizer_seat,
            compactor_seat,
            broker_registration: Registration::new(),
            pools: HashMap::new(),
            servers: args
                .servers
                .into_iter()
                .map(|(server, registration)| (server.name.clone(), (server, registration)))
                .collect(),
            sessions: HashMap::new(),
            feeds: HashMap::new(),
            actors: HashMap::new(),
            histories: HashMap::new(),
            env: args.env,
            ended: args.ended,
            myself,
        }
    }

    async fn on_activate(
        &mut self,
        id: SessionId,
        folded: Option<Box<Folded>>,
    ) -> Result<session::Entry, Error> {
        if !self.sessions.contains_key(&id) {
            let live = LiveSession {
                registration: Registration::new(),
                feed: self.feed(id),
                permits: Arc::new(Semaphore::new(self.env.options.session_queue.max(1))),
                attaching: Arc::default(),
                residence: Arc::new(Residence::new(self.env.resident.clone())),
                folded,
            };
            self.sessions.insert(id, live);
            self.make_room();
            self.start(Child::Session(id))
                .await
                .map_err(|_| Error::Unavailable("session"))?;
        }
        self.entry(id).ok_or(Error::Unavailable("session"))
    }

    fn entry(&self, id: SessionId) -> Option<session::Entry> {
        let live = self.sessions.get(&id)?;
        Some(session::Entry {
            address: live.registration.address(),
            permits: live.permits.clone(),
            attaching: live.attaching.clone(),
        })
    }

    async fn on_pool_of(&mut self, key: pool_port::Key) -> Result<pool_port::Handle, Error> {
        if !self.pools.contains_key(&key) {
            let place = (Registration::new(), Arc::default());
            self.pools.insert(key.clone(), place);
            let started = self.start(Child::Pool(key.clone())).await;
            started.map_err(|_| Error::Unavailable("agent pool"))?;
        }
        let place = self.pools.get(&key);
        let (registration, gauge) = place.ok_or(Error::Unavailable("agent pool"))?;
        let pool = pool_port::Handle {
            address: registration.address(),
            gauge: gauge.clone(),
        };
        self.env.pools.add(key, pool.clone());
        Ok(pool)
    }

    async fn start(&mut self, child: Child) -> Result<(), SpawnErr> {
        let parent = self.myself.get_cell();
        let id = match &child {
            Child::Tokenizer => {
                let (actor, _) =
                    TokenizerActor::spawn_linked(None, TokenizerActor, (), parent).await?;
                self.tokenizer_seat.fill(actor.clone());
                actor.get_id()
            }
            Child::Compactor => {
                let args = compactor::Args {
                    env: self.env.clone(),
                    tokenizer: self.tokenizer.clone(),
                };
                let (actor, _) = Compactor::spawn_linked(None, Compactor, args, parent).await?;
                self.compactor_seat.fill(actor.clone());
                actor.get_id()
            }
            Child::BudgetBroker => {
                let args = budget_broker::Args {
                    journal: self.env.journal.clone(),
                    rules: self.env.options.budget.unwrap_or_default(),
                    owners: self.env.options.budget_owners.clone(),
                    is_restart: self.histories.contains_key(&child),
                };
                let (actor, _) =
                    BudgetBroker::spawn_linked(None, BudgetBroker, args, parent).await?;
                self.broker_registration.fill(actor.clone());
                for live in self.sessions.values() {
                    // A session that is being opened returns its grant by itself.
                    let _ = live.registration.address().send_now(session::Msg::Recall);
                }
                actor.get_id()
            }
            Child::Pool(key) => {
                let gauge = self.pools.get(key).map(|(_, gauge)| gauge.clone());
                let args = pool::Args {
                    env: self.env.clone(),
                    places: key.1 as usize,
                    gauge: gauge.unwrap_or_default(),
                };
                let (actor, _) = Pool::spawn_linked(None, Pool, args, parent).await?;
                let id = actor.get_id();
                if let Some((registration, _)) = self.pools.get(key) {
                    registration.fill(actor);
                }
                id
            }
            Child::ToolServer(name) => self.start_server(name, parent).await?,
            Child::Session(session) => self.start_session(*session, parent).await?,
        };
        self.actors.insert(id, child);
        Ok(())
    }

    async fn start_server(&self, name: &str, parent: ActorCell) -> Result<ActorId, SpawnErr> {
        let gone = || SpawnErr::StartupFailed("the server is not configured".into());
        let (server, registration) = self.servers.get(name).ok_or_else(gone)?;
        let args = server::Args {
            server: server.clone(),
            intensity: self.env.options.intensity,
        };
        let (actor, _) = ToolServer::spawn_linked(None, ToolServer, args, parent).await?;
        let id = actor.get_id();
        registration.fill(actor);
        Ok(id)
    }

    fn budget_broker(&self) -> Option<budget_broker::Handle> {
        let bounded = self.env.options.budget.is_some();
        bounded.then(|| budget_broker::Handle(self.broker_registration.address()))
    }

    async fn start_session(
        &mut self,
        id: SessionId,
        parent: ActorCell,
    ) -> Result<ActorId, SpawnErr> {
        let gone = || SpawnErr::StartupFailed("the session is no longer requested".into());
        let budget_broker = self.budget_broker();
        let live = self.sessions.get_mut(&id).ok_or_else(gone)?;
        let args = session::Args {
            id,
            env: self.env.clone(),
            tokenizer: self.tokenizer.clone(),
            compactor: self.compactor.clone(),
            budget_broker,
            supervisor: self.myself.clone(),
            feed: live.feed.clone(),
            residence: live.residence.clone(),
            folded: live.folded.take(),
        };
        let (actor, _) = Session::spawn_linked(None, Session, args, parent).await?;
        let id = actor.get_id();
        live.registration.fill(actor);
        Ok(id)
    }

    /// A child is lost: restarts it, or gives up.
    fn on_child_lost(&mut self, actor: ActorId, reason: &str) {
        let Some(child) = self.actors.remove(&actor) else {
            return;
        };
        tracing::error!(?child, reason, "an actor failed");
        self.clear_registration(&child);
        let jitter = clock::new_id() as u64;
        let history = self.histories.entry(child.clone()).or_default();
        match history.failed(self.env.options.intensity, clock::now(), jitter) {
            Verdict::After { pause_ms } => {
                let myself = self.myself.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                    // The tree may have been stopped meanwhile.
                    let _ = myself.send_message(Msg::Restart(child));
                });
            }
            Verdict::GiveUp => self.give_up(child, reason),
        }
    }

    fn give_up(&mut self, child: Child, reason: &str) {
        tracing::error!(?child, reason, "an actor failed too often");
        self.histories.remove(&child);
        match child {
            // Waiting callers get an error; the next opening starts it again.
            Child::Session(id) => self.on_session_left(id),
            Child::Tokenizer
            | Child::Compactor
            | Child::BudgetBroker
            | Child::Pool(_)
            | Child::ToolServer(_) => {
                self.ended
                    .send_replace(Some(format!("{child:?} failed too often: {reason}").into()));
                self.env.stop();
                self.myself
                    .stop(Some("a child failed too often".to_owned()));
            }
        }
    }

    fn clear_registration(&self, child: &Child) {
        match child {
            Child::Tokenizer => self.tokenizer_seat.clear(),
            Child::Compactor => self.compactor_seat.clear(),
            Child::BudgetBroker => self.broker_registration.clear(),
            Child::Pool(key) => {
                let place = self.pools.get(key).into_iter();
                place.for_each(|(registration, _)| registration.clear());
            }
            Child::ToolServer(name) => {
                let server = self.servers.get(name).into_iter();
                server.for_each(|(_, registration)| registration.clear());
            }
            Child::Session(id) => self
                .sessions
                .get(id)
                .into_iter()
                .for_each(|s| s.registration.clear()),
        }
    }

    /// A child has stopped by itself: a session that left memory, as intended.
    fn on_stopped(&mut self, actor: ActorId, reason: Option<String>) {
        match self.actors.get(&actor) {
            Some(&Child::Session(id)) if reason.is_none() => {
                self.on_session_left(id);
                // Nothing about it is kept, including its restart history.
                if let Some(child) = self.actors.remove(&actor) {
                    self.histories.remove(&child);
                }
            }
            _ => self.on_child_lost(actor, reason.as_deref().unwrap_or("stopped")),
        }
    }
}

impl Actor for Supervisor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, myself: ActorRef<Msg>, args: Args) -> ActorResult<State> {
        let mut state = State::new(myself, args);
        state.start(Child::Tokenizer).await?;
        state.start(Child::Compactor).await?;
        for name in state.servers.keys().cloned().collect::<Vec<_>>() {
            state.start(Child::ToolServer(name)).await?;
        }
        if state.env.options.budget.is_some() {
            state.start(Child::BudgetBroker).await?;
        }
        Ok(state)
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, state: &mut State) -> ActorResult {
        match message {
            Msg::Activate {
                session,
                folded,
                reply,
            } => {
                // The caller may have given up; the session stays live until it is idle.
                let _ = reply.send(state.on_activate(session, folded).await);
            }
            Msg::Find { session, reply } => drop(reply.send(state.entry(session))),
            Msg::Follow { session, reply } => drop(reply.send(Ok(state.on_follow(session)))),
            Msg::Forget(session) => state.on_forget(session),
            Msg::ForgetAll => state.on_forget_all(),
            Msg::ForgetLost => state.on_forget_lost(),
            Msg::CountWorking(reply) => drop(reply.send(state.working())),
            Msg::SettleBudget { sessions, reply } => {
                if let Some(broker) = state.budget_broker() {
                    broker.settle(sessions, reply);
                }
            }
            Msg::MakeRoom => state.make_room(),
            Msg::Drain(busy) => {
                for live in state.sessions.values() {
                    // A session that has ended has nothing to write.
                    let _ = live
                        .registration
                        .address()
                        .send_now(session::Msg::Drain(busy.clone()));
                }
            }
            Msg::PoolOf { key, reply } => drop(reply.send(state.on_pool_of(key).await)),
            Msg::Restart(child) if !state.is_missing(&child) => {}
            Msg::Restart(child) => {
                if let Err(error) = state.start(child.clone()).await {
                    tracing::error!(?child, %error, "an actor could not be started again");
                    state.give_up(child, &error.to_string());
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> ActorResult {
        match event {
            SupervisionEvent::ActorFailed(actor, error) => {
                state.on_child_lost(actor.get_id(), &error.to_string());
            }
            SupervisionEvent::ActorTerminated(actor, _, reason) => {
                state.on_stopped(actor.get_id(), reason);
            }
            _ => {}
        }
        Ok(())
    }
}
