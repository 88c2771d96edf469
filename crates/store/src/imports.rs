//! Makes imports that are stored in several appends all or nothing. A journal of the store's own
//! lists the sessions of unfinished imports, from before their first event until after their last.
//! When the store is opened, the sessions that are still listed are deleted.
//!
//! Each entry of the journal is the complete list; the journal is deleted when the list is empty.
//! In the process that imports them the sessions are hidden: an unfinished conversation is not
//! listed, claimed or indexed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::engine::is_of_a_session;
use crate::engine::{Append, Deletion, Engine, SessionId};
use crate::error::{Error, Fault, Record, Result};
use crate::record;

pub(crate) const ID: SessionId = SessionId::from_u128(u128::MAX - 2);

/// Number of attempts to change the list while other programs change it.
const TRIES: usize = 64;

pub(crate) async fn unfinished(engine: &dyn Engine) -> Result<BTreeSet<SessionId>> {
    let Some(info) = engine.session(ID).await? else {
        return Ok(BTreeSet::new());
    };
    let newest = engine.read(ID, info.last_seq, 1).await?.pop();
    newest.map_or(Ok(BTreeSet::new()), |event| {
        let of = Record::Event {
            session: ID,
            seq: event.seq,
        };
        decode(&event.payload).map_err(|fault| Error::unreadable(of, fault))
    })
}

/// Adds these sessions to the list of unfinished imports.
pub(crate) async fn begin(engine: &dyn Engine, sessions: &BTreeSet<SessionId>) -> Result<()> {
    change(engine, |list| list | sessions).await
}

/// Removes these sessions from the list of unfinished imports: they are complete, or deleted.
pub(crate) async fn end(engine: &dyn Engine, sessions: &BTreeSet<SessionId>) -> Result<()> {
    change(engine, |list| list - sessions).await
}

/// Removes these sessions from the list, and adds this to the usage of deleted sessions, both in one
/// write. Another write puts back the sessions that other programs import.
pub(crate) async fn end_with(
    engine: &dyn Engine,
    sessions: &BTreeSet<SessionId>,
    deleted_usage: Option<Vec<u8>>,
) -> Result<()> {
    let mut tries = 0..TRIES;
    loop {
        let claim = engine.claim(ID).await?;
        let others = &unfinished(engine).await? - sessions;
        let deletion = Deletion {
            expected_seq: Some(claim.last_seq),
            deleted_usage: deleted_usage.clone(),
            ..Deletion::of_session(ID)
        };
        match engine.delete_session(deletion).await {
            Err(Error::Fenced { .. } | Error::Conflict { .. }) if tries.next().is_some() => {}
            Err(error) => return Err(error),
            Ok(_) => {
                if !others.is_empty()
                    && let Err(error) = begin(engine, &others).await
                {
                    tracing::warn!(%error, "imports of other programs stay in part if these end now");
                }
                return Ok(());
            }
        }
    }
}

/// Returns the listed sessions that no other live program imports. Nobody owns a content of an attachment,
/// or a session that an import has not begun yet: such entries are left alone while another live program owns
/// a session of the list.
pub(crate) async fn abandoned(engine: &dyn Engine) -> Result<BTreeSet<SessionId>> {
    let mut listed = unfinished(engine).await?;
    let Some(cluster) = engine.cluster() else {
        return Ok(listed);
    };
    // Before the owners are asked: a session that begins meanwhile is left alone.
    let begun = listed.iter().copied().filter(|id| is_of_a_session(*id));
    let begun = engine.existing(begun.collect()).await?;
    let mut owned = BTreeSet::new();
    for &session in &listed {
        if cluster.owner(session).await?.is_some() {
            owned.insert(session);
        }
    }
    if !owned.is_empty() {
        listed = begun.into_iter().map(|info| info.session).collect();
    }
    // An import that has ended meanwhile is complete, and its program may have left since.
    let listed = &listed - &owned;
    Ok(&listed & &unfinished(engine).await?)
}

/// Deletes these sessions. They stay in the list unless all of them are deleted.
pub(crate) async fn delete_all(engine: &dyn Engine, sessions: &BTreeSet<SessionId>) -> Result<()> {
    for &session in sessions {
        engine.delete_session(Deletion::of_session(session)).await?;
    }
    end(engine, sessions).await
}

/// Changes the list; reads it again and retries if another program changes it at the same time.
async fn change(
    engine: &dyn Engine,
    change: impl Fn(&BTreeSet<SessionId>) -> BTreeSet<SessionId>,
) -> Result<()> {
    let mut tries = 0..TRIES;
    loop {
        let claim = engine.claim(ID).await?;
        let list = change(&unfinished(engine).await?);
        let changed = if list.is_empty() {
            let deletion = Deletion {
                expected_seq: Some(claim.last_seq),
                ..Deletion::of_session(ID)
            };
            engine.delete_session(deletion).await.map(drop)
        } else {
            let payload = encode(&list, claim.last_seq + 1)?;
            let append = Append::to(ID, claim, payload);
            engine.append(append).await.map(drop)
        };
        match changed {
            Err(Error::Fenced { .. } | Error::Conflict { .. }) if tries.next().is_some() => {}
            changed => return changed,
        }
    }
}

fn encode(list: &BTreeSet<SessionId>, seq: u64) -> Result<Vec<u8>> {
    let ids: Vec<[u8; 16]> = list.iter().map(|id| *id.0.as_bytes()).collect();
    record::encode_entry(&ids, ID, seq)
}

