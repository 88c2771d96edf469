//! The public interface of the runtime: start it on a journal, create and open sessions, shut it
//! down.

mod lease;
mod tool_servers;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use unisono_context::{AgentId, SessionId};
use unisono_model::language::Models;
use unisono_search::Search;
use unisono_session::Refusal;
use unisono_session::budget::OwnerBudgets;
use unisono_session::budget::broker::DaemonBudget;
use unisono_session::machine::Import;
use unisono_store::{Health, Journal, Vacuumed};

use crate::address::Registration;
use crate::attachments::{self, AttachmentLimits};
use crate::compactor::{Chains, Deadline};
use crate::concurrency::{ConcurrencyLimit, LiveRuns};
use crate::extensions::Extensions;
use crate::hook::{Hook, Hooks};
use crate::load::{Load, Observer};
use crate::mcp::client_servers::ClientServers;
use crate::mcp::{self, Servers};
use crate::pool::Pools;
use crate::residence::{ResidenceBounds, Total};
use crate::restart::Intensity;
use crate::session::{self, Folded, Handle, RecallScope};
use crate::supervisor::{self, Supervisor};

/// The maximum number of followers that read the journal at the same time.
const CATCHING_UP: usize = 4;
/// The time that a stop waits for the disk.
const DRAIN: Duration = Duration::from_secs(1);

/// All limits and timeouts of the runtime.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of waiting runs of one agent.
    pub pool_queue: usize,
    /// The maximum number of concurrent compactions.
    pub compactions: usize,
    /// The maximum number of waiting compactions.
    pub compaction_queue: usize,
    /// The time limit of a turn's compaction with all its steps. After it no model is called; steps
    /// without a model are still carried out.
    pub compaction_deadline: Deadline,
    /// The summarisers.
    pub summarisers: Chains,
    /// The servers whose tools agents may use.
    pub servers: Vec<mcp::Server>,
    /// The hooks that sessions ask.
    pub hooks: Vec<Hook>,
    /// The maximum number of concurrent counting requests.
    pub countings: usize,
    /// The maximum number of waiting requests of one session; further ones are answered with
    /// `busy`.
    pub session_queue: usize,
    /// The time after which an idle session leaves memory.
    pub passivate_after: Duration,
    /// The limits of sessions in memory; working sessions stay in any case.
    pub resident: ResidenceBounds,
    /// The maximum frequency of restarts of an actor.
    pub intensity: Intensity,
    /// The budget of all sessions together; none: unlimited.
    pub budget: Option<DaemonBudget>,
    /// The budgets of owners, each for all sessions of one owner; ignored without `budget`.
    pub budget_owners: Arc<OwnerBudgets>,
    /// The time without progress after which an attempt is stuck.
    pub stuck_after: Duration,
    /// The maximum numbers of active runs.
    pub live_runs: LiveRuns,
    /// Directory of the search index, used by this process only; none: searches index the messages
    /// in memory on demand.
    pub search_index: Option<PathBuf>,
    /// The scope of the tool `recall`.
    pub recall: RecallScope,
    /// The limits of attachments.
    pub attachments: AttachmentLimits,
    /// Updated with the numbers of working and waiting jobs.
    pub load: Load,
    /// Called with committed events.
    pub observer: Observer,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            pool_queue: 4_096,
            compactions: 2,
            compaction_queue: 256,
            compaction_deadline: Duration::from_secs(30).into(),
            summarisers: Chains::default(),
            servers: Vec::new(),
            hooks: Vec::new(),
            countings: 4,
            session_queue: 1_024,
            passivate_after: Duration::from_secs(300),
            resident: ResidenceBounds::default(),
            intensity: Intensity::default(),
            budget: None,
            budget_owners: Arc::default(),
            stuck_after: Duration::from_secs(180),
            live_runs: LiveRuns::default(),
            search_index: None,
            recall: RecallScope::default(),
            attachments: AttachmentLimits::default(),
            load: Load::default(),
            observer: Observer::default(),
        }
    }
}

