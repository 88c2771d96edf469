//! The list of an owner's sessions. It does not read the sessions of others.
//!
//! The first list of an owner reads the owners of all sessions into an index. Later lists read only
//! the first events of new sessions. An entry of the index is listed if the store has the session
//! with the same time of creation; entries of deleted sessions are therefore never listed.
//!
//! If several programs share the store, each list also asks for the sessions that were created since
//! the newest known one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use unisono_context::SessionId;

use super::owners::OwnerEntry;
use super::{Journal, is_of_a_session};
use crate::engine::{self, Cluster, SESSIONS_PAGE, SessionInfo};
use crate::error::Result;

/// The maximum time from the creation of a session until other programs see it, in milliseconds: much
/// longer than a statement of the database takes.
const VISIBLE_WITHIN_MS: u64 = 60_000;

/// The index of the sessions that have an owner.
#[derive(Debug, Default)]
pub(super) struct Owned {
    state: Mutex<State>,
    /// Locked while first events are read for the index.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The sessions of each owner and the times of their creation.
    sessions: HashMap<Arc<str>, BTreeMap<SessionId, u64>>,
    /// New sessions whose first events are not read yet, each with the number of its note. None:
    /// nobody has asked for the sessions of an owner, and nothing is noted.
    new: Option<HashMap<SessionId, u64>>,
    notes: u64,
    /// If several programs share the store: the times of creation of the newest sessions of the index.
    /// Sessions that were created between them may still become visible. Empty: no session is read yet.
    newest: BTreeSet<(u64, SessionId)>,
    /// When those were last read.
    read_at: Option<Instant>,
    /// Whether the sessions from before the first note are in the index, if no other program shares the
    /// store.
    is_whole: bool,
}

impl Owned {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a session before its first event is written.
    pub(super) fn note(&self, session: SessionId) {
        let mut state = self.state();
        state.notes += 1;
        let note = state.notes;
        if let Some(new) = &mut state.new {
            new.insert(session, note);
        }
    }

    fn is_current(&self) -> bool {
        let state = self.state();
        state.is_whole && state.new.as_ref().is_some_and(HashMap::is_empty)
    }

    fn noted(&self) -> HashMap<SessionId, u64> {
        let mut state = self.state();
        state.new.get_or_insert_default().clone()
    }

    /// A time, and the sessions of the index that were created since. Others of that period may be
    /// missing. `now`: by the clock that gives the times of creation, if it is known. That clock may have
    /// been set back since the last read.
    fn newest(&self, now: Option<u64>) -> (u64, Vec<(engine::SessionId, u64)>) {
        let state = self.state();
        let read = now.zip(state.read_at);
        let read = read.map(|(now, read)| now.saturating_sub(read.elapsed().as_millis() as u64));
        let newest = state.newest.last().map_or(0, |(created, _)| *created);
        let newest = read.map_or(newest, |read| read.min(newest));
        let known = state
            .newest
            .iter()
            .map(|(created, id)| ((*id).into(), *created));
        (newest.saturating_sub(VISIBLE_WITHIN_MS), known.collect())
    }

    /// The ids of an owner's sessions, ascending or descending, and when they were created.
    fn ids_of(&self, owner: &str, within: Within, limit: usize) -> Vec<(SessionId, u64)> {
        let state = self.state();
        let Some(sessions) = state.sessions.get(owner) else {
            return Vec::new();
        };
        let own = |(id, created): (&SessionId, &u64)| (*id, *created);
        match within {
            Within::After(after) => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let range = sessions.range((from, Bound::Unbounded));
                range.map(own).take(limit).collect()
            }
            Within::Before(before) => {
                let to = before.map_or(Bound::Unbounded, Bound::Excluded);
                let range = sessions.range((Bound::Unbounded, to)).rev();
                range.map(own).take(limit).collect()
            }
        }
    }
}

/// The entries of a session, read before it is deleted: later another session may have its id.
pub(super) struct Deleted {
    note: Option<u64>,
    owner: Option<OwnerEntry>,
}

impl State {
    fn add(&mut self, found: Vec<(SessionInfo, OwnerEntry)>) {
        for (info, OwnerEntry { owner, .. }) in found {
            if let Some(owner) = owner {
                let sessions = self.sessions.entry(owner).or_default();
                sessions.insert(info.session.into(), info.created_unix_ms);
            }
        }
    }

    /// Removes the entries of an id: it may have belonged to a deleted session of another owner.
    fn forget(&mut self, session: SessionId) {
        for sessions in self.sessions.values_mut() {
            sessions.remove(&session);
        }
    }

    /// Removes an entry that the store does not have.
    fn remove(&mut self, owner: &str, session: SessionId, created: u64) {
        if let Some(sessions) = self.sessions.get_mut(owner)
            && sessions.get(&session) == Some(&created)
        {
            sessions.remove(&session);
        }
    }
}

/// The cursor of a list.
#[derive(Clone, Copy)]
pub(super) enum Within {
    After(Option<SessionId>),
    Before(Option<SessionId>),
}

