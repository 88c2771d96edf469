//! Tests of a vacuum of an open store: reads and writes continue, nothing acknowledged is lost, and
//! no deleted data stays on disk.

use std::path::Path;
use std::sync::Arc;

use unisono_store::{
    Append, Checkpoint, Deletion, Disk, Engine, Error, SessionId, acknowledge_losses, losses,
};

use crate::child::{self, Acked, payload, verify};
use crate::kill::scramble;

const SECRET: &[u8] = b"the secret word is rhubarb";

async fn append(
    disk: &Disk,
    session: SessionId,
    seq: u64,
    epoch: u64,
    payloads: Vec<Vec<u8>>,
) -> u64 {
    let append = Append::new(session, epoch, seq, payloads);
    disk.append(append).await.unwrap()
}

/// Makes this many appends of one to three events, with checkpoints in between.
async fn write(disk: Arc<Disk>, n: u128, appends: u64) -> (u128, u64) {
    let id = SessionId::from_u128(n);
    let claim = disk.claim(id).await.unwrap();
    let mut seq = claim.last_seq;
    for round in 0..appends {
        let payloads = (seq + 1..=seq + 1 + round % 3).map(|seq| payload(n, seq));
        seq = append(&disk, id, seq, claim.epoch, payloads.collect()).await;
        if round % 7 == 0 {
            let state = payload(n, seq * 37);
            let checkpoint = Checkpoint { seq, state };
            disk.put_checkpoint(id, claim.epoch, checkpoint)
                .await
                .unwrap();
        }
    }
    (n, seq)
}

/// Whether these bytes are in a file of a directory.
fn holds(dir: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type().unwrap().is_dir() {
            true => holds(&path, bytes),
            false => {
                let whole = std::fs::read(path).unwrap();
                whole.windows(bytes.len()).any(|window| window == bytes)
            }
        }
    })
}

async fn secret(disk: &Disk, n: u128) -> SessionId {
    let session = SessionId::from_u128(n);
    let epoch = disk.claim(session).await.unwrap().epoch;
    append(
        disk,
        session,
        0,
        epoch,
        vec![SECRET.to_vec(), SECRET.repeat(8_000)],
    )
    .await;
    let state = SECRET.to_vec();
    let checkpoint = Checkpoint { seq: 2, state };
    disk.put_checkpoint(session, epoch, checkpoint)
        .await
        .unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_is_gone_from_disk_when_an_online_vacuum_returns() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::open(dir.path()).unwrap().disk);
    let mut acked = Acked::new();
    for n in 1..=3 {
        acked.extend([write(disk.clone(), n, 40).await]);
    }
    let gone = secret(&disk, 99).await;
    acked.extend([write(disk.clone(), 4, 40).await]);
    assert!(
        disk.delete_session(Deletion::of_session(gone))
            .await
            .unwrap()
    );
    assert!(holds(dir.path(), SECRET), "the test proves nothing");
    let before = disk.space().await.unwrap();
    let done = disk.vacuum(None).await.unwrap();
    assert!(!holds(dir.path(), SECRET));
    assert_eq!(done.sessions, 4);
    assert!(done.after_bytes < done.before_bytes, "{done:?}");
    assert!(before.disk_bytes > before.live_bytes, "{before:?}");
    verify(&*disk, &acked).await.unwrap();
    // The store continues: claims stay valid, the deleted session can be created again.
    acked.extend([write(disk.clone(), 1, 5).await]);
    let again = secret(&disk, 99).await;
    assert_eq!(disk.session(again).await.unwrap().unwrap().last_seq, 2);
    disk.close().await.unwrap();
    let opened = Disk::open(dir.path()).unwrap();
    assert_eq!(opened.salvage, None);
    verify(&opened.disk, &acked).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_write_and_read_go_on_during_a_vacuum() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::open(dir.path()).unwrap().disk);
    let mut acked = Acked::new();
    for n in 1..=4 {
        acked.extend([write(disk.clone(), n, 30).await]);
    }
    let writers: Vec<_> = (1..=8)
        .map(|n| tokio::spawn(write(disk.clone(), n, 150)))
        .collect();
    let churn = {
        let disk = disk.clone();
        tokio::spawn(async move {
            for round in 0..40 {
                let session = secret(&disk, 100 + round % 3).await;
                disk.delete_session(Deletion::of_session(session))
                    .await
                    .unwrap();
            }
        })
    };
    let reader = {
        let (disk, acked) = (disk.clone(), acked.clone());
        tokio::spawn(async move {
            for _ in 0..20 {
                for (&n, &seq) in &acked {
                    let limit = usize::try_from(seq).unwrap();
                    let read = disk.read(SessionId::from_u128(n), 1, limit).await.unwrap();
                    assert_eq!(read.len(), limit);
                    assert!(
                        read.iter()
                            .all(|event| event.payload == payload(n, event.seq))
                    );
                }
            }
        })
    };
    for _ in 0..4 {
        disk.vacuum(None).await.unwrap();
    }
    for writer in writers {
        acked.extend([writer.await.unwrap()]);
    }
    churn.await.unwrap();
    reader.await.unwrap();
    verify(&*disk, &acked).await.unwrap();
    disk.vacuum(Some(1 << 30)).await.unwrap();
    assert!(!holds(dir.path(), SECRET));
    verify(&*disk, &acked).await.unwrap();
    disk.close().await.unwrap();
    let opened = Disk::open(dir.path()).unwrap();
    assert_eq!(opened.salvage, None);
    verify(&opened.disk, &acked).await.unwrap();
    assert_eq!(
        unisono_store::doctor(dir.path())
            .err()
            .map(|e| matches!(e, Error::Held { .. })),
        Some(true)
    );
}

