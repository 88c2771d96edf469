//! The runtime's face: start it on a journal, create and open sessions, shut it down.

mod lease;

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
use unisono_session::budget::broker::Rules;
use unisono_session::machine::Import;
use unisono_store::{Health, Journal, Vacuumed};

use crate::address::Registration;
use crate::compactor::{Chains, Deadline};
use crate::concurrency::{ConcurrencyLimit, LiveRuns};
use crate::extensions::Extensions;
use crate::hook::{Hook, Hooks};
use crate::load::{Load, Observer};
use crate::mcp::{self, Servers};
use crate::pool::Pools;
use crate::residence::{Bounds, Total};
use crate::restart::Intensity;
use crate::session::{Handle, Reach};
use crate::supervisor::{self, Supervisor};

/// Followers of sessions that read the journal at one time.
const CATCHING_UP: usize = 4;
/// How long a stop waits for the disk.
const DRAIN: Duration = Duration::from_secs(1);

/// Every bound and deadline of the runtime.
#[derive(Clone, Debug)]
pub struct Options {
    /// Runs of one agent that wait for a place.
    pub pool_queue: usize,
    /// Compactions at one time.
    pub compactions: usize,
    /// Compactions that wait.
    pub compaction_queue: usize,
    /// How long the compaction of a turn may take, all its steps. After it no model is asked; what
    /// needs none is carried out.
    pub compaction_deadline: Deadline,
    /// Who writes summaries.
    pub summarisers: Chains,
    /// The servers whose tools agents may be given.
    pub servers: Vec<mcp::Server>,
    /// The hooks that sessions ask.
    pub hooks: Vec<Hook>,
    /// Counting requests at one time.
    pub countings: usize,
    /// Requests one session takes before it answers that it is busy.
    pub session_queue: usize,
    /// A session without work leaves memory after this.
    pub passivate_after: Duration,
    /// How many sessions stay in memory; those that work stay in any case.
    pub resident: Bounds,
    /// How often a failed actor is started again.
    pub intensity: Intensity,
    /// What all sessions together may use; none: there is no bound.
    pub budget: Option<Rules>,
    /// What the sessions of each owner may use together; counts only beside `budget`.
    pub budget_owners: Arc<OwnerBudgets>,
    /// How long an attempt may make no progress before it is taken for stuck.
    pub stuck_after: Duration,
    /// Runs at work at one time.
    pub live_runs: LiveRuns,
    /// Directory of the search index, which nobody else uses; none: what is searched is indexed in
    /// memory when it is asked for.
    pub search_index: Option<PathBuf>,
    /// What agents may search and read by the tool `recall`.
    pub recall: Reach,
    /// Kept up to date with what works and waits.
    pub load: Load,
    /// Told of what is committed.
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
            resident: Bounds::default(),
            intensity: Intensity::default(),
            budget: None,
            budget_owners: Arc::default(),
            stuck_after: Duration::from_secs(180),
            live_runs: LiveRuns::default(),
            search_index: None,
            recall: Reach::default(),
            load: Load::default(),
            observer: Observer::default(),
        }
    }
}