impl Journal {
    pub(super) fn before_deletion(&self, session: SessionId) -> Deleted {
        let state = self.owned.state();
        Deleted {
            note: state
                .new
                .as_ref()
                .and_then(|new| new.get(&session).copied()),
            owner: self.owners.known(session),
        }
    }

    pub(super) fn after_deletion(&self, session: SessionId, deleted: Deleted) {
        let mut state = self.owned.state();
        if let Some(new) = &mut state.new
            && new.get(&session).copied() == deleted.note
        {
            new.remove(&session);
        }
        if let Some(entry) = deleted.owner
            && let Some(owner) = entry.owner
        {
            state.remove(&owner, session, entry.created_unix_ms);
        }
    }

    pub(super) async fn owned_within(
        &self,
        owner: &str,
        mut within: Within,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        self.complete_index().await?;
        let mut page = Vec::new();
        while page.len() < limit {
            let room = (limit - page.len()).min(SESSIONS_PAGE);
            let ids = self.owned.ids_of(owner, within, room);
            let Some((last, _)) = ids.last() else { break };
            within = match within {
                Within::After(_) => Within::After(Some(*last)),
                Within::Before(_) => Within::Before(Some(*last)),
            };
            page.extend(self.existing_of(owner, ids).await?);
        }
        Ok(page)
    }

    /// The visible ones of these sessions. Those that are gone leave the index.
    async fn existing_of(
        &self,
        owner: &str,
        ids: Vec<(SessionId, u64)>,
    ) -> Result<Vec<SessionInfo>> {
        let wanted = ids.iter().map(|(id, _)| (*id).into()).collect();
        let mut existing = self.engine.existing(wanted).await?;
        let created: HashMap<SessionId, u64> = ids.into_iter().collect();
        existing.retain(|info| {
            created.get(&info.session.into()) == Some(&info.created_unix_ms) && info.last_seq > 0
        });
        if existing.len() < created.len() {
            let mut gone = created;
            for info in &existing {
                gone.remove(&info.session.into());
            }
            let mut state = self.owned.state();
            for (session, created) in gone {
                state.remove(owner, session, created);
            }
        }
        existing.retain(|info| self.is_seen(info.session));
        Ok(existing)
    }

    /// Reads the owners of the sessions that the index does not have.
    async fn complete_index(&self) -> Result<()> {
        let cluster = self.cluster();
        if cluster.is_none() && self.owned.is_current() {
            return Ok(());
        }
        let _reading = self.owned.reading.lock().await;
        // Sessions that are created here from now on are noted.
        let new = self.owned.noted();
        match cluster {
            Some(cluster) => self.index_recent(cluster).await?,
            None if self.owned.state().is_whole => {}
            None => self.index_all().await?,
        }
        let ids = new.keys().map(|&session| session.into()).collect();
        let existing = self.engine.existing(ids).await?;
        new.keys()
            .for_each(|session| self.owned.state().forget(*session));
        self.index(existing).await?;
        if let Some(notes) = &mut self.owned.state().new {
            notes.retain(|session, note| new.get(session) != Some(note));
        }
        Ok(())
    }

    /// Adds the sessions that were created since the newest known one, by whichever program.
    async fn index_recent(&self, cluster: &dyn Cluster) -> Result<()> {
        let begun = Instant::now();
        let now = cluster.now_unix_ms();
        let (since, known) = self.owned.newest(now.and_then(|now| now.try_into().ok()));
        let recent = cluster.created_since(since, known).await?;
        for part in recent.chunks(SESSIONS_PAGE) {
            self.index(part.to_vec()).await?;
        }
        let recent = recent.iter().filter(|info| is_of_a_session(info.session));
        let mut state = self.owned.state();
        state
            .newest
            .extend(recent.map(|info| (info.created_unix_ms, id_of(info))));
        let newest = state.newest.last().map_or(0, |(created, _)| *created);
        let since = newest.saturating_sub(VISIBLE_WITHIN_MS);
        state.newest.retain(|(created, _)| *created >= since);
        state.read_at = Some(begun);
        Ok(())
    }

    async fn index_all(&self) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.engine.sessions(after, SESSIONS_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.session);
            self.index(page).await?;
        }
        self.owned.state().is_whole = true;
        Ok(())
    }

    /// Adds sessions of the store to the index. One without an event is noted: it may be about to get
    /// its first one.
    async fn index(&self, mut page: Vec<SessionInfo>) -> Result<()> {
        page.retain(|info| is_of_a_session(info.session));
        let mut waiting: HashSet<SessionId> = page.iter().map(id_of).collect();
        let found = self.owners_of(page).await?;
        for (info, _) in &found {
            waiting.remove(&id_of(info));
        }
        waiting
            .into_iter()
            .for_each(|session| self.owned.note(session));
        self.owned.state().add(found);
        Ok(())
    }
}

fn id_of(info: &SessionInfo) -> SessionId {
    info.session.into()
}

#[cfg(test)]
mod tests;
