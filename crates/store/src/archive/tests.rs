//! Tests that an interrupted import of an archive leaves nothing, wherever it was interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::{Checkpoint, Claim, Deletion, EngineFuture, Health};
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
