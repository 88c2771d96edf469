//! Tests that an interrupted import of an archive leaves nothing, wherever it was interrupted, that an
//! archive has no part of a session, and that audit logs stay in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use unisono_context::Timestamp;

use super::*;
use crate::audit::{Command, Entry, Retention};
use crate::engine::{Checkpoint, Claim, Deletion, EngineFuture, Event, Health, SessionsFuture};
use crate::journal::Journal;
use crate::memory::Memory;

/// An engine whose process ends after this many writes.
struct Dying {
    engine: Arc<Memory>,
    left: AtomicUsize,
}

impl Dying {
    fn write<T>(&self, write: impl FnOnce() -> T, dead: impl FnOnce() -> T) -> T {
        let left = |left: usize| left.checked_sub(1);
        let lives = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        if lives.is_ok() { write() } else { dead() }
    }
}

fn dead<'a, T: Send + 'a>() -> EngineFuture<'a, T> {
    Box::pin(async { Err(Error::Closed) })
}

impl Engine for Dying {
    crate::forward_engine!(engine: read, latest_checkpoint, session, sessions, close);

    fn claim(&self, session: SessionId) -> EngineFuture<'_, Claim> {
        self.write(|| self.engine.claim(session), dead)
    }

    fn append(&self, append: Append) -> EngineFuture<'_, u64> {
        self.write(|| self.engine.append(append), dead)
    }

    fn put_checkpoint(
        &self,
        session: SessionId,
        epoch: u64,
        it: Checkpoint,
    ) -> EngineFuture<'_, ()> {
        self.write(|| self.engine.put_checkpoint(session, epoch, it), dead)
    }

    fn delete_session(&self, deletion: Deletion) -> EngineFuture<'_, bool> {
        self.write(|| self.engine.delete_session(deletion), dead)
    }

    fn health(&self) -> Health {
        Health::Ok
    }
}

/// Creates a session without usage, and deletes others, each of which has usage.
async fn fill(engine: &Memory, session: u128, gone: std::ops::Range<u128>) {
    let session = SessionId::from_u128(session);
    let claim = engine.claim(session).await.unwrap();
    let append = Append::to(session, claim, b"an event".to_vec());
    engine.append(append).await.unwrap();
    for gone in gone {
        let session = SessionId::from_u128(gone);
        engine.claim(session).await.unwrap();
        let deletion = Deletion {
            deleted_usage: Some(deleted_usage::of_sessions(1)),
            ..Deletion::of_session(session)
        };
        assert!(engine.delete_session(deletion).await.unwrap());
    }
}

#[tokio::test]
async fn an_import_that_ends_on_the_way_and_is_repeated_counts_what_is_left_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let there = Memory::new();
    fill(&there, 1, 10..13).await;
    export(&there, &path).await.unwrap();
    let mut whole = false;
    for writes in 0.. {
        let engine = Arc::new(Memory::new());
        fill(&engine, 2, 20..22).await;
        let dying = Dying {
            engine: engine.clone(),
            left: AtomicUsize::new(writes),
        };
        whole = import(&dying, &path).await.is_ok();
        let again = import(engine.as_ref(), &path).await;
        assert_eq!(again.is_err(), whole, "after {writes} writes: {again:?}");
        let journal = Journal::new(engine);
        let left = journal.deleted().await.unwrap();
        assert_eq!(left.sessions, 5, "after {writes} writes");
        assert_eq!(journal.sweep().await.unwrap(), 0);
        assert_eq!(journal.sessions(None, 9).await.unwrap().len(), 2);
        if whole {
            break;
        }
    }
    assert!(whole);
}

#[tokio::test]
async fn a_session_that_another_program_has_imported_again_is_kept() {
    let (engine, session) = (Arc::new(Memory::new()), SessionId::from_u128(2));
    let claim = engine.claim(session).await.unwrap();
    let list = BTreeSet::from([session]);
    imports::begin(engine.as_ref(), &list).await.unwrap();
    let append = Append::to(session, claim, b"the first part".to_vec());
    engine.append(append).await.unwrap();
    // This program finds the rest of an import, and cannot delete it.
    let dying = Arc::new(Dying {
        engine: engine.clone(),
        left: AtomicUsize::new(0),
    });
    let here = Journal::new(dying.clone());
    assert_eq!(here.sweep().await.unwrap(), 1);
    let there = Journal::new(engine.clone());
    assert_eq!(there.sweep().await.unwrap(), 1);
    fill(&engine, 2, 0..0).await;
    dying.left.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(here.claim(session.into()).await.unwrap().last_seq, 1);
}