/// An error of the runtime.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The session refused the request; nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error("{0}")]
    Store(Arc<unisono_store::Error>),
    /// The journal does not fold.
    #[error("session {session} cannot be opened: {reason}; run `unisono doctor`")]
    Broken {
        /// The session.
        session: SessionId,
        /// Why.
        reason: Arc<str>,
    },
    /// There is no such session.
    #[error("session {0} does not exist; `unisono sessions list` shows the existing ones")]
    UnknownSession(SessionId),
    /// Too many requests are waiting.
    #[error("session {0} is busy: its queue is full, try again in a moment")]
    Busy(SessionId),
    /// An agent's queue is full.
    #[error(
        "agent {agent} is busy: its queue is full; try again in about {:.0} s",
        (*.retry_after_ms as f64 / 1e3).ceil()
    )]
    Overloaded {
        /// The agent.
        agent: AgentId,
        /// The expected time until a permit is free, in milliseconds, based on recent runs.
        retry_after_ms: u64,
    },
    /// Attachments cannot be stored; the message with them is refused.
    #[error(transparent)]
    Attachments(#[from] attachments::Error),
    /// Clients hold as many tool servers as are possible.
    #[error(
        "clients hold {0} tool servers, and no more are possible: close a session that has some"
    )]
    ServersFull(usize),
    /// A deleted session may still be in the search index.
    #[error("deleted messages may still be in the files of the search index: {0}")]
    Unpurged(#[source] Arc<unisono_search::Error>),
    /// The actor that should answer has ended.
    #[error("the {0} is not available; the runtime is stopping or keeps failing")]
    Unavailable(&'static str),
}

impl Error {
    /// Whether another program owns the session.
    #[must_use]
    pub fn is_owned_elsewhere(&self) -> bool {
        matches!(self, Error::Store(error) if error.is_owned_elsewhere())
    }
}

impl From<unisono_store::Error> for Error {
    fn from(error: unisono_store::Error) -> Error {
        Error::Store(Arc::new(error))
    }
}

/// The shared environment of all actors.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) journal: Journal,
    pub(crate) search: Search,
    pub(crate) extensions: Extensions,
    pub(crate) models: Models,
    pub(crate) options: Options,
    pub(crate) pools: Pools,
    pub(crate) servers: Servers,
    pub(crate) client_servers: ClientServers,
    pub(crate) hooks: Hooks,
    /// The limit of active runs, if there is one.
    pub(crate) concurrency: Option<ConcurrencyLimit>,
    /// The totals of sessions in memory.
    pub(crate) resident: Total,
    /// Permits of followers that have fallen behind and read the journal.
    pub(crate) catching_up: Semaphore,
    /// The tree is being stopped.
    stopping: AtomicBool,
}

impl Env {
    /// The servers among which the server of a tool is: those that a client holds for the session,
    /// otherwise the configured ones.
    pub(crate) fn servers_for(&self, session: SessionId, tool: &str) -> Servers {
        let held = self.client_servers.with_tool(session, tool);
        held.unwrap_or_else(|| self.servers.clone())
    }

    /// From now on, ends are consequences of the shutdown.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// A running tree of actors. Dropping it does not stop them; [`Runtime::shutdown`] does.
#[derive(Debug)]
pub struct Runtime {
    supervisor: ActorRef<supervisor::Msg>,
    ended: watch::Receiver<Option<Arc<str>>>,
    tree: JoinHandle<()>,
    /// Follows the lease, if several programs use the store.
    lease: JoinHandle<()>,
    env: Arc<Env>,
}

impl Runtime {
    /// Starts the tree on a journal. Sessions with open turns continue when they are opened.
    ///
    /// # Errors
    /// An actor could not be started.
    pub async fn start(
        journal: Journal,
        extensions: Extensions,
        models: Models,
        options: Options,
    ) -> Result<Runtime, Error> {
        let search = match &options.search_index {
            Some(directory) => Search::on_disk(journal.clone(), directory.clone()),
            None => Search::in_memory(journal.clone()),
        };
        let hooks = Hooks::new(&options.hooks);
        let (mut servers, mut seats) = (Servers::default(), Vec::new());
        for server in &options.servers {
            let (server, registration) = (Arc::new(server.clone()), Registration::new());
            servers.add(server.clone(), registration.address());
            seats.push((server, registration));
        }
        let concurrency = options.live_runs.daemon.map(ConcurrencyLimit::new);
        let env = Arc::new(Env {
            journal,
            search,
            extensions,
            models,
            options,
            pools: Pools::default(),
            servers,
            client_servers: ClientServers::default(),
            hooks,
            concurrency,
            resident: Total::default(),
            catching_up: Semaphore::new(CATCHING_UP),
            stopping: AtomicBool::new(false),
        });
        let (sender, ended) = watch::channel(None);
        let args = supervisor::Args {
            env: env.clone(),
            ended: sender,
            servers: seats,
        };
        let spawned = Actor::spawn(None, Supervisor, args).await;
        let (supervisor, tree) = spawned.map_err(|_| Error::Unavailable("supervisor"))?;
        let lease = tokio::spawn(lease::follow(env.clone(), supervisor.clone()));
        Ok(Runtime {
            supervisor,
            ended,
            tree,
            lease,
            env,
        })
    }

    /// Creates a session from a conversation. On disk when it returns.
    ///
    /// # Errors
    /// The conversation is refused, or the store fails.
    pub async fn create(&self, import: Import) -> Result<Handle, Error> {
        let id = import.session.ok_or(Refusal::NoSessionId)?;
        let handle = self.handle(id).await?;
        handle.import(import).await?;
        Ok(handle)
    }

    /// Opens a session. Its open turns continue by themselves.
    ///
    /// # Errors
    /// There is no session with this id, or its journal cannot be read.
    pub async fn open(&self, id: SessionId) -> Result<Handle, Error> {
        // A session that is live and has events is not looked for in the store.
        if let Some(entry) = supervisor::find(&self.supervisor, id).await {
            let handle = self.handle_of(id, entry);
            if handle.inspect(|state| state.events() > 0).await? {
                return Ok(handle);
            }
        }
        if !self.env.journal.exists(id).await? {
            return Err(Error::UnknownSession(id));
        }
        let handle = self.handle(id).await?;
        handle.inspect(|_| ()).await?;
        Ok(handle)
    }

