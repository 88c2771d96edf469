//! The tests that every engine must pass, run with each of them.

use std::sync::Arc;
use std::time::Duration;

use unisono_store::{
    Append, Checkpoint, Claim, DELETED_USAGE, Deletion, Disk, Engine, Error, Event, Health,
    MAX_PAYLOAD_BYTES, Memory, SessionId,
};

const A: SessionId = SessionId::from_u128(0xA);
const B: SessionId = SessionId::from_u128(0xB);
const C: SessionId = SessionId::from_u128(0xC);

/// An engine under test; its directory exists as long as it does.
struct Subject {
    engine: Arc<dyn Engine>,
    _dir: Option<tempfile::TempDir>,
}

impl std::ops::Deref for Subject {
    type Target = dyn Engine;
    fn deref(&self) -> &Self::Target {
        &*self.engine
    }
}

fn memory() -> Subject {
    Subject {
        engine: Arc::new(Memory::new()),
        _dir: None,
    }
}

fn disk() -> Subject {
    let dir = tempfile::tempdir().unwrap();
    let opened = Disk::open(dir.path().join("store")).unwrap();
    assert!(opened.salvage.is_none());
    Subject {
        engine: Arc::new(opened.disk),
        _dir: Some(dir),
    }
}

/// Uses a schema of its own.
#[cfg(feature = "postgres")]
async fn postgres(schema: &str) -> Option<Subject> {
    Some(Subject {
        engine: Arc::new(crate::postgres::store(schema).await?),
        _dir: None,
    })
}

