//! The view of one owner on a journal: it hides the sessions of other owners.
//!
//! The first event of a session has its owner, which never changes. The view reads it once and caches
//! it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use unisono_context::SessionId;
use unisono_session::{Event, Fact, OWNER};

use super::Journal;
use crate::engine::SessionInfo;
use crate::error::Result;

/// Maximum number of sessions in the cache. A full cache is cleared.
const CACHED: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<HashMap<SessionId, OwnerEntry>>);

#[derive(Clone, Debug)]
pub(super) struct OwnerEntry {
    /// The time of its creation; a later session may reuse the id of a deleted one.
    pub(super) created_unix_ms: u64,
    pub(super) owner: Option<Arc<str>>,
}

impl Owners {
    pub(super) fn known(&self, session: SessionId) -> Option<OwnerEntry> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&session).cloned()
    }

    fn cache(&self, session: SessionId, found: OwnerEntry) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CACHED {
            known.clear();
        }
        known.insert(session, found);
    }

    pub(super) fn forget(&self, session: SessionId) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&session);
    }
}

impl Journal {
    /// A view of the journal with the sessions of one owner. Other sessions do not exist in its reads
    /// and lists.
    #[must_use]
    pub fn of_owner(&self, owner: Arc<str>) -> Journal {
        Journal {
            only: Some(owner),
            ..self.clone()
        }
    }

    /// The owner of the visible sessions; `None` if all sessions are visible.
    pub fn owner(&self) -> Option<&Arc<str>> {
        self.only.as_ref()
    }

    /// Whether a session is visible. Without an owner every id is. A session whose first event is damaged
    /// has no known owner.
    ///
    /// # Errors
    /// The store fails, or another version wrote the first event of the session.
    pub async fn shows(&self, session: SessionId) -> Result<bool> {
        if self.only.is_none() {
            return Ok(true);
        }
        if !self.is_seen(session.into()) {
            return Ok(false);
        }
        // The cache is right if no other process can delete sessions.
        if self.cluster().is_none()
            && let Some(known) = self.owners.known(session)
        {
            return Ok(known.owner == self.only);
        }
        match self.engine.session(session.into()).await? {
            Some(info) => Ok(!self.shown(vec![info]).await?.is_empty()),
            None => Ok(false),
        }
    }

    /// The visible ones of sessions that have events, as the store knows them now.
    pub(super) async fn shown(&self, mut infos: Vec<SessionInfo>) -> Result<Vec<SessionInfo>> {
        infos.retain(|info| self.is_seen(info.session));
        if self.only.is_none() {
            return Ok(infos);
        }
        let found = self.owners_of(infos).await?.into_iter();
        let shown = found.filter(|(_, entry)| entry.owner == self.only);
        Ok(shown.map(|(info, _)| info).collect())
    }

    /// Whether the session with this first event is visible.
    pub(super) fn is_shown(&self, first: &Event) -> bool {
        self.only.is_none() || owner_of(first) == self.only
    }

    /// The sessions of a page that have events, with their owners. It reads all missing first events
    /// at once.
    pub(super) async fn owners_of(
        &self,
        page: Vec<SessionInfo>,
    ) -> Result<Vec<(SessionInfo, OwnerEntry)>> {
        let of = |info: &SessionInfo| SessionId::from(info.session);
        let known = page.iter().map(|info| {
            let known = self.owners.known(of(info));
            known.filter(|known| known.created_unix_ms == info.created_unix_ms)
        });
        let mut known: Vec<Option<OwnerEntry>> = known.collect();
        let unknown = |(at, known): (usize, &Option<OwnerEntry>)| known.is_none().then_some(at);
        let unknown: Vec<usize> = known.iter().enumerate().filter_map(unknown).collect();
        let ids = unknown.iter().map(|&at| page[at].session).collect();
        let firsts = self.readable_firsts(ids).await?;
        for (at, first) in unknown.into_iter().zip(firsts) {
            let (Some(first), info) = (first, &page[at]) else {
                continue;
            };
            let (_, first) = super::decoded(of(info), first)?;
            let found = OwnerEntry {
                created_unix_ms: info.created_unix_ms,
                owner: owner_of(&first),
            };
            self.owners.cache(of(info), found.clone());
            known[at] = Some(found);
        }
        let found = page.into_iter().zip(known);
        Ok(found
            .filter_map(|(info, known)| Some((info, known?)))
            .collect())
    }
}

fn owner_of(first: &Event) -> Option<Arc<str>> {
    match &first.fact {
        Fact::Created { labels, .. } => {
            let owner = labels.get(OWNER).filter(|owner| !owner.is_empty());
            owner.cloned()
        }
        _ => None,
    }
}
