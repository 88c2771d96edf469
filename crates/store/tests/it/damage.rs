//! Tests with copies of a store in which a bit is flipped or the end is cut off. In each, either
//! every acknowledged record can be read, or an error or a report names what is lost. There must be
//! no panic, no hang and no wrong value.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use unisono_store::{
    Append, Checkpoint, Deletion, Disk, Engine, Error, LostData, Record, Salvage, SessionId,
};

use crate::child::{self, Acked};
use crate::kill::{rounds, scramble};
use crate::power_cut::copy_dir;

/// The session whose events are all large; its chunks take several segments of the log.
const LARGE: u128 = 7;

fn payload(session: u128, seq: u64) -> Vec<u8> {
    child::payload(session, if session == LARGE { seq * 37 } else { seq })
}

/// A store of six sessions, and its acknowledged events.
struct Original {
    path: PathBuf,
    acked: Acked,
    _dir: tempfile::TempDir,
}

/// Creates a store with deleted sessions, checkpoints and large payloads, which is opened and
/// closed `lives` times, so that one part of the log is before the engine's snapshot and another
/// part after it.
async fn original(lives: u64, sessions: u128) -> Original {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut acked = Acked::new();
    for life in 1..=lives {
        let disk = Disk::open(&path).unwrap().disk;
        for session in 1..=sessions {
            let id = SessionId::from_u128(session);
            let claim = disk.claim(id).await.unwrap();
            for seq in claim.last_seq + 1..=life * 20 {
                let append = Append::new(id, claim.epoch, seq - 1, vec![payload(session, seq)]);
                acked.insert(session, disk.append(append).await.unwrap());
            }
            let checkpoint = Checkpoint {
                seq: life * 20,
                state: payload(session, 37),
            };
            disk.put_checkpoint(id, claim.epoch, checkpoint)
                .await
                .unwrap();
        }
        disk.delete_session(Deletion::of_session(SessionId::from_u128(6)))
            .await
            .unwrap();
        disk.close().await.unwrap();
    }
    acked.remove(&6);
    Original {
        path,
        acked,
        _dir: dir,
    }
}

/// The state of one record.
#[derive(Debug, Default)]
struct Fate {
    readable: usize,
    lost: usize,
}

/// Reads every acknowledged event separately and compares it with what was written and what was
/// reported lost.
async fn check(disk: &Disk, acked: &Acked, salvage: Option<&Salvage>, what: &str) -> Fate {
    let mut fate = Fate::default();
    let lost = salvage.map_or(&[][..], |salvage| &salvage.lost);
    for (&session, &last) in acked {
        let id = SessionId::from_u128(session);
        for seq in 1..=last {
            let named = lost.iter().any(|lost| matches!(lost, LostData::Events { session, first, last } if *session == id && (*first..=*last).contains(&seq)));
            match disk.read(id, seq, 1).await {
                Ok(events) if events.is_empty() => {
                    assert!(
                        named,
                        "{what}: event {seq} of session {session} is silently gone: {lost:?}"
                    );
                    fate.lost += 1;
                }
                Ok(events) => {
                    assert!(
                        events[0].seq == seq && events[0].payload == payload(session, seq),
                        "{what}: event {seq} of session {session} is wrong"
                    );
                    assert!(
                        !named,
                        "{what}: event {seq} of session {session} is readable and reported lost"
                    );
                    fate.readable += 1;
                }
                Err(Error::Corrupt { record, .. }) => {
                    let near = matches!(record, Record::Event { session, seq: at } if session == id && at.abs_diff(seq) <= 1);
                    assert!(
                        near || record == Record::Head { session: id },
                        "{what}: {record}"
                    );
                    fate.lost += 1;
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    let deleted = disk.read(SessionId::from_u128(6), 1, 1).await;
    assert!(
        deleted.as_ref().is_ok_and(Vec::is_empty) || matches!(deleted, Err(Error::Corrupt { .. })),
        "{what}: {deleted:?}"
    );
    fate
}

/// Opens a damaged copy, checks it, repairs it, and checks it again.
async fn survive(path: &Path, acked: &Acked, what: &str) -> Fate {
    let opened = Disk::open(path).unwrap_or_else(|error| panic!("{what}: {error}"));
    let fate = check(&opened.disk, acked, opened.salvage.as_ref(), what).await;
    opened.disk.close().await.unwrap();
    let lost_before = opened
        .salvage
        .as_ref()
        .map_or(0, |salvage| salvage.lost.len());
    drop(opened);
    let path = path.to_path_buf();
    let repairing = path.clone();
    let checkup = tokio::task::spawn_blocking(move || unisono_store::repair(repairing))
        .await
        .unwrap()
        .unwrap();
    if fate.lost > 0 && lost_before == 0 {
        assert!(
            !checkup.findings.is_empty(),
            "{what}: the doctor finds nothing"
        );
    }
    if !checkup.findings.is_empty() {
        let opened = Disk::open(&path).unwrap();
        assert_eq!(opened.salvage, None, "{what}");
        let repaired = check(&opened.disk, acked, checkup.salvage.as_ref(), what).await;
        opened.disk.close().await.unwrap();
        drop(opened);
        let again = unisono_store::doctor(&path).unwrap();
        assert_eq!(
            (again.findings.len(), again.events),
            (0, repaired.readable as u64),
            "{what}"
        );
        return repaired;
    }
    fate
}

fn files(store: &Path) -> BTreeMap<String, u64> {
    let mut files = BTreeMap::from([("acknowledged".to_owned(), 0)]);
    for entry in fs::read_dir(store.join("data")).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            files.insert(format!("data/{}", entry.file_name().to_str().unwrap()), 0);
        }
    }
    for (name, len) in &mut files {
        *len = fs::metadata(store.join(name)).unwrap().len();
    }
    files
}

async fn damaged(lives: u64, sessions: u128, seed: u64, name: &str, damage: impl Fn(&Path, u64)) {
    let original = original(lives, sessions).await;
    let len = files(&original.path)[name];
    let dir = tempfile::tempdir().unwrap();
    for round in 0..rounds(if sessions < LARGE { 24 } else { 8 }) {
        let at = scramble(seed + round) % len;
        let copy = dir.path().join(round.to_string());
        copy_dir(&original.path, &copy);
        damage(&copy.join(name), at);
        let what = format!("{name} of {len} bytes, {lives} lives, at {at}");
        let fate = survive(&copy, &original.acked, &what).await;
        assert!(fate.readable + fate.lost >= 100, "{what}: {fate:?}");
        fs::remove_dir_all(copy).unwrap();
    }
}

fn flip(file: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (at % 8))], at).unwrap();
}