/// One module per engine, one test per case.
macro_rules! conformance {
    ($($case:ident),* $(,)?) => {
        mod on_memory { $(#[tokio::test(flavor = "multi_thread")] async fn $case() { super::$case(super::memory()).await; })* }
        mod on_disk { $(#[tokio::test(flavor = "multi_thread")] async fn $case() { super::$case(super::disk()).await; })* }
        #[cfg(feature = "postgres")]
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                if let Some(subject) = super::postgres(stringify!($case)).await {
                    super::$case(subject).await;
                }
            })*
        }
    };
}

conformance![
    a_new_store_is_empty,
    events_come_back_as_written,
    a_read_is_a_window,
    a_wrong_expectation_conflicts,
    an_older_claim_is_fenced,
    an_unclaimed_session_takes_no_events,
    one_writer_wins_a_race,
    many_sessions_write_at_once,
    large_payloads_come_back,
    too_large_a_payload_is_refused,
    an_empty_append_is_refused,
    the_latest_checkpoint_counts,
    a_checkpoint_cannot_be_ahead,
    a_checkpoint_is_fenced,
    sessions_come_in_pages,
    first_events_come_together,
    a_deleted_session_is_gone_and_fenced,
    what_is_left_of_a_session_comes_with_its_deletion,
    a_session_can_live_again,
    a_closed_engine_says_so,
];

async fn claim(engine: &dyn Engine, session: SessionId) -> Claim {
    engine.claim(session).await.unwrap()
}

async fn append(
    engine: &dyn Engine,
    session: SessionId,
    epoch: u64,
    expected_seq: u64,
    payloads: &[&[u8]],
) -> Result<u64, Error> {
    let payloads = payloads.iter().map(|payload| payload.to_vec()).collect();
    engine
        .append(Append::new(session, epoch, expected_seq, payloads))
        .await
}

async fn put_checkpoint(
    engine: &dyn Engine,
    epoch: u64,
    seq: u64,
    state: Vec<u8>,
) -> Result<(), Error> {
    let checkpoint = Checkpoint { seq, state };
    engine.put_checkpoint(A, epoch, checkpoint).await
}

/// Whether the session existed.
async fn delete(engine: &dyn Engine, session: SessionId) -> bool {
    let deletion = Deletion::of_session(session);
    engine.delete_session(deletion).await.unwrap()
}

fn event(seq: u64, payload: &[u8]) -> Event {
    Event {
        seq,
        payload: payload.to_vec(),
    }
}

async fn a_new_store_is_empty(engine: Subject) {
    assert_eq!(engine.sessions(None, 10).await.unwrap(), []);
    assert_eq!(engine.session(A).await.unwrap(), None);
    assert_eq!(engine.read(A, 1, 10).await.unwrap(), []);
    assert_eq!(engine.latest_checkpoint(A).await.unwrap(), None);
    assert!(!delete(&*engine, A).await);
    assert_eq!(engine.health(), Health::Ok);
}

async fn events_come_back_as_written(engine: Subject) {
    assert_eq!(
        claim(&*engine, A).await,
        Claim {
            epoch: 1,
            last_seq: 0
        }
    );
    assert_eq!(append(&*engine, A, 1, 0, &[b"one", b""]).await.unwrap(), 2);
    assert_eq!(append(&*engine, A, 1, 2, &[b"three"]).await.unwrap(), 3);
    assert_eq!(
        engine.read(A, 1, 10).await.unwrap(),
        [event(1, b"one"), event(2, b""), event(3, b"three")]
    );
    let info = engine.session(A).await.unwrap().unwrap();
    assert_eq!(
        (info.session, info.last_seq, info.epoch, info.payload_bytes),
        (A, 3, 1, 8)
    );
    assert!(info.created_unix_ms > 0 && info.updated_unix_ms >= info.created_unix_ms);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(
        claim(&*engine, A).await,
        Claim {
            epoch: 2,
            last_seq: 3
        }
    );
    // A claim writes nothing to the session.
    let claimed = engine.session(A).await.unwrap().unwrap();
    assert_eq!(claimed.updated_unix_ms, info.updated_unix_ms);
}

async fn a_read_is_a_window(engine: Subject) {
    claim(&*engine, A).await;
    append(&*engine, A, 1, 0, &[b"1", b"2", b"3", b"4"])
        .await
        .unwrap();
    assert_eq!(
        engine.read(A, 2, 2).await.unwrap(),
        [event(2, b"2"), event(3, b"3")]
    );
    assert_eq!(engine.read(A, 4, 9).await.unwrap(), [event(4, b"4")]);
    assert_eq!(engine.read(A, 0, 1).await.unwrap(), [event(1, b"1")]);
    assert_eq!(engine.read(A, 5, 9).await.unwrap(), []);
    assert_eq!(engine.read(A, u64::MAX, usize::MAX).await.unwrap(), []);
    assert_eq!(engine.read(A, 1, 0).await.unwrap(), []);
}

async fn a_wrong_expectation_conflicts(engine: Subject) {
    claim(&*engine, A).await;
    append(&*engine, A, 1, 0, &[b"1"]).await.unwrap();
    for expected in [0, 2, u64::MAX] {
        let error = append(&*engine, A, 1, expected, &[b"x"]).await.unwrap_err();
        assert!(
            matches!(error, Error::Conflict { session: A, expected_seq, last_seq: 1 } if expected_seq == expected),
            "{error}"
        );
    }
    assert_eq!(engine.read(A, 1, 9).await.unwrap(), [event(1, b"1")]);
}

async fn an_older_claim_is_fenced(engine: Subject) {
    claim(&*engine, A).await;
    claim(&*engine, A).await;
    for epoch in [0, 1, 3] {
        let error = append(&*engine, A, epoch, 0, &[b"x"]).await.unwrap_err();
        assert!(matches!(error, Error::Fenced { current: 2, .. }), "{error}");
    }
    assert_eq!(append(&*engine, A, 2, 0, &[b"x"]).await.unwrap(), 1);
}

async fn an_unclaimed_session_takes_no_events(engine: Subject) {
    for epoch in [0, 1] {
        let error = append(&*engine, A, epoch, 0, &[b"x"]).await.unwrap_err();
        assert!(matches!(error, Error::Fenced { current: 0, .. }), "{error}");
    }
    assert_eq!(engine.session(A).await.unwrap(), None);
}

async fn one_writer_wins_a_race(engine: Subject) {
    claim(&*engine, A).await;
    let racing = (0..32_u8).map(|n| {
        let engine = Arc::clone(&engine.engine);
        tokio::spawn(async move { append(&*engine, A, 1, 0, &[&[n]]).await })
    });
    let mut won = 0;
    for racer in racing.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(1) => won += 1,
            Err(Error::Conflict { last_seq: 1, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 1);
}

async fn many_sessions_write_at_once(engine: Subject) {
    let writing = (1..=64_u128).map(|n| {
        let engine = Arc::clone(&engine.engine);
        tokio::spawn(async move {
            let session = SessionId::from_u128(n);
            let epoch = claim(&*engine, session).await.epoch;
            for seq in 0..5_u8 {
                append(&*engine, session, epoch, seq.into(), &[&[seq; 100]])
                    .await
                    .unwrap();
                let read = engine.read(session, 1, 10).await.unwrap();
                assert_eq!(read.len(), usize::from(seq) + 1);
            }
        })
    });
    for writer in writing.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let sessions = engine.sessions(None, 100).await.unwrap();
    assert_eq!(sessions.len(), 64);
    assert!(sessions.iter().all(|info| info.last_seq == 5));
}

async fn large_payloads_come_back(engine: Subject) {
    claim(&*engine, A).await;
    let sizes = [1, 60_000, 61_144, 61_145, 61_440, 200_000, 10 << 20];
    let payloads: Vec<Vec<u8>> = sizes
        .iter()
        .map(|&size| (0..size).map(|i: usize| (i * 7 + i / 251) as u8).collect())
        .collect();
    engine
        .append(Append::new(A, 1, 0, payloads.clone()))
        .await
        .unwrap();
    let read: Vec<_> = engine
        .read(A, 1, 99)
        .await
        .unwrap()
        .into_iter()
        .map(|event| event.payload)
        .collect();
    assert!(read == payloads);
    let checkpoint = Checkpoint {
        seq: 7,
        state: payloads[5].clone(),
    };
    engine
        .put_checkpoint(A, 1, checkpoint.clone())
        .await
        .unwrap();
    assert!(engine.latest_checkpoint(A).await.unwrap() == Some(checkpoint));
}

async fn too_large_a_payload_is_refused(engine: Subject) {
    claim(&*engine, A).await;
    let large = || vec![0; MAX_PAYLOAD_BYTES + 1];
    let error = engine
        .append(Append::new(A, 1, 0, vec![large()]))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                limit_bytes: 67_108_864,
                ..
            }
        ),
        "{error}"
    );
    let refused = put_checkpoint(&*engine, 1, 0, large()).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(engine.session(A).await.unwrap().unwrap().last_seq, 0);
}