    /// Opens a session that this program took over, without reading it again. Its open turns
    /// continue by themselves.
    ///
    /// # Errors
    /// It has to be claimed again, and its journal cannot be read.
    pub async fn resume(&self, folded: Folded) -> Result<Handle, Error> {
        let id = folded.session;
        let entry = supervisor::resume(&self.supervisor, folded).await?;
        let handle = self.handle_of(id, entry);
        handle.inspect(|_| ()).await?;
        Ok(handle)
    }

    /// Deletes a session permanently, including memory and search index; returns whether it
    /// existed.
    ///
    /// # Errors
    /// The store is read-only, or failed.
    pub async fn delete(&self, id: SessionId) -> Result<bool, Error> {
        let deleted = self.env.journal.delete(id).await?;
        self.env.search.removed(id);
        // A stopping tree forgets it in any case.
        let _ = self.supervisor.send_message(supervisor::Msg::Forget(id));
        Ok(deleted)
    }

    /// Removes all data of deleted sessions from the disk: from the search index and from the
    /// journal. The live data is written again, so the duration depends on its size.
    ///
    /// # Errors
    /// There is no space for a copy of the live data, or the store or its index failed.
    pub async fn purge(&self) -> Result<Vacuumed, Error> {
        let index = self.env.search.purge().await;
        index.map_err(|error| Error::Unpurged(Arc::new(error)))?;
        Ok(self.env.journal.vacuum(None).await?)
    }

    /// Its journal.
    pub fn journal(&self) -> &Journal {
        &self.env.journal
    }

    /// The index of all messages.
    pub fn search(&self) -> &Search {
        &self.env.search
    }

    /// Whether the store accepts writes.
    pub fn health(&self) -> Health {
        self.env.journal.health()
    }

    /// Waits until the tree has given up, and returns the reason. Never returns while it works.
    pub async fn failed(&self) -> Arc<str> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_else(|| "unknown".into()),
            Err(_) => "the supervisor is gone".into(),
        }
    }

    /// The number of sessions in memory with open turns.
    pub async fn working(&self) -> usize {
        let (reply, answer) = oneshot::channel();
        let asked = supervisor::Msg::CountWorking(reply);
        match self.supervisor.send_message(asked) {
            Ok(()) => answer.await.unwrap_or_default(),
            // A tree that has given up works on none.
            Err(_) => 0,
        }
    }

    /// Forgets every session in memory, without waiting for the disk: other programs may own them.
    pub fn forget_sessions(&self) {
        // A stopping tree forgets them in any case.
        let _ = self.supervisor.send_message(supervisor::Msg::ForgetAll);
    }

    /// Removes every session from memory after its decisions are on disk, so that other programs
    /// can continue.
    pub async fn hand_over_sessions(&self) {
        self.drain().await;
        self.forget_sessions();
        // Answered after that.
        self.working().await;
    }

    /// Takes back the unused budget of these sessions, which are not live.
    pub async fn settle_budget(&self, sessions: Vec<SessionId>) {
        let (reply, settled) = oneshot::channel();
        let settle = supervisor::Msg::SettleBudget { sessions, reply };
        if self.supervisor.send_message(settle).is_ok() {
            // Without a budget there is no answer.
            let _ = settled.await;
        }
    }

    /// Waits until no hooks of ended turns are pending, at most this long.
    pub async fn hooks_settled(&self, patience: Duration) {
        self.env.hooks.settled(patience).await;
    }

    /// Stops every actor after its decisions are on disk. Open turns stay open in the journal and
    /// continue at the next start.
    pub async fn shutdown(self) {
        self.env.stop();
        self.lease.abort();
        self.drain().await;
        self.supervisor.stop(None);
        // The tree ends after its root has stopped its children.
        if self.tree.await.is_err() {
            tracing::warn!("the supervisor did not stop cleanly");
        }
        self.env.extensions.stop().await;
        self.env.search.close().await;
    }

    /// Waits until the decisions of every session are on disk.
    async fn drain(&self) {
        let (busy, mut drained) = mpsc::channel(1);
        // A tree that has given up has nothing to write.
        let _ = self.supervisor.send_message(supervisor::Msg::Drain(busy));
        if tokio::time::timeout(DRAIN, drained.recv()).await.is_err() {
            tracing::warn!(
                "the store is slow: unwritten events are decided again at the next start"
            );
        }
    }

    async fn handle(&self, id: SessionId) -> Result<Handle, Error> {
        let entry = supervisor::activate(&self.supervisor, id).await?;
        Ok(self.handle_of(id, entry))
    }

    fn handle_of(&self, id: SessionId, entry: session::Entry) -> Handle {
        Handle::new(id, entry, self.supervisor.clone(), self.env.clone())
    }
}

#[cfg(test)]
mod tests;