fn cut(file: &Path, at: u64) {
    OpenOptions::new()
        .write(true)
        .open(file)
        .unwrap()
        .set_len(at)
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_fresh_log() {
    damaged(1, 6, 100, "data/db", flip).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_an_older_log() {
    damaged(3, 6, 200, "data/db", flip).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_fresh_log() {
    damaged(1, 6, 300, "data/db", cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_older_log() {
    damaged(3, 6, 400, "data/db", cut).await;
}

/// Most of this log is large payloads, about eight segments of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_long_log() {
    damaged(4, LARGE, 500, "data/db", flip).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_long_log() {
    damaged(4, LARGE, 600, "data/db", cut).await;
}

/// The engine's own small files. Without damage to the log itself, nothing may be lost.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_small_files() {
    let original = original(2, 6).await;
    let dir = tempfile::tempdir().unwrap();
    let names = files(&original.path)
        .into_iter()
        .filter(|(name, _)| name != "data/db");
    for (name, len) in names {
        for round in 0..8 {
            let damage: fn(&Path, u64) = if round % 2 == 0 { flip } else { cut };
            let at = if round == 1 { 0 } else { scramble(round) % len };
            let copy = dir.path().join("copy");
            copy_dir(&original.path, &copy);
            damage(&copy.join(&name), at);
            let what = format!("{name} of {len} bytes, round {round}, at {at}");
            let fate = survive(&copy, &original.acked, &what).await;
            assert_eq!((fate.readable, fate.lost), (200, 0), "{what}");
            fs::remove_dir_all(copy).unwrap();
        }
    }
}

/// Only the ledger remains: every session is reported, with its extent.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_gone_is_named() {
    let original = original(1, 6).await;
    fs::remove_dir_all(original.path.join("data")).unwrap();
    let opened = Disk::open(&original.path).unwrap();
    let salvage = opened.salvage.unwrap();
    let all = (1..=5).map(|n| LostData::Events {
        session: SessionId::from_u128(n),
        first: 1,
        last: 20,
    });
    assert_eq!(salvage.lost, all.collect::<Vec<_>>());
    let text = salvage.to_string();
    let line = "lost events 1 to 20 of session 00000000-0000-0000-0000-000000000005";
    assert!(text.contains(line), "{text}");
    assert_eq!(
        fs::read_to_string(salvage.quarantine.join("report.txt"))
            .unwrap()
            .trim_end(),
        text
    );
}

/// The damaged store is kept, not deleted, and the next opening finds nothing to repair.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_is_kept() {
    let original = original(1, 6).await;
    let db = original.path.join("data/db");
    cut(&db, fs::metadata(&db).unwrap().len() / 4);
    let opened = Disk::open(&original.path).unwrap();
    let salvage = opened.salvage.unwrap();
    assert!(
        salvage.quarantine.join("data/db").exists() && salvage.quarantine.join("tail").exists()
    );
    let id = SessionId::from_u128(1);
    let claim = opened.disk.claim(id).await.unwrap();
    let append = Append::new(id, claim.epoch, claim.last_seq, vec![b"on".to_vec()]);
    opened.disk.append(append).await.unwrap();
    opened.disk.close().await.unwrap();
    drop(opened.disk);
    assert_eq!(Disk::open(&original.path).unwrap().salvage, None);
}
