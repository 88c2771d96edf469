//! Tool servers of one session, connected as long as a client holds them.
//!
//! Each is an actor below the supervisor, as a configured server is. A session may have servers of
//! several clients; the newest server of a name answers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::{Actor as _, ActorCell, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use unisono_context::SessionId;

use super::server::{self, ToolServer};
use super::{Server, ServerFault, Servers, ToolOffer, server_of};
use crate::address::Registration;
use crate::restart::Intensity;

/// The maximum number of servers that clients hold, of all sessions together.
pub const MAX_CLIENT_SERVERS: usize = 256;

/// Why servers cannot be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientServersError {
    /// [`MAX_CLIENT_SERVERS`] are held.
    Full,
    Stopping,
}

/// The held servers of all sessions.
#[derive(Clone)]
pub(crate) struct ClientServers {
    sessions: Arc<Mutex<Sessions>>,
    permits: Arc<Semaphore>,
}

#[derive(Default)]
struct Sessions {
    last: u64,
    /// The oldest client's first.
    all: HashMap<SessionId, Vec<(u64, Servers)>>,
}

impl Default for ClientServers {
    fn default() -> ClientServers {
        ClientServers {
            sessions: Arc::default(),
            permits: Arc::new(Semaphore::new(MAX_CLIENT_SERVERS)),
        }
    }
}

impl fmt::Debug for ClientServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientServers")
    }
}

/// Tool servers that a client holds for a session. Dropping it ends their connections and programs.
pub struct ClientServersGuard {
    held: ClientServers,
    session: SessionId,
    number: u64,
    servers: Servers,
    actors: Vec<(Registration<server::Msg>, ActorRef<server::Msg>)>,
    _permits: OwnedSemaphorePermit,
}

impl fmt::Debug for ClientServersGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientServersGuard")
            .field(&self.servers)
            .finish()
    }
}

impl ClientServers {
    /// Starts an actor for each server, below `supervisor`. A server is connected when it is needed.
    pub(crate) async fn hold(
        &self,
        session: SessionId,
        configured: Vec<Server>,
        (supervisor, intensity): (ActorCell, Intensity),
    ) -> Result<ClientServersGuard, ClientServersError> {
        let count = u32::try_from(configured.len()).unwrap_or(u32::MAX);
        let permits = self.permits.clone().try_acquire_many_owned(count);
        let permits = permits.map_err(|_| ClientServersError::Full)?;
        let (mut servers, mut actors) = (Servers::default(), Vec::new());
        for server in configured {
            let (server, registration) = (Arc::new(server), Registration::new());
            let args = server::Args {
                server: server.clone(),
                intensity,
            };
            let parent = supervisor.clone();
            let spawned = ToolServer::spawn_linked(None, ToolServer, args, parent).await;
            let (actor, _) = spawned.map_err(|_| ClientServersError::Stopping)?;
            registration.fill(actor.clone());
            servers.add(server, registration.address());
            actors.push((registration, actor));
        }
        let number = {
            let mut sessions = self.sessions();
            sessions.last += 1;
            let number = sessions.last;
            let of_session = sessions.all.entry(session).or_default();
            of_session.push((number, servers.clone()));
            number
        };
        Ok(ClientServersGuard {
            held: self.clone(),
            session,
            number,
            servers,
            actors,
            _permits: permits,
        })
    }

    /// The newest held servers of a session that include the server of a tool; none if no client holds
    /// that server.
    pub(crate) fn with_tool(&self, session: SessionId, tool: &str) -> Option<Servers> {
        let name = server_of(tool)?;
        let sessions = self.sessions();
        let mut newest_first = sessions.all.get(&session)?.iter().rev();
        let found = newest_first.find(|(_, servers)| servers.0.contains_key(name));
        found.map(|(_, servers)| servers.clone())
    }

    /// The held servers of a session, by name, each with those that have it.
    pub(crate) fn of_session(&self, session: SessionId) -> Vec<(Arc<str>, Servers)> {
        let sessions = self.sessions();
        let mut all: Vec<(Arc<str>, Servers)> = Vec::new();
        for (_, servers) in sessions.all.get(&session).into_iter().flatten().rev() {
            for name in servers.0.keys() {
                if all.iter().all(|(known, _)| known != name) {
                    all.push((name.clone(), servers.clone()));
                }
            }
        }
        all
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientServersGuard {
    /// The names of the servers.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.servers.0.keys()
    }

    /// The current tools of one of them, by name. Starts the server if necessary.
    ///
    /// # Errors
    /// The server is unavailable; the error contains the reason.
    pub async fn offers(&self, server: &str) -> Result<Vec<ToolOffer>, ServerFault> {
        self.servers.offers(server).await
    }
}

impl Drop for ClientServersGuard {
    fn drop(&mut self) {
        let mut sessions = self.held.sessions();
        if let Some(of_session) = sessions.all.get_mut(&self.session) {
            of_session.retain(|(number, _)| *number != self.number);
            if of_session.is_empty() {
                sessions.all.remove(&self.session);
            }
        }
        drop(sessions);
        for (registration, actor) in &self.actors {
            registration.clear();
            actor.stop(None);
        }
    }
}