/// Closing a store does not wait for a slow copy.
#[tokio::test(flavor = "multi_thread")]
async fn closing_gives_a_slow_vacuum_up() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::open(dir.path()).unwrap().disk);
    let acked = Acked::from([write(disk.clone(), 1, 50).await]);
    let vacuum = tokio::spawn({
        let disk = disk.clone();
        // At this speed it takes hours.
        async move { disk.vacuum(Some(1)).await }
    });
    while !dir.path().join("data.new").exists() {
        tokio::task::yield_now().await;
    }
    disk.close().await.unwrap();
    assert!(vacuum.await.unwrap().is_err());
    let opened = Disk::open(dir.path()).unwrap();
    assert_eq!(opened.salvage, None);
    assert!(!dir.path().join("data.new").exists());
    verify(&opened.disk, &acked).await.unwrap();
}

/// A process that repeatedly vacuums while it writes is killed at any moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_during_an_online_vacuum_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut acked = Acked::new();
    for round in 0..crate::kill::rounds(12) {
        let acks = 20 + usize::try_from(scramble(round) % 120).unwrap();
        let env = [("UNISONO_TEST_VACUUM", "1".to_owned())];
        acked.extend(child::kill_after(child::spawn(dir.path(), 4, &env), acks));
        let opened = Disk::open(dir.path()).unwrap();
        assert_eq!(opened.salvage, None, "round {round}");
        verify(&opened.disk, &acked).await.unwrap();
        opened.disk.close().await.unwrap();
    }
}

/// The losses of a repair are reported until a user acknowledges them, although the remaining data
/// is undamaged.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_stays_visible_after_the_repair() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::open(dir.path()).unwrap().disk);
    write(disk.clone(), 7, 60).await;
    disk.close().await.unwrap();
    let db = dir.path().join("data/db");
    let mut bytes = std::fs::read(&db).unwrap();
    let middle = bytes.len() / 2;
    let end = bytes.len();
    bytes[middle..end].fill(0);
    std::fs::write(&db, bytes).unwrap();
    let lost = Disk::open(dir.path()).unwrap().salvage.unwrap().lost;
    assert!(!lost.is_empty());
    for _ in 0..2 {
        let checkup = unisono_store::doctor(dir.path()).unwrap();
        assert_eq!((checkup.findings.len(), checkup.salvage), (0, None));
        let reply = losses(dir.path()).unwrap();
        assert_eq!(reply.len(), 1);
        assert_eq!(
            (reply[0].session, reply[0].quarantine.as_str()),
            (SessionId::from_u128(7), "1")
        );
    }
    assert_eq!(acknowledge_losses(dir.path()).unwrap(), 1);
    assert_eq!(losses(dir.path()).unwrap(), []);
}