fn decode(bytes: &[u8]) -> std::result::Result<BTreeSet<SessionId>, Fault> {
    let ids: Vec<[u8; 16]> = record::decode_own(bytes)?;
    let ids = ids.into_iter().map(u128::from_be_bytes);
    Ok(ids.map(SessionId::from_u128).collect())
}

#[derive(Debug, Default)]
pub(crate) struct Imports {
    /// Locked while the list on disk is changed.
    writing: tokio::sync::Mutex<()>,
    hidden: Mutex<Hidden>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Hidden {
    under_way: BTreeSet<SessionId>,
    /// Sessions of abandoned imports that could not be deleted yet.
    left: BTreeSet<SessionId>,
}

/// An import in progress; abandoned when it is dropped.
#[derive(Debug)]
pub(crate) struct Import<'i> {
    imports: &'i Imports,
    session: SessionId,
    /// Whether everything in the session comes from this import.
    is_ours: bool,
}

impl Imports {
    fn hidden(&self) -> MutexGuard<'_, Hidden> {
        // Every change is one insert or removal, so a poisoned lock is fine.
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hides(&self, session: SessionId) -> bool {
        let hidden = self.hidden();
        hidden.under_way.contains(&session) || hidden.left.contains(&session)
    }

    /// Begins the import of a session that has no events, for the caller, which has claimed it.
    /// Nobody else can write to it until the import has ended.
    ///
    /// # Errors
    /// The session was claimed again, or has events; or the engine's.
    pub(crate) async fn begin<'i>(
        &'i self,
        engine: &Arc<dyn Engine>,
        session: SessionId,
        epoch: u64,
    ) -> Result<Import<'i>> {
        let _writing = self.writing.lock().await;
        self.hidden().under_way.insert(session);
        let mut import = Import {
            imports: self,
            session,
            is_ours: false,
        };
        let known = engine.session(session).await?;
        let current = known.map_or(0, |known| known.epoch);
        if current != epoch {
            return Err(Error::Fenced {
                session,
                epoch,
                current,
            });
        }
        if let Some(last_seq) = known.map(|known| known.last_seq).filter(|last| *last > 0) {
            return Err(Error::Conflict {
                session,
                expected_seq: 0,
                last_seq,
            });
        }
        import.is_ours = true;
        begin(engine.as_ref(), &BTreeSet::from([session])).await?;
        Ok(import)
    }

    /// Waits until the import of a session has ended; deletes the session if the import was
    /// abandoned.
    pub(crate) async fn resolve(&self, engine: &Arc<dyn Engine>, session: SessionId) -> Result<()> {
        let mut changed = self.changed.subscribe();
        while self.hidden().under_way.contains(&session) {
            // This function holds the sender, so the channel cannot be closed.
            let _ = changed.changed().await;
        }
        if !self.hidden().left.contains(&session) {
            return Ok(());
        }
        let _writing = self.writing.lock().await;
        if !unfinished(engine.as_ref()).await?.contains(&session) {
            // Another program has deleted it, and may have imported it again since.
            self.hidden().left.remove(&session);
            return Ok(());
        }
        self.remove(engine, session).await
    }

    /// Deletes the sessions in the list on disk, as far as that is possible now; the others are
    /// hidden. Returns the number of sessions in the list.
    pub(crate) async fn sweep(&self, engine: &Arc<dyn Engine>) -> Result<usize> {
        let _writing = self.writing.lock().await;
        let mut found = abandoned(engine.as_ref()).await?;
        {
            let mut hidden = self.hidden();
            found.retain(|session| !hidden.under_way.contains(session));
            // Other programs have deleted the others.
            hidden.left.clone_from(&found);
        }
        if !found.is_empty() && delete_all(engine.as_ref(), &found).await.is_ok() {
            self.hidden()
                .left
                .retain(|session| !found.contains(session));
        }
        Ok(found.len())
    }

    fn ended(&self, session: SessionId, whole: bool) {
        let mut hidden = self.hidden();
        hidden.under_way.remove(&session);
        if !whole {
            hidden.left.insert(session);
        }
    }

    async fn remove(&self, engine: &Arc<dyn Engine>, session: SessionId) -> Result<()> {
        delete_all(engine.as_ref(), &BTreeSet::from([session])).await?;
        self.hidden().left.remove(&session);
        Ok(())
    }
}

impl Import<'_> {
    /// Ends the import with its result: either all of it is on disk, or none of it is kept.
    ///
    /// # Errors
    /// The import failed, or could not be ended.
    pub(crate) async fn end<T>(self, engine: &Arc<dyn Engine>, stored: Result<T>) -> Result<T> {
        let _writing = self.imports.writing.lock().await;
        let sessions = BTreeSet::from([self.session]);
        let ended = match stored {
            Ok(stored) => end(engine.as_ref(), &sessions).await.map(|()| stored),
            Err(error) => Err(error),
        };
        self.imports.ended(self.session, ended.is_ok());
        if ended.is_err()
            && let Err(error) = self.imports.remove(engine, self.session).await
        {
            let session = self.session;
            tracing::warn!(%session, %error, "an unfinished import is taken back later");
        }
        ended
    }
}

impl Drop for Import<'_> {
    fn drop(&mut self) {
        let mut hidden = self.imports.hidden();
        if hidden.under_way.remove(&self.session) && self.is_ours {
            hidden.left.insert(self.session);
        }
        drop(hidden);
        self.imports.changed.send_replace(());
    }
}
