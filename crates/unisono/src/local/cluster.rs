//! This program as a member of the cluster on its store.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use tokio::sync::watch;
use unisono_context::SessionId;
use unisono_context::digest::Hasher;
use unisono_model::client::share::PauseTarget;
use unisono_runtime::{Folded, Handle};
use unisono_store::{Announcement, Beat, Cluster, Document, Member, ProviderPause, SessionInfo};

use super::Local;
use crate::error::Error;
use crate::history;

/// Sessions per takeover; other members take over the rest.
const TAKEN_AT_A_TIME: usize = 64;
/// Sessions whose last events are read at a time.
const LOOKED_AT: usize = 1_024;
/// Maximum number of concurrent session openings.
const OPENED_AT_A_TIME: usize = 16;
/// Period between checks whether the turns of sessions to hand over have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Period between checks whether the other daemons know of this one.
const KNOWN_EVERY: Duration = Duration::from_millis(20);
/// Minimum period between two announcements of holds.
const TELL_EVERY: Duration = Duration::from_millis(100);

impl Local {
    /// The cluster, if several programs may use the store.
    pub(crate) fn cluster(&self) -> Option<&dyn Cluster> {
        self.journal.cluster()
    }

    /// Announces the address of this daemon, the digest of its token, and its agents to the others.
    /// The caller repeats it after a reload of agents.
    ///
    /// # Errors
    /// A live member accepts another token, or the store fails.
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

    /// Waits until each other live daemon had a beat after this call, which tells it that this program
    /// has joined: from then on it forwards requests for this program's sessions. Returns early if the
    /// database does not respond.
    pub async fn wait_until_known(&self) {
        let Some(cluster) = self.cluster() else {
            return;
        };
        let begun = Instant::now();
        while begun.elapsed() < cluster.takeover_after() {
            // The age is read after the time, so it is never too small.
            let waited = begun.elapsed();
            let Ok(members) = cluster.members().await else {
                return;
            };
            let mut members = members.iter().map(|(member, _)| member);
            if !members.any(|member| is_forwarding(member) && member.beat_age >= waited) {
                return;
            }
            tokio::time::sleep(KNOWN_EVERY).await;
        }
    }

    pub(crate) fn agents_digest(&self) -> Vec<u8> {
        let mut hasher = Hasher::new("unisono/agents", 1);
        for agent in self.setup().roster.iter() {
            hasher.digest(&agent.definition.digest());
        }
        hasher.finish().0.to_vec()
    }

    /// The state of the cluster, with a notice of each beat; none without a cluster.
    pub fn beats(&self) -> Option<watch::Receiver<Beat>> {
        self.cluster().map(Cluster::beats)
    }

    /// Whether this program owns a session, and the others still count it as alive. Asks no database.
    pub fn owns(&self, session: SessionId) -> bool {
        self.cluster()
            .is_some_and(|cluster| cluster.is_own(session.into()) && cluster.holds_lease())
    }

    /// The other live member that owns a session, or that should open it because this program accepts
    /// no new sessions; none if this program owns or may open it.
    ///
    /// # Errors
    /// The database does not respond.
    pub async fn owner(&self, session: SessionId) -> Result<Option<Member>, Error> {
        let members = self.members_for(Some(session)).await?;
        Ok(members.into_iter().next())
    }

