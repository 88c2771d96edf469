//! This program among the others that use its store.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tokio::sync::watch;
use unisono_context::SessionId;
use unisono_context::digest::Hasher;
use unisono_model::client::share::Held;
use unisono_runtime::{Folded, Handle};
use unisono_session::State;
use unisono_session::agent::AgentKind;
use unisono_store::{Announcement, Beat, Cluster, Document, Hold, Member, SessionInfo};

use super::Local;
use crate::error::Error;
use crate::{ask, history, models};

/// Sessions taken over at a time: others find some, too.
const TAKEN_AT_A_TIME: usize = 64;
/// Sessions opened at the same time.
const OPENED_AT_A_TIME: usize = 16;
/// How often a program that hands its sessions over looks whether their turns have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often other programs are told what is left alone, at most.
const TELL_EVERY: Duration = Duration::from_millis(100);

impl Local {
    /// The group of programs on the store, where several may use it.
    pub(crate) fn cluster(&self) -> Option<&dyn Cluster> {
        self.journal.cluster()
    }

    /// Tells the others where this daemon is reached, and by which token: its digest. To be called
    /// again when its agents are defined anew.
    ///
    /// # Errors
    /// A live member takes another token, or the store failed.
    pub async fn announce(&self, address: &str, token: &[u8]) -> Result<(), Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(());
        };
        let announcement = Announcement {
            address: Some(address.to_owned()),
            token: Some(token.to_vec()),
            agents: Some(self.agents_digest()),
        };
        Ok(cluster.announce(announcement).await?)
    }

    /// A digest of all that its agents are.
    pub(crate) fn agents_digest(&self) -> Vec<u8> {
        let mut hasher = Hasher::new("unisono/agents", 1);
        for agent in self.setup().roster.iter() {
            hasher.digest(&agent.definition.digest());
        }
        hasher.finish().0.to_vec()
    }

    /// What is known of the others, each time that there is something new; none: nobody else uses the
    /// store.
    pub fn beats(&self) -> Option<watch::Receiver<Beat>> {
        self.cluster().map(Cluster::beats)
    }

    /// The other live program that works on a session, or that is to be asked for one because this
    /// program takes no new ones; none: this one is.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn owner(&self, session: Option<SessionId>) -> Result<Option<Member>, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(None);
        };
        let owner = match session {
            Some(session) => cluster.owner(session.into()).await?,
            None => None,
        };
        if owner.is_some() || !cluster.beats().borrow().is_draining {
            return Ok(owner);
        }
        let is_own = match session {
            Some(session) => cluster.is_own(session.into()),
            None => false,
        };
        if is_own {
            return Ok(None);
        }
        let members = cluster.members().await?;
        Ok(members
            .into_iter()
            .map(|(member, _)| member)
            .find(takes_work))
    }

    /// Takes its part of the providers' limits among the live programs, and leaves alone what others
    /// were told to.
    pub fn share_limits(&self, beat: &Beat) {
        self.share
            .set(u32::try_from(beat.alive).unwrap_or(u32::MAX));
        let holds = beat.holds.iter().map(|hold| {
            let held = Held {
                provider: hold.provider.as_str().into(),
                model: hold.model.as_deref().map(Into::into),
            };
            (held, hold.wait)
        });
        self.share.take(holds);
    }

    /// Tells the other programs what providers told this one to leave alone. Never ends.
    pub async fn tell_holds(&self) {
        let Some(cluster) = self.cluster() else {
            return;
        };
        loop {
            let holds = self.share.next().await.into_iter();
            let holds = holds.map(|(held, wait)| Hold {
                provider: held.provider.to_string(),
                model: held.model.map(|model| model.to_string()),
                wait,
            });
            if let Err(error) = cluster.hold(holds.collect()).await {
                tracing::debug!(%error, "the other daemons are not told to leave a provider alone");
            }
            // What comes meanwhile is told together.
            tokio::time::sleep(TELL_EVERY).await;
        }
    }

    /// A text that all programs on the database share; none: there is none, or no database.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn shared_text(&self, name: &'static str) -> Result<Option<Document>, Error> {
        match self.cluster() {
            Some(cluster) => Ok(cluster.document(name).await?),
            None => Ok(None),
        }
    }

    /// Replaces such a text if it still has the version `before` (0: it was not there). Answers whether
    /// it did, or nobody else uses the store.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn share_text(
        &self,
        name: &'static str,
        text: String,
        before: u64,
    ) -> Result<bool, Error> {
        match self.cluster() {
            Some(cluster) => Ok(cluster.put_document(name, text, before).await?),
            None => Ok(true),
        }
    }

    /// Whether several programs may use the store.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.cluster().is_some()
    }

    /// Keeps a callback of a session's task for whichever program works on the session.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn keep_callback(
        &self,
        session: SessionId,
        name: String,
        text: String,
    ) -> Result<(), Error> {
        match self.cluster() {
            Some(cluster) => Ok(cluster.put_callback(session.into(), name, text).await?),
            None => Ok(()),
        }
    }

    /// Forgets such a callback if it still has that text.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn forget_callback(
        &self,
        session: SessionId,
        name: String,
        text: String,
    ) -> Result<(), Error> {
        match self.cluster() {
            Some(cluster) => Ok(cluster.forget_callback(session.into(), name, text).await?),
            None => Ok(()),
        }
    }

    /// The texts of the callbacks of these sessions; without any named, those of all sessions that this
    /// program or nobody owns.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn kept_callbacks(
        &self,
        sessions: Option<Vec<SessionId>>,
    ) -> Result<Vec<String>, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(Vec::new());
        };
        let sessions = sessions.map(|all| all.into_iter().map(Into::into).collect());
        let kept = cluster.callbacks(sessions).await?;
        Ok(kept.into_iter().map(|(_, text)| text).collect())
    }

    /// Claims some of the sessions of programs that are gone; each goes to one program. None: there
    /// are no more.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn take_over(&self) -> Result<Vec<SessionInfo>, Error> {
        match self.cluster() {
            Some(cluster) => Ok(cluster.take_over(TAKEN_AT_A_TIME).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Goes on with the open turns of sessions that were taken over. Those without are nobody's from
    /// then on. Answers how many it went on with.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn adopt(&self, taken: Vec<SessionInfo>) -> Result<usize, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(0);
        };
        let unfinished = self.unfinished_of(&taken).await;
        let is_idle = |info: &SessionInfo| !unfinished.contains(&info.session.into());
        let (idle, working): (Vec<_>, Vec<_>) = taken.into_iter().partition(is_idle);
        let ids = idle.iter().map(|info| info.session.into());
        self.runtime()?.settle_budget(ids.collect()).await;
        cluster.release(idle).await?;
        let adopting = working.into_iter().map(|info| async move {
            let session = info.session.into();
            let Some(folded) = self.folded(&info).await else {
                // Opening it says why its journal cannot be read.
                self.open_taken(session, self.open(session)).await;
                return Ok(1);
            };
            if let Some(lacks) = self.lacks(&folded.state) {
                tracing::warn!(%session, lacks, "open turns are left to another daemon");
                cluster.decline(info).await?;
                return Ok(0);
            }
            self.open_taken(session, self.open_folded(folded)).await;
            Ok(1)
        });
        let adopted: Vec<Result<usize, Error>> = stream::iter(adopting)
            .buffer_unordered(OPENED_AT_A_TIME)
            .collect()
            .await;
        adopted.into_iter().sum()
    }

    /// Those that may have open turns. One whose events cannot be read is among them: opening it says
    /// why.
    async fn unfinished_of(&self, taken: &[SessionInfo]) -> Vec<SessionId> {
        if let Ok(unfinished) = self.journal.unfinished_of(taken.to_vec()).await {
            return unfinished;
        }
        let mut unfinished = Vec::new();
        for info in taken {
            match self.journal.unfinished_of(vec![*info]).await {
                Ok(one) => unfinished.extend(one),
                Err(_) => unfinished.push(info.session.into()),
            }
        }
        unfinished
    }

    /// Sessions that it took over and did not come to open or to leave, because the database failed in
    /// between.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn taken_and_left(&self) -> Result<Vec<SessionInfo>, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(Vec::new());
        };
        let mut owned = cluster.owned().await?;
        owned.retain(|info| !cluster.is_own(info.session));
        Ok(owned)
    }

    /// Takes back what is left of imports of programs that are gone.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn roll_back_imports(&self) -> Result<usize, Error> {
        Ok(self.journal.sweep().await?)
    }

    /// A session that was taken over with its state, read once for all; none: it cannot be read.
    async fn folded(&self, info: &SessionInfo) -> Option<Folded> {
        let (session, last) = (info.session.into(), info.last_seq);
        let journal = self.journal.clone();
        // Sessions are folded in parallel.
        let folding =
            tokio::spawn(async move { history::state_until(&journal, session, last).await });
        Some(Folded {
            session,
            epoch: info.epoch,
            state: folding.await.ok()?.ok()?,
        })
    }

    /// What this program lacks to go on with the open turns of a session; none: nothing.
    fn lacks(&self, state: &State) -> Option<String> {
        let setup = self.setup();
        let servers = &setup.loaded.tools.servers;
        let mut teams = state.open_turns().map(|turn| &turn.team);
        teams.find_map(|team| {
            let unknown = team.definitions().find_map(|agent| match &agent.kind {
                AgentKind::Custom(kind) => self
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

    /// Opens sessions, so that their open turns go on. One that cannot be opened is logged.
    pub async fn open_all(&self, sessions: Vec<SessionId>) {
        stream::iter(sessions)
            .for_each_concurrent(OPENED_AT_A_TIME, |session| {
                self.open_taken(session, self.open(session))
            })
            .await;
    }

    /// Opens a session that was taken over.
    async fn open_folded(&self, folded: Folded) -> Result<Handle, Error> {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.traces {
            traces.recall(&self.journal, folded.session).await;
        }
        let handle = self.runtime()?.resume(folded).await?;
        self.note_changed_agents(&handle).await?;
        Ok(handle)
    }

    async fn open_taken(
        &self,
        session: SessionId,
        opening: impl Future<Output = Result<Handle, Error>>,
    ) {
        match opening.await {
            Err(Error::Runtime(error)) if error.is_owned_elsewhere() => {
                tracing::debug!(%session, %error, "another program works on a session");
            }
            Err(error) => {
                tracing::error!(%session, %error, "a session cannot be opened");
            }
            Ok(_) => {}
        }
    }

    /// Hands all of its sessions over: those that work are waited for as long as `patience` lasts,
    /// and go on elsewhere then. Answers false, and keeps them, if it is let in again meanwhile.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn hand_over(&self, patience: Duration) -> Result<bool, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(false);
        };
        let runtime = self.runtime()?;
        let ended = async {
            while runtime.working().await > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let mut beats = cluster.beats();
        tokio::select! {
            // What has not ended goes on elsewhere.
            _ = tokio::time::timeout(patience, ended) => {}
            let_in = beats.wait_for(|beat| !beat.is_draining) => if let_in.is_ok() {
                return Ok(false);
            }
        }
        runtime.hand_over_sessions().await;
        cluster.hand_over().await?;
        Ok(true)
    }
}

/// Whether requests can be passed on to a member that takes new sessions.
fn takes_work(member: &Member) -> bool {
    let is_reached = member.announced.address.is_some();
    is_reached && member.is_alive && !member.is_draining && !member.is_self
}