/// What could not be done.
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
    #[error("session {0} does not exist; `unisono sessions list` shows those that do")]
    UnknownSession(SessionId),
    /// Too many requests wait.
    #[error("session {0} is busy: its queue is full, try again in a moment")]
    Busy(SessionId),
    /// An agent's queue is full.
    #[error(
        "agent {agent} is busy: its queue is full; a place may be free in {:.0} s",
        (*.retry_after_ms as f64 / 1e3).ceil()
    )]
    Overloaded {
        /// The agent.
        agent: AgentId,
        /// When it is worth asking again, by how long recent runs took.
        retry_after_ms: u64,
    },
    /// What was deleted may still be in the search index.
    #[error("what was deleted may still be in the files of the search index: {0}")]
    Unpurged(#[source] Arc<unisono_search::Error>),
    /// The actor that should answer is gone.
    #[error("the {0} is not available; the runtime is stopping or keeps failing")]
    Unavailable(&'static str),
}

impl Error {
    /// Whether the session is for another program to work on.
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

/// What every actor may use.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) journal: Journal,
    pub(crate) search: Search,
    pub(crate) extensions: Extensions,
    pub(crate) models: Models,
    pub(crate) options: Options,
    pub(crate) pools: Pools,
    pub(crate) servers: Servers,
    pub(crate) hooks: Hooks,
    /// The bound of runs at work, where there is one.
    pub(crate) concurrency: Option<ConcurrencyLimit>,
    /// What sessions in memory hold.
    pub(crate) resident: Total,
    /// Places of followers that have fallen behind and read the journal.
    pub(crate) catching_up: Semaphore,
    /// The tree is being stopped.
    stopping: AtomicBool,
}

impl Env {
    /// From now on what ends ends with the tree, and not by itself.
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
    /// Where several programs use the store.
    lease: JoinHandle<()>,
    env: Arc<Env>,
}

impl Runtime {
    /// Starts the tree on a journal. Sessions with open turns go on when they are opened.
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
            hooks,
            concurrency,
            resident: Total::default(),
            catching_up: Semaphore::new(CATCHING_UP),
            stopping: AtomicBool::new(false),
        });
        let (tell, ended) = watch::channel(None);
        let args = supervisor::Args {
            env: env.clone(),
            ended: tell,
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

    /// Opens a session. Its open turns go on by themselves.
    ///
    /// # Errors
    /// There is none of that id, or its journal cannot be read.
    pub async fn open(&self, id: SessionId) -> Result<Handle, Error> {
        if !self.env.journal.exists(id).await? {
            return Err(Error::UnknownSession(id));
        }
        let handle = self.handle(id).await?;
        handle.inspect(|_| ()).await?;
        Ok(handle)
    }

    /// Deletes a session for good, from memory and the search index as well; answers whether there
    /// was one.
    ///
    /// # Errors
    /// The store takes no writes, or failed.
    pub async fn delete(&self, id: SessionId) -> Result<bool, Error> {
        let deleted = self.env.journal.delete(id).await?;
        self.env.search.removed(id);
        // A tree that is stopping forgets it in any case.
        let _ = self.supervisor.send_message(supervisor::Msg::Forget(id));
        Ok(deleted)
    }

    /// Leaves nothing on disk of sessions that were deleted: neither in the search index nor in the
    /// journal. What is live is written anew for it, so it takes as long as there is much of that.
    ///
    /// # Errors
    /// There is no room for a copy of what is live, or the store or its index failed.
    pub async fn purge(&self) -> Result<Vacuumed, Error> {
        let index = self.env.search.purge().await;
        index.map_err(|error| Error::Unpurged(Arc::new(error)))?;
        Ok(self.env.journal.vacuum(None).await?)
    }

    /// The tools that a server offers now, by name. Starts the server if it is not there.
    ///
    /// # Errors
    /// It cannot be used; the error says why.
    pub async fn offers(&self, server: &str) -> Result<Vec<mcp::Offer>, mcp::Fault> {
        self.env.servers.offers(server).await
    }

    /// The journal it runs on.
    pub fn journal(&self) -> &Journal {
        &self.env.journal
    }

    /// The index of all that was said.
    pub fn search(&self) -> &Search {
        &self.env.search
    }

    /// Whether the store still takes writes.
    pub fn health(&self) -> Health {
        self.env.journal.health()
    }

    /// Waits until the tree has given up, and says why. Never returns while it works.
    pub async fn failed(&self) -> Arc<str> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_else(|| "unknown".into()),
            Err(_) => "the supervisor is gone".into(),
        }
    }

    /// How many sessions in memory have open turns.
    pub async fn working(&self) -> usize {
        let (reply, answer) = oneshot::channel();
        let asked = supervisor::Msg::CountWorking(reply);
        match self.supervisor.send_message(asked) {
            Ok(()) => answer.await.unwrap_or_default(),
            // A tree that has given up works on none.
            Err(_) => 0,
        }
    }

    /// Forgets every session in memory, without waiting for the disk: others may work on them by now.
    pub fn forget_sessions(&self) {
        // A tree that is stopping forgets them in any case.
        let _ = self.supervisor.send_message(supervisor::Msg::ForgetAll);
    }

    /// Takes every session out of memory once what it decided is on disk, for others to go on with.
    pub async fn hand_over_sessions(&self) {
        self.drain().await;
        self.forget_sessions();
        // Answered after that.
        self.working().await;
    }

    /// Takes back what these sessions hold of the budget and do not use. Nobody works on them.
    pub async fn settle_budget(&self, sessions: Vec<SessionId>) {
        let (reply, settled) = oneshot::channel();
        let settle = supervisor::Msg::SettleBudget { sessions, reply };
        if self.supervisor.send_message(settle).is_ok() {
            // Where there is no budget, there is no answer.
            let _ = settled.await;
        }
    }

    /// Waits until hooks are told of all turns that have ended, so long at most.
    pub async fn hooks_settled(&self, patience: Duration) {
        self.env.hooks.settled(patience).await;
    }

    /// Stops every actor once what it decided is on disk. Open turns stay open in the journal and
    /// go on at the next start.
    pub async fn shutdown(self) {
        self.env.stop();
        self.lease.abort();
        self.drain().await;
        self.supervisor.stop(None);
        // The tree ends when its root has stopped its children.
        if self.tree.await.is_err() {
            tracing::warn!("the supervisor did not stop cleanly");
        }
        self.env.extensions.stop().await;
        self.env.search.close().await;
    }

    /// Waits until every session has on disk what it decided.
    async fn drain(&self) {
        let (busy, mut drained) = mpsc::channel(1);
        // A tree that has given up has nothing to put there.
        let _ = self.supervisor.send_message(supervisor::Msg::Drain(busy));
        if tokio::time::timeout(DRAIN, drained.recv()).await.is_err() {
            tracing::warn!("the store is slow: what it has not taken yet is worked out again");
        }
    }

    async fn handle(&self, id: SessionId) -> Result<Handle, Error> {
        let entry = supervisor::activate(&self.supervisor, id).await?;
        Ok(Handle::new(
            id,
            entry,
            self.supervisor.clone(),
            self.env.clone(),
        ))
    }
}

#[cfg(test)]
mod tests;
