//! The memory engine: the same contract as the sled engine, for tests and throw-away sessions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::admit;
use crate::engine::{
    Append, Checkpoint, Claim, DELETED_USAGE, Deletion, Engine, EngineFuture, Event, Health,
    MAX_PAYLOAD_BYTES, SessionId, SessionInfo, SessionsFuture, now_unix_ms,
};
use crate::error::{Error, Result};
use crate::row::Head;

/// A store in memory; its content is lost when it is dropped.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    journals: BTreeMap<SessionId, Journal>,
}

#[derive(Debug)]
struct Journal {
    head: Head,
    payloads: Vec<Vec<u8>>,
    checkpoint: Option<Checkpoint>,
}

impl Memory {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks the state. No caller can leave it half-changed, so a poisoned lock is ignored.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            Err(Error::Closed)
        } else {
            Ok(state)
        }
    }
}

impl State {
    fn head(&self, session: SessionId) -> Option<&Head> {
        self.journals.get(&session).map(|journal| &journal.head)
    }

    fn claim(&mut self, session: SessionId) -> Claim {
        let head = Head::claimed(session, self.head(session).cloned(), now_unix_ms());
        let claim = head.claim();
        let journal = self.journals.entry(session).or_insert_with(|| Journal {
            head: head.clone(),
            payloads: Vec::new(),
            checkpoint: None,
        });
        journal.head = head;
        claim
    }

    fn append(&mut self, append: Append) -> Result<u64> {
        let mut head = admit::append(&append, self.head(append.session))?.clone();
        for payload in &append.payloads {
            head.push(payload, now_unix_ms());
        }
        let last_seq = head.last_seq;
        if let Some(journal) = self.journals.get_mut(&append.session) {
            journal.head = head;
            journal.payloads.extend(append.payloads);
        }
        Ok(last_seq)
    }

    fn read(&self, session: SessionId, from: u64, limit: usize) -> Vec<Event> {
        let Some(journal) = self.journals.get(&session) else {
            return Vec::new();
        };
        let first = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
        let mut room = MAX_PAYLOAD_BYTES;
        let mut events = Vec::new();
        for (index, payload) in journal.payloads.iter().enumerate().skip(first).take(limit) {
            if payload.len() > room {
                break;
            }
            room -= payload.len();
            events.push(Event {
                seq: index as u64 + 1,
                payload: payload.clone(),
            });
        }
        events
    }

    fn put_checkpoint(
        &mut self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Result<()> {
        admit::checkpoint(session, epoch, checkpoint.seq, self.head(session))?;
        if let Some(journal) = self.journals.get_mut(&session) {
            journal.checkpoint = Some(checkpoint);
        }
        Ok(())
    }

    fn delete(&mut self, deletion: Deletion) -> Result<bool> {
        let session = deletion.session;
        if admit::deletion(&deletion, self.head(session))?.is_none() {
            return Ok(false);
        }
        if let Some(journal) = self.journals.get_mut(&session) {
            journal.head = journal.head.deleted(session, now_unix_ms());
            journal.payloads.clear();
            journal.checkpoint = None;
        }
        deletion
            .deleted_usage
            .map_or(Ok(()), |left| self.keep(left))?;
        Ok(true)
    }

    /// Adds the usage of a deleted session.
    fn keep(&mut self, deleted_usage: Vec<u8>) -> Result<()> {
        let head = self.head(DELETED_USAGE).filter(|head| !head.deleted);
        let claim = head.map(Head::claim);
        let claim = claim.unwrap_or_else(|| self.claim(DELETED_USAGE));
        self.append(Append::to(DELETED_USAGE, claim, deleted_usage))
            .map(drop)
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> Vec<SessionInfo> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let journals = self.journals.range((from, Bound::Unbounded));
        journals
            .filter_map(|(&session, journal)| journal.head.info(session))
            .take(limit)
            .collect()
    }

    fn newest_sessions(&self, before: Option<SessionId>, limit: usize) -> Vec<SessionInfo> {
        let to = before.map_or(Bound::Unbounded, Bound::Excluded);
        let journals = self.journals.range((Bound::Unbounded, to)).rev();
        journals
            .filter_map(|(&session, journal)| journal.head.info(session))
            .take(limit)
            .collect()
    }
}

fn ready<'a, T: Send + 'a>(result: Result<T>) -> EngineFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Engine for Memory {
    fn claim(&self, session: SessionId) -> EngineFuture<'_, Claim> {
        ready(self.state().map(|mut state| state.claim(session)))
    }

    fn append(&self, append: Append) -> EngineFuture<'_, u64> {
        let checked = admit::check_append(&append);
        ready(checked.and_then(|()| self.state()?.append(append)))
    }

    fn read(&self, session: SessionId, from: u64, limit: usize) -> EngineFuture<'_, Vec<Event>> {
        ready(self.state().map(|state| state.read(session, from, limit)))
    }

    fn put_checkpoint(
        &self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> EngineFuture<'_, ()> {
        let checked = admit::check_checkpoint(&checkpoint);
        ready(checked.and_then(|()| self.state()?.put_checkpoint(session, epoch, checkpoint)))
    }

    fn latest_checkpoint(&self, session: SessionId) -> EngineFuture<'_, Option<Checkpoint>> {
        ready(
            self.state()
                .map(|state| state.journals.get(&session)?.checkpoint.clone()),
        )
    }

    fn session(&self, session: SessionId) -> EngineFuture<'_, Option<SessionInfo>> {
        ready(self.state().map(|state| state.head(session)?.info(session)))
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
        ready(self.state().map(|state| state.sessions(after, limit)))
    }

    fn newest_sessions(&self, before: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
        let state = self.state();
        ready(state.map(|state| state.newest_sessions(before, limit)))
    }

    fn delete_session(&self, deletion: Deletion) -> EngineFuture<'_, bool> {
        let checked = admit::check_deletion(&deletion);
        ready(checked.and_then(|()| self.state()?.delete(deletion)))
    }

    fn health(&self) -> Health {
        Health::Ok
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        ready(self.state().map(|mut state| state.closed = true))
    }
}
