//! The public interface of the runtime: start it on a journal, create and open sessions, shut it
//! down.

mod lease;
mod tool_servers;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use unisono_context::SessionId;
use unisono_model::language::Models;
use unisono_search::Search;
use unisono_session::Refusal;
use unisono_session::machine::Import;
use unisono_store::{Health, Journal};

use crate::address::Registration;
use crate::env::Env;
use crate::error::Error;
use crate::extensions::Extensions;
use crate::mcp::Servers;
use crate::options::Options;
use crate::session::{self, Folded, Handle, supervision};
use crate::supervisor::{self, Supervisor};

/// The time that a stop waits for the disk.
const DRAIN: Duration = Duration::from_secs(1);

/// A running tree of actors. Dropping it does not stop them; [`Runtime::shutdown`] does.
#[derive(Debug)]
pub struct Runtime {
    supervisor: ActorRef<supervision::Msg>,
    ended: watch::Receiver<Option<Arc<str>>>,
    tree: JoinHandle<()>,
    /// Follows the lease, if several programs use the store.
    lease: JoinHandle<()>,
    env: Arc<Env>,
}

impl Runtime {
    /// Starts the tree on a journal. Sessions with open turns continue when they are opened.
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
        let (mut servers, mut seats) = (Servers::default(), Vec::new());
        for server in &options.servers {
            let (server, registration) = (Arc::new(server.clone()), Registration::new());
            servers.add(server.clone(), registration.address());
            seats.push((server, registration));
        }
        let extensions = extensions.with_own_actors();
        let env = Env::new(journal, search, extensions, models, options, servers);
        let env = Arc::new(env);
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
        if let Some(entry) = supervision::find(&self.supervisor, id).await {
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
        let entry = supervision::resume(&self.supervisor, folded).await?;
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
        let _ = self.supervisor.send_message(supervision::Msg::Forget(id));
        Ok(deleted)
    }

    /// Removes the words of deleted sessions from the disk: the search index is written again without them.
    ///
    /// # Errors
    /// The index failed.
    pub async fn purge_index(&self) -> Result<(), Error> {
        let purged = self.env.search.purge().await;
        purged.map_err(|error| Error::Unpurged(Arc::new(error)))
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
        let asked = supervision::Msg::CountWorking(reply);
        match self.supervisor.send_message(asked) {
            Ok(()) => answer.await.unwrap_or_default(),
            // A tree that has given up works on none.
            Err(_) => 0,
        }
    }

    /// Forgets every session in memory, without waiting for the disk: other programs may own them.
    pub fn forget_sessions(&self) {
        // A stopping tree forgets them in any case.
        let _ = self.supervisor.send_message(supervision::Msg::ForgetAll);
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
        let settle = supervision::Msg::SettleBudget { sessions, reply };
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
        let _ = self.supervisor.send_message(supervision::Msg::Drain(busy));
        if tokio::time::timeout(DRAIN, drained.recv()).await.is_err() {
            tracing::warn!(
                "the store is slow: unwritten events are decided again at the next start"
            );
        }
    }

    async fn handle(&self, id: SessionId) -> Result<Handle, Error> {
        let entry = supervision::activate(&self.supervisor, id).await?;
        Ok(self.handle_of(id, entry))
    }

    fn handle_of(&self, id: SessionId, entry: session::Entry) -> Handle {
        Handle::new(id, entry, self.supervisor.clone(), self.env.clone())
    }
}

#[cfg(test)]
mod tests;
