//! Whether this program can continue the open turns of a session of another program.

use unisono_context::SessionId;
use unisono_session::State;
use unisono_session::agent::AgentKind;

use super::Local;
use crate::error::Error;
use crate::{ask, models};

impl Local {
    /// Checks, before a session of another member is claimed, that this program can continue its open turns:
    /// a request may come before the takeover.
    ///
    /// # Errors
    /// It cannot: the session is left to another program. Or the database does not respond.
    pub(super) async fn check_resumable(&self, session: SessionId) -> Result<(), Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(());
        };
        let id = session.into();
        if cluster.is_own(id) || !cluster.is_of_another(id).await? {
            return Ok(());
        }
        let Some(info) = self.journal.session(session).await? else {
            return Ok(());
        };
        if self.unfinished_of(&[info]).await.is_empty() {
            return Ok(());
        }
        // Opening it says why its journal cannot be read.
        let folded = self.folded(&info).await;
        let Some(lacks) = folded.and_then(|folded| self.lacks(&folded.state)) else {
            return Ok(());
        };
        let error = match cluster.owner(id).await? {
            Some(owner) => unisono_store::Error::Owned {
                session: id,
                owner: owner.name,
                address: owner.announced.address,
            },
            None => {
                tracing::warn!(%session, lacks, "this program cannot resume the open turns of a session; another one may");
                unisono_store::Error::Waiting { session: id }
            }
        };
        Err(unisono_runtime::Error::from(error).into())
    }

    /// What this program lacks to continue the open turns of a session; `None` if it lacks nothing.
    pub(super) fn lacks(&self, state: &State) -> Option<String> {
        let setup = self.setup();
        let servers = &setup.loaded.tools.servers;
        let mut teams = state.open_turns().map(|turn| &turn.team);
        teams.find_map(|team| {
            let unknown = team.definitions().find_map(|agent| match &agent.kind {
                AgentKind::Custom(kind) => self
                    .shared
                    .extensions
                    .kinds()
                    .all(|known| *known != **kind)
                    .then(|| format!("agents of kind `{kind}`")),
                _ => None,
            });
            let missing = || {
                let mut wanted = ask::servers_of(team).into_iter();
                let is_there = |name: &&str| servers.iter().any(|server| &*server.name == *name);
                let missing = wanted.find(|name| !is_there(name));
                missing.map(|name| format!("the tool server `{name}`"))
            };
            let unasked = || {
                models::check(&setup, team)
                    .err()
                    .map(|error| error.to_string())
            };
            unknown.or_else(missing).or_else(unasked)
        })
    }
}