    /// The other live members that may answer a request for a session, or for none: the owner of the
    /// session, or, if it has none and this program accepts no new sessions, all members that do, those
    /// with the fewest sessions first. Empty if this program owns or may open the session.
    ///
    /// # Errors
    /// The database does not respond.
    pub async fn members_for(&self, session: Option<SessionId>) -> Result<Vec<Member>, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(Vec::new());
        };
        if let Some(session) = session
            && let Some(owner) = cluster.owner(session.into()).await?
        {
            return Ok(vec![owner]);
        }
        let is_own = session.is_some_and(|session| cluster.is_own(session.into()));
        if is_own || !cluster.beats().borrow().is_draining {
            return Ok(Vec::new());
        }
        let mut members = cluster.members().await?;
        members.retain(|(member, _)| member.takes_sessions());
        members.sort_by_key(|(_, sessions)| *sessions);
        Ok(members.into_iter().map(|(member, _)| member).collect())
    }

    /// Applies this program's part of the providers' limits, and the holds of other programs.
    pub fn share_limits(&self, beat: &Beat) {
        self.shared
            .limit_share
            .set(u32::try_from(beat.alive).unwrap_or(u32::MAX));
        let holds = beat.holds.iter().map(|hold| {
            let held = PauseTarget {
                provider: hold.provider.as_str().into(),
                model: hold.model.as_deref().map(Into::into),
            };
            (held, hold.wait)
        });
        self.shared.limit_share.take(holds);
    }

    /// Announces this program's holds of providers to the other programs. Never ends.
    pub async fn tell_holds(&self) {
        let Some(cluster) = self.cluster() else {
            return;
        };
        loop {
            let holds = self.shared.limit_share.next().await.into_iter();
            let holds = holds.map(|(held, wait)| ProviderPause {
                provider: held.provider.to_string(),
                model: held.model.map(|model| model.to_string()),
                wait,
            });
            if let Err(error) = cluster.hold(holds.collect()).await {
                tracing::debug!(%error, "this daemon cannot announce a hold of a provider to the others");
            }
            // Holds that come meanwhile are announced together.
            tokio::time::sleep(TELL_EVERY).await;
        }
    }

    /// A document that all members share; none if it does not exist, or without a cluster.
    ///
    /// # Errors
    /// The database does not respond.
    pub async fn shared_text(&self, name: &'static str) -> Result<Option<Document>, Error> {
        match self.cluster() {
            Some(cluster) => Ok(cluster.document(name).await?),
            None => Ok(None),
        }
    }

    /// Replaces such a document if it still has the version `before` (0: it does not exist). Returns
    /// whether it did; always true without a cluster.
    ///
    /// # Errors
    /// The database does not respond.
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

    /// Stores a callback of a session's task for the owner of the session.
    ///
    /// # Errors
    /// The database does not respond.
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

    /// Deletes such a callback if it still has that text.
    ///
    /// # Errors
    /// The database does not respond.
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

    /// The texts of the callbacks of these sessions; for `None`, of the sessions that this program or
    /// no member owns.
    ///
    /// # Errors
    /// The database does not respond.
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

    /// Claims some sessions of lost members; each session gets one new owner. Empty if there are no
    /// more.
    ///
    /// # Errors
    /// The database does not respond.
    pub async fn take_over(&self) -> Result<Vec<SessionInfo>, Error> {
        match self.cluster() {
            Some(cluster) => Ok(cluster.take_over(TAKEN_AT_A_TIME).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Resumes the open turns of sessions after a takeover, and gives up sessions without open turns.
    /// Returns the number of resumed sessions.
    ///
    /// # Errors
    /// The database does not respond.
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
                self.open_taken(session, self.open_own(session)).await;
                return Ok(1);
            };
            if let Some(lacks) = self.lacks(&folded.state) {
                tracing::warn!(%session, lacks, "this daemon cannot resume the open turns of a session; another one may");
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

    /// The sessions that may have open turns and that this program resumes at its start. In a cluster they are
    /// those that it owned before: the takeover resumes those of lost members, if this program can.
    ///
    /// # Errors
    /// The store fails.
    pub async fn unfinished_here(&self) -> Result<Vec<SessionId>, Error> {
        let Some(cluster) = self.cluster() else {
            return self.unfinished().await;
        };
        let mut unfinished = Vec::new();
        for part in cluster.owned().await?.chunks(LOOKED_AT) {
            unfinished.extend(self.unfinished_of(part).await);
        }
        Ok(unfinished)
    }

    /// The sessions that may have open turns, including unreadable ones, whose opening reports the
    /// error.
    pub(super) async fn unfinished_of(&self, taken: &[SessionInfo]) -> Vec<SessionId> {
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

    /// Sessions that it claimed but neither opened nor gave up, because the database failed meanwhile.
    ///
    /// # Errors
    /// The database does not respond.
    pub async fn taken_and_left(&self) -> Result<Vec<SessionInfo>, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(Vec::new());
        };
        let mut owned = cluster.owned().await?;
        owned.retain(|info| !cluster.is_own(info.session));
        Ok(owned)
    }

    /// Rolls back unfinished imports of lost members.
    ///
    /// # Errors
    /// The database does not respond.
    pub async fn roll_back_imports(&self) -> Result<usize, Error> {
        Ok(self.journal.sweep().await?)
    }

    /// Reads the state of a session that was taken over; `None` if its journal is unreadable.
    pub(super) async fn folded(&self, info: &SessionInfo) -> Option<Folded> {
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

    /// Opens sessions of this program, which resumes their open turns; logs failures.
    pub async fn open_all(&self, sessions: Vec<SessionId>) {
        stream::iter(sessions)
            .for_each_concurrent(OPENED_AT_A_TIME, |session| {
                self.open_taken(session, self.open_own(session))
            })
            .await;
    }

    /// Opens a session that was taken over.
    async fn open_folded(&self, folded: Folded) -> Result<Handle, Error> {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.shared.traces {
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
                tracing::debug!(%session, %error, "another program owns the session");
            }
            Err(error) => {
                tracing::error!(%session, %error, "the session cannot be opened");
            }
            Ok(_) => {}
        }
    }

    /// Hands over all of its sessions. It waits up to `patience` for open turns; other members resume
    /// the rest. Returns false and keeps the sessions if the drain is withdrawn meanwhile.
    ///
    /// # Errors
    /// The database does not respond.
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
            // Other members resume the open turns.
            _ = tokio::time::timeout(patience, ended) => {}
            let_in = beats.wait_for(|beat| !beat.is_draining) => if let_in.is_ok() {
                return Ok(false);
            }
        }
        // From here on no session begins again, so that a follower of one cannot bring it back.
        cluster.begin_hand_over();
        runtime.hand_over_sessions().await;
        cluster.hand_over().await?;
        Ok(true)
    }
}

/// Whether a member is another live daemon.
fn is_forwarding(member: &Member) -> bool {
    member.announced.address.is_some() && member.is_alive && !member.is_self
}
