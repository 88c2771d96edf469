//! Tests of archives: all data is moved between any two engines, and nothing of a damaged archive
//! is stored.

use std::fs;
use std::path::Path;

use unisono_store::archive::{ArchiveCounts, export, import};
use unisono_store::{
    Append, Checkpoint, DELETED_USAGE, Deletion, Disk, Engine, Error, Memory, SessionId,
};

use crate::child::payload;

const EMPTY: SessionId = SessionId::from_u128(99);

async fn fill(engine: &dyn Engine) {
    for session in 1..=3 {
        let id = SessionId::from_u128(session);
        let epoch = engine.claim(id).await.unwrap().epoch;
        let payloads = (1..=100 * session as u64)
            .map(|seq| payload(session, seq))
            .collect();
        engine
            .append(Append::new(id, epoch, 0, payloads))
            .await
            .unwrap();
    }
    engine
        .put_checkpoint(
            SessionId::from_u128(2),
            1,
            Checkpoint {
                seq: 150,
                state: payload(2, 37),
            },
        )
        .await
        .unwrap();
    engine.claim(EMPTY).await.unwrap();
}

async fn same(one: &dyn Engine, other: &dyn Engine) {
    let list = one.sessions(None, 100).await.unwrap();
    assert_eq!(list.len(), other.sessions(None, 100).await.unwrap().len());
    for info in list {
        let id = info.session;
        assert!(one.read(id, 1, 999).await.unwrap() == other.read(id, 1, 999).await.unwrap());
        assert!(
            one.latest_checkpoint(id).await.unwrap() == other.latest_checkpoint(id).await.unwrap()
        );
        let also = other.session(id).await.unwrap().unwrap();
        assert_eq!(
            (info.last_seq, info.payload_bytes),
            (also.last_seq, also.payload_bytes)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_moves_there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let (memory, back) = (Memory::new(), Memory::new());
    let disk = Disk::open(dir.path().join("store")).unwrap().disk;
    fill(&memory).await;
    let moved = ArchiveCounts {
        sessions: 4,
        events: 600,
        checkpoints: 1,
        skipped_tokens: 0,
    };
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    assert_eq!(export(&memory, &one).await.unwrap(), moved);
    assert_eq!(import(&disk, &one).await.unwrap(), moved);
    same(&memory, &disk).await;
    assert_eq!(export(&disk, &two).await.unwrap(), moved);
    assert_eq!(import(&back, &two).await.unwrap(), moved);
    same(&memory, &back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    fill(&memory).await;
    let path = dir.path().join("archive");
    export(&memory, &path).await.unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(
        export(&memory, &path).await,
        Err(Error::Io {
            doing: "create",
            ..
        })
    ));
    assert!(fs::read(&path).unwrap() == before);
    let error = import(&memory, &path).await.unwrap_err();
    assert!(matches!(error, Error::SessionExists { .. }), "{error}");
    assert_eq!(
        memory
            .session(SessionId::from_u128(1))
            .await
            .unwrap()
            .unwrap()
            .last_seq,
        100
    );
}

/// Deletes a session and keeps this usage.
async fn bury(engine: &dyn Engine, session: u128, left: &[u8]) {
    let session = SessionId::from_u128(session);
    engine.claim(session).await.unwrap();
    let deletion = Deletion {
        session,
        expected_seq: None,
        deleted_usage: Some(left.to_vec()),
    };
    assert!(engine.delete_session(deletion).await.unwrap());
}

async fn append(engine: &dyn Engine, session: SessionId, payload: &[u8]) {
    let epoch = engine.claim(session).await.unwrap().epoch;
    let append = Append::new(session, epoch, 0, vec![payload.to_vec()]);
    engine.append(append).await.unwrap();
}

async fn payloads(engine: &dyn Engine, session: SessionId) -> Vec<Vec<u8>> {
    let events = engine.read(session, 1, 9).await.unwrap();
    events.into_iter().map(|event| event.payload).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_deleted_sessions_moves_too() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    // The journal of a daemon's grants to sessions.
    let lent = SessionId::from_u128(u128::MAX);
    let there = Memory::new();
    fill(&there).await;
    bury(&there, 7, b"seven").await;
    append(&there, lent, b"lent there").await;
    let moved = export(&there, &one).await.unwrap();
    assert_eq!(moved.sessions, 4);

    let here = Disk::open(dir.path().join("store")).unwrap().disk;
    assert_eq!(import(&here, &one).await.unwrap(), moved);
    same(&there, &here).await;

    // Usage that exists already is added to; the grants of the daemon here are unchanged.
    let elsewhere = Memory::new();
    append(&elsewhere, SessionId::from_u128(20), b"of another").await;
    bury(&elsewhere, 8, b"eight").await;
    append(&elsewhere, lent, b"lent elsewhere").await;
    export(&elsewhere, &two).await.unwrap();
    assert_eq!(import(&here, &two).await.unwrap().sessions, 1);
    let left = payloads(&here, DELETED_USAGE).await;
    assert_eq!(left, [&b"seven"[..], b"eight"]);
    assert_eq!(payloads(&here, lent).await, [b"lent there"]);
    let refused = import(&here, &two).await.unwrap_err();
    assert!(matches!(refused, Error::SessionExists { .. }), "{refused}");
    assert_eq!(payloads(&here, DELETED_USAGE).await.len(), 2);
    here.close().await.unwrap();
}

/// Tries to import these bytes; nothing may be stored.
async fn refused(dir: &Path, bytes: &[u8]) -> Error {
    let path = dir.join("damaged");
    fs::write(&path, bytes).unwrap();
    let memory = Memory::new();
    let error = import(&memory, &path).await.unwrap_err();
    assert_eq!(memory.sessions(None, 9).await.unwrap(), []);
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_archive_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    for session in 1..=2 {
        let id = SessionId::from_u128(session);
        memory.claim(id).await.unwrap();
        let payloads = vec![b"one".to_vec(), b"two".to_vec()];
        memory
            .append(Append::new(id, 1, 0, payloads))
            .await
            .unwrap();
    }
    let path = dir.path().join("archive");
    export(&memory, &path).await.unwrap();
    let bytes = fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(3) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let error = refused(dir.path(), &flipped).await;
        assert!(
            matches!(error, Error::BadArchive { .. }),
            "flipped at {at}: {error}"
        );
        let error = refused(dir.path(), &bytes[..at]).await;
        assert!(
            matches!(error, Error::BadArchive { .. }),
            "cut at {at}: {error}"
        );
    }
    let error = refused(dir.path(), &[&bytes[..], b"x"].concat()).await;
    assert!(
        error.to_string().contains("something follows its end"),
        "{error}"
    );
}