#[tokio::test]
async fn the_imports_of_other_programs_stay_in_the_list() {
    let engine = Memory::new();
    let [own, others] = [1, 2].map(|n| BTreeSet::from([SessionId::from_u128(n)]));
    imports::begin(&engine, &own).await.unwrap();
    imports::begin(&engine, &others).await.unwrap();
    imports::end_with(&engine, &own, None).await.unwrap();
    assert_eq!(imports::unfinished(&engine).await.unwrap(), others);
    imports::end_with(&engine, &others, None).await.unwrap();
    assert!(imports::unfinished(&engine).await.unwrap().is_empty());
}

/// An engine in which an import begins when its sessions are listed.
struct Importing(Memory);

impl Engine for Importing {
    crate::forward_engine!(
        0: claim, append, read, put_checkpoint, latest_checkpoint, session, delete_session, health,
        close
    );

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
        Box::pin(async move {
            let session = SessionId::from_u128(2);
            if after.is_none() {
                let claim = self.0.claim(session).await?;
                imports::begin(&self.0, &BTreeSet::from([session])).await?;
                let append = Append::to(session, claim, b"the first part".to_vec());
                self.0.append(append).await?;
            }
            self.0.sessions(after, limit).await
        })
    }
}

#[tokio::test]
async fn a_session_that_is_imported_meanwhile_is_not_in_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let there = Importing(Memory::new());
    fill(&there.0, 1, 0..0).await;
    let moved = export(&there, &path).await.unwrap();
    assert_eq!((moved.sessions, moved.events), (1, 1));
    let here = Memory::new();
    assert_eq!(import(&here, &path).await.unwrap(), moved);
}

/// An engine that returns one event at a time. While session 2 is read, it is deleted; while session 3 is
/// read, session 1 is deleted.
struct Deleting(Memory);

impl Engine for Deleting {
    crate::forward_engine!(
        0: claim, append, put_checkpoint, latest_checkpoint, session, sessions, delete_session,
        health, close
    );

    fn read(&self, session: SessionId, from: u64, _: usize) -> EngineFuture<'_, Vec<Event>> {
        Box::pin(async move {
            let events = self.0.read(session, from, 1).await?;
            let gone = match session.0.as_u128() {
                2 => 2,
                3 => 1,
                _ => return Ok(events),
            };
            let deletion = Deletion::of_session(SessionId::from_u128(gone));
            self.0.delete_session(deletion).await?;
            Ok(events)
        })
    }
}

#[tokio::test]
async fn a_session_that_is_deleted_meanwhile_is_not_in_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let there = Deleting(Memory::new());
    for session in 1..=4 {
        let session = SessionId::from_u128(session);
        let claim = there.claim(session).await.unwrap();
        let append = Append {
            session,
            epoch: claim.epoch,
            expected_seq: 0,
            payloads: vec![b"one".to_vec(), b"two".to_vec()],
        };
        there.append(append).await.unwrap();
    }
    let moved = export(&there, &path).await.unwrap();
    assert_eq!((moved.sessions, moved.events), (2, 4));
    let here = Memory::new();
    assert_eq!(import(&here, &path).await.unwrap(), moved);
    let sessions = here.sessions(None, 9).await.unwrap().into_iter();
    let sessions = sessions.map(|info| info.session);
    let sessions: Vec<SessionId> = sessions.filter(|id| is_of_a_session(*id)).collect();
    assert_eq!(sessions, [3, 4].map(SessionId::from_u128));
}

/// Of two entries in each segment, the first is its beginning.
const RETENTION: Retention = Retention {
    days: 90,
    entries: 2 * audit::SEGMENTS,
};

fn command(name: &str) -> Command {
    Command {
        caller: "ada".into(),
        name: name.into(),
        object: BTreeMap::new(),
    }
}

/// The commands in the audit log, the newest first.
async fn commands(journal: &Journal) -> Vec<String> {
    let part = audit::read(journal, None, Timestamp(0), 99, |_| true).await;
    let entries = part.unwrap().entries.into_iter();
    let names = entries.map(|(_, entry)| match entry {
        Entry::Action { action } => action.route.to_string(),
        other => format!("{other:?}"),
    });
    names.collect()
}

#[tokio::test]
async fn an_audit_log_moves_to_a_store_without_one_and_the_import_follows_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let there = Arc::new(Memory::new());
    fill(&there, 1, 0..0).await;
    let journal = Journal::new(there.clone());
    for name in ["tokens create", "vacuum"] {
        audit::record(&journal, command(name), RETENTION).await;
    }
    export(there.as_ref(), &path).await.unwrap();
    for (own, expected) in [
        (None, &["import", "vacuum", "tokens create"][..]),
        (Some("doctor"), &["import", "doctor"]),
    ] {
        let journal = Journal::new(Arc::new(Memory::new()));
        if let Some(own) = own {
            audit::record(&journal, command(own), RETENTION).await;
        }
        let recorded = audit::with_audit(&journal, command("import"), RETENTION);
        import(recorded.engine().as_ref(), &path).await.unwrap();
        assert_eq!(commands(&journal).await, expected);
    }
}
