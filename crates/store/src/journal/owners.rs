//! A journal as one owner sees it: sessions of others are not there.
//!
//! Whose a session is stands in its first event and never changes, so it is read once and remembered.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use unisono_context::SessionId;
use unisono_session::{Event, Fact, OWNER};

use super::Journal;
use crate::engine::{SESSIONS_PAGE, SessionInfo};
use crate::error::Result;

/// Sessions whose owners are remembered; beyond it all are read again.
const KEPT: usize = 65_536;

/// Whose sessions are, as far as anybody asked.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<HashMap<SessionId, Known>>);

/// Whose a session is.
#[derive(Clone, Debug)]
struct Known {
    /// When it was made: after it was deleted, another one may have its id.
    created_unix_ms: u64,
    owner: Option<Arc<str>>,
}

impl Owners {
    fn known(&self, session: SessionId) -> Option<Known> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&session).cloned()
    }

    fn keep(&self, session: SessionId, found: Known) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
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
    /// The same journal with the sessions of one owner only: all others do not exist in what it reads
    /// and lists.
    #[must_use]
    pub fn of_owner(&self, owner: Arc<str>) -> Journal {
        Journal {
            only: Some(owner),
            ..self.clone()
        }
    }

    /// Whose sessions are there; none: everybody's.
    pub fn owner(&self) -> Option<&Arc<str>> {
        self.only.as_ref()
    }

    /// Whether a session can be seen: it is there, or everybody's are.
    ///
    /// # Errors
    /// The store failed, or the session's first event cannot be read.
    pub async fn shows(&self, session: SessionId) -> Result<bool> {
        if self.only.is_none() {
            return Ok(true);
        }
        if !self.is_seen(session.into()) {
            return Ok(false);
        }
        // Where nobody else deletes sessions, what is known stays true.
        if self.cluster().is_none()
            && let Some(known) = self.owners.known(session)
        {
            return Ok(known.owner == self.only);
        }
        match self.engine.session(session.into()).await? {
            Some(info) => Ok(!self.of_the_owner(vec![info]).await?.is_empty()),
            None => Ok(false),
        }
    }

    /// How many sessions are looked at for so many: an owner may have few of many.
    pub(super) fn room(&self, wanted: usize) -> usize {
        match self.only {
            Some(_) => wanted.max(SESSIONS_PAGE),
            None => wanted,
        }
    }

    /// Whether the session that begins with this event can be seen.
    pub(super) fn is_shown(&self, first: &Event) -> bool {
        self.only.is_none() || owner_of(first) == self.only
    }

    /// Those that can be seen.
    pub(super) async fn seen(&self, mut page: Vec<SessionInfo>) -> Result<Vec<SessionInfo>> {
        page.retain(|known| self.is_seen(known.session));
        match self.only {
            Some(_) => self.of_the_owner(page).await,
            None => Ok(page),
        }
    }

    /// Those of the owner; first events that are not known are read together.
    async fn of_the_owner(&self, mut page: Vec<SessionInfo>) -> Result<Vec<SessionInfo>> {
        let of = |info: &SessionInfo| SessionId::from(info.session);
        let (mut unknown, mut own) = (Vec::new(), HashSet::new());
        for info in &page {
            let known = self.owners.known(of(info));
            match known.filter(|known| known.created_unix_ms == info.created_unix_ms) {
                Some(known) if known.owner == self.only => drop(own.insert(of(info))),
                Some(_) => {}
                None => unknown.push(*info),
            }
        }
        let ids = unknown.iter().map(|info| info.session).collect();
        let firsts = self.engine.first_events(ids).await?;
        for (info, first) in unknown.iter().zip(firsts) {
            let Some(first) = first else { continue };
            let (_, first) = super::decoded(of(info), first)?;
            let found = Known {
                created_unix_ms: info.created_unix_ms,
                owner: owner_of(&first),
            };
            if found.owner == self.only {
                own.insert(of(info));
            }
            self.owners.keep(of(info), found);
        }
        page.retain(|info| own.contains(&of(info)));
        Ok(page)
    }
}

/// Whose the session is that begins with this event; none: nobody's.
fn owner_of(first: &Event) -> Option<Arc<str>> {
    match &first.fact {
        Fact::Created { labels, .. } => {
            let owner = labels.get(OWNER).filter(|owner| !owner.is_empty());
            owner.cloned()
        }
        _ => None,
    }
}