async fn an_empty_append_is_refused(engine: Subject) {
    claim(&*engine, A).await;
    let error = append(&*engine, A, 1, 0, &[]).await.unwrap_err();
    assert!(
        matches!(error, Error::EmptyAppend { session: A }),
        "{error}"
    );
}

async fn the_latest_checkpoint_counts(engine: Subject) {
    claim(&*engine, A).await;
    append(&*engine, A, 1, 0, &[b"1", b"2"]).await.unwrap();
    for (seq, state) in [(1, b"first"), (2, b"other")] {
        let checkpoint = Checkpoint {
            seq,
            state: state.to_vec(),
        };
        engine
            .put_checkpoint(A, 1, checkpoint.clone())
            .await
            .unwrap();
        assert_eq!(engine.latest_checkpoint(A).await.unwrap(), Some(checkpoint));
    }
    assert_eq!(engine.latest_checkpoint(B).await.unwrap(), None);
}

async fn a_checkpoint_cannot_be_ahead(engine: Subject) {
    claim(&*engine, A).await;
    append(&*engine, A, 1, 0, &[b"1"]).await.unwrap();
    let refused = put_checkpoint(&*engine, 1, 2, vec![]).await;
    let error = refused.unwrap_err();
    assert!(
        matches!(
            error,
            Error::CheckpointAhead {
                seq: 2,
                last_seq: 1,
                ..
            }
        ),
        "{error}"
    );
}

