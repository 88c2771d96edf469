//! The list of an owner's sessions, which takes no look at the sessions of others.
//!
//! The first list of an owner reads the owners of all sessions into an index. From then on only the
//! first events of new sessions are read. The index says where to look: an entry counts if the store
//! has the session with the same time of creation, so an entry of a deleted session does no harm.
//!
//! If several programs share the store, the others create sessions of which this program learns
//! nothing. The journal then reads the list of all sessions (`owners`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unisono_context::SessionId;

use super::owners::OwnerEntry;
use super::{Journal, is_of_a_session};
use crate::engine::{SESSIONS_PAGE, SessionInfo};
use crate::error::Result;

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
    /// Whether the sessions from before the first note are in the index.
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

    /// The new sessions with their notes.
    fn new(&self) -> HashMap<SessionId, u64> {
        let mut state = self.state();
        state.new.get_or_insert_default().clone()
    }

    /// Ids of an owner's sessions, in ascending order or backwards, and when they were created.
    fn ids(&self, owner: &str, within: Within, limit: usize) -> Vec<(SessionId, u64)> {
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

impl State {
    /// Adds the sessions that have an owner.
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
enum Within {
    After(Option<SessionId>),
    Before(Option<SessionId>),
}

impl Journal {
    /// The owner of the visible sessions, if the index can list them.
    pub(super) fn indexed_owner(&self) -> Option<Arc<str>> {
        match self.cluster() {
            None => self.only.clone(),
            Some(_) => None,
        }
    }

    pub(super) async fn owned_after(
        &self,
        owner: Arc<str>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        self.owned_within(&owner, Within::After(after), limit).await
    }

    pub(super) async fn owned_before(
        &self,
        owner: Arc<str>,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        self.owned_within(&owner, Within::Before(before), limit)
            .await
    }

    async fn owned_within(
        &self,
        owner: &str,
        mut within: Within,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        self.complete_index().await?;
        let mut page = Vec::new();
        while page.len() < limit {
            let room = (limit - page.len()).min(SESSIONS_PAGE);
            let ids = self.owned.ids(owner, within, room);
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
        if self.owned.is_current() {
            return Ok(());
        }
        let _reading = self.owned.reading.lock().await;
        // Sessions that are created from here on are noted.
        let new = self.owned.new();
        if !self.owned.state().is_whole {
            self.index_all().await?;
        }
        let ids = new.keys().map(|&session| session.into()).collect();
        let existing = self.engine.existing(ids).await?;
        let mut waiting: HashSet<SessionId> = existing.iter().map(of).collect();
        let found = self.owners_of(existing).await?;
        for (info, _) in &found {
            waiting.remove(&of(info));
        }
        let mut state = self.owned.state();
        if let Some(notes) = &mut state.new {
            // A session without an event stays: it may be about to get its first one. One that does
            // not exist cannot get any, because its writer is fenced.
            let is_read = |session: &SessionId, note: &u64| {
                new.get(session) == Some(note) && !waiting.contains(session)
            };
            notes.retain(|session, note| !is_read(session, note));
        }
        for session in new.keys() {
            state.forget(*session);
        }
        state.add(found);
        Ok(())
    }

    async fn index_all(&self) -> Result<()> {
        let mut after = None;
        loop {
            let mut page = self.engine.sessions(after, SESSIONS_PAGE).await?;
            page.retain(|info| is_of_a_session(info.session));
            let Some(last) = page.last() else { break };
            after = Some(last.session);
            let mut waiting: HashSet<SessionId> = page.iter().map(of).collect();
            let found = self.owners_of(page).await?;
            for (info, _) in &found {
                waiting.remove(&of(info));
            }
            // Their first events may be under way since before sessions were noted.
            waiting
                .into_iter()
                .for_each(|session| self.owned.note(session));
            self.owned.state().add(found);
        }
        self.owned.state().is_whole = true;
        Ok(())
    }
}

fn of(info: &SessionInfo) -> SessionId {
    info.session.into()
}

#[cfg(test)]
mod tests;
