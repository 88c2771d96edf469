//! The tool servers of a runtime: those of its settings, and those that clients hold for sessions.

use std::sync::Arc;

use tokio::task::JoinSet;
use unisono_context::SessionId;

use super::{Error, Runtime};
use crate::mcp;
use crate::mcp::client_servers::ClientServersError;

impl Runtime {
    /// The current tools of a server, by name. Starts the server if necessary.
    ///
    /// # Errors
    /// The server is unavailable; the error contains the reason.
    pub async fn offers(&self, server: &str) -> Result<Vec<mcp::ToolOffer>, mcp::ServerFault> {
        self.env.servers.offers(server).await
    }

    /// Connects tool servers for one session, as long as the returned value lives. Their names must
    /// differ from those of configured servers.
    ///
    /// # Errors
    /// Clients hold [`mcp::MAX_CLIENT_SERVERS`] servers already, or the runtime is stopping.
    pub async fn hold_servers(
        &self,
        session: SessionId,
        servers: Vec<mcp::Server>,
    ) -> Result<mcp::ClientServersGuard, Error> {
        let parent = (self.supervisor.get_cell(), self.env.options.intensity);
        let held = self.env.client_servers.hold(session, servers, parent).await;
        held.map_err(|error| match error {
            ClientServersError::Full => Error::ServersFull(mcp::MAX_CLIENT_SERVERS),
            ClientServersError::Stopping => Error::Unavailable("tool server"),
        })
    }

    /// The current tools of the servers that clients hold for a session, by server. A server that is
    /// unavailable is omitted, with a warning.
    pub async fn held_offers(&self, session: SessionId) -> Vec<(Arc<str>, Vec<mcp::ToolOffer>)> {
        let held = self.env.client_servers.of_session(session).into_iter();
        let mut listing = JoinSet::new();
        for (name, servers) in held {
            listing.spawn(async move {
                let offers = servers.offers(&name).await;
                (name, offers)
            });
        }
        let mut listed = Vec::new();
        // A listing does not panic.
        while let Some(Ok((name, offers))) = listing.join_next().await {
            match offers {
                Ok(offers) => listed.push((name, offers)),
                Err(fault) => {
                    tracing::warn!(%session, %fault, "the turn has no tools of this server");
                }
            }
        }
        listed.sort_by(|(a, _), (b, _)| a.cmp(b));
        listed
    }

    /// Reads the skills of the configured servers.
    pub fn skill_reader(&self) -> mcp::SkillReader {
        mcp::SkillReader(self.env.servers.clone())
    }
}