async fn a_checkpoint_is_fenced(engine: Subject) {
    claim(&*engine, A).await;
    claim(&*engine, A).await;
    let refused = put_checkpoint(&*engine, 1, 0, vec![]).await;
    let error = refused.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Fenced {
                epoch: 1,
                current: 2,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(engine.latest_checkpoint(A).await.unwrap(), None);
}

async fn sessions_come_in_pages(engine: Subject) {
    for session in [C, A, B] {
        claim(&*engine, session).await;
    }
    assert!(delete(&*engine, B).await);
    let ids = |page: Vec<unisono_store::SessionInfo>| {
        page.into_iter()
            .map(|info| info.session)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(engine.sessions(None, 9).await.unwrap()), [A, C]);
    assert_eq!(ids(engine.sessions(None, 1).await.unwrap()), [A]);
    assert_eq!(ids(engine.sessions(Some(A), 1).await.unwrap()), [C]);
    assert_eq!(ids(engine.sessions(Some(C), 1).await.unwrap()), []);
    assert_eq!(ids(engine.sessions(None, 0).await.unwrap()), []);
    assert_eq!(ids(engine.newest_sessions(None, 9).await.unwrap()), [C, A]);
    assert_eq!(ids(engine.newest_sessions(None, 1).await.unwrap()), [C]);
    let before_c = engine.newest_sessions(Some(C), 1);
    assert_eq!(ids(before_c.await.unwrap()), [A]);
    assert_eq!(ids(engine.newest_sessions(Some(A), 1).await.unwrap()), []);
    assert_eq!(ids(engine.newest_sessions(None, 0).await.unwrap()), []);
}

async fn first_events_come_together(engine: Subject) {
    for session in [A, B, C] {
        claim(&*engine, session).await;
    }
    append(&*engine, A, 1, 0, &[b"a1", b"a2"]).await.unwrap();
    append(&*engine, C, 1, 0, &[b"c1"]).await.unwrap();
    let firsts = engine.first_events(vec![C, B, A, A]).await.unwrap();
    let [c, a] = [b"c1", b"a1"].map(|payload| Some(event(1, payload)));
    assert_eq!(firsts, [c, None, a.clone(), a]);
    assert_eq!(engine.first_events(Vec::new()).await.unwrap(), []);
}

async fn a_deleted_session_is_gone_and_fenced(engine: Subject) {
    claim(&*engine, A).await;
    append(&*engine, A, 1, 0, &[b"1", b"2"]).await.unwrap();
    put_checkpoint(&*engine, 1, 1, vec![1]).await.unwrap();
    assert!(delete(&*engine, A).await);
    assert!(!delete(&*engine, A).await);
    assert_eq!(engine.session(A).await.unwrap(), None);
    assert_eq!(engine.read(A, 1, 9).await.unwrap(), []);
    assert_eq!(engine.latest_checkpoint(A).await.unwrap(), None);
    let error = append(&*engine, A, 1, 2, &[b"x"]).await.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
}

async fn what_is_left_of_a_session_comes_with_its_deletion(engine: Subject) {
    let delete = |session, expected_seq, left: &[u8]| {
        engine.delete_session(Deletion {
            session,
            expected_seq: Some(expected_seq),
            deleted_usage: Some(left.to_vec()),
        })
    };
    for session in [A, B] {
        claim(&*engine, session).await;
        append(&*engine, session, 1, 0, &[b"1", b"2"])
            .await
            .unwrap();
    }
    // Deleting a session that does not exist, or has other events, keeps no usage.
    assert!(!delete(C, 0, b"c").await.unwrap());
    let error = delete(A, 1, b"early").await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Conflict {
                expected_seq: 1,
                last_seq: 2,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 2);
    assert_eq!(engine.session(DELETED_USAGE).await.unwrap(), None);

    assert!(delete(A, 2, b"a").await.unwrap());
    assert!(delete(B, 2, b"b").await.unwrap());
    let left = engine.read(DELETED_USAGE, 1, 9).await.unwrap();
    assert_eq!(left, [event(1, b"a"), event(2, b"b")]);
    assert!(delete(DELETED_USAGE, 2, b"ab").await.unwrap());
    let left = engine.read(DELETED_USAGE, 1, 9).await.unwrap();
    assert_eq!(left, [event(1, b"ab")]);
}

async fn a_session_can_live_again(engine: Subject) {
    claim(&*engine, A).await;
    append(&*engine, A, 1, 0, &[b"old", b"older"])
        .await
        .unwrap();
    assert!(delete(&*engine, A).await);
    let again = claim(&*engine, A).await;
    assert_eq!(again.last_seq, 0);
    assert!(again.epoch > 1);
    append(&*engine, A, again.epoch, 0, &[b"new"])
        .await
        .unwrap();
    assert_eq!(engine.read(A, 1, 9).await.unwrap(), [event(1, b"new")]);
}

async fn a_closed_engine_says_so(engine: Subject) {
    claim(&*engine, A).await;
    engine.close().await.unwrap();
    let error = append(&*engine, A, 1, 0, &[b"x"]).await.unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");
    assert!(matches!(engine.read(A, 1, 1).await, Err(Error::Closed)));
}
