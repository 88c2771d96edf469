//! Tests with a disk that is really full, and with one that is really mounted read-only: a small
//! file system in memory, in a mount namespace of its own. If that is not possible, the tests print
//! so and end.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use unisono_store::{
    Append, Checkpoint, Claim, Deletion, Disk, Engine, Error, Health, Memory, ReadOnlyDisk,
    SessionId, archive,
};

use crate::child::{Acked, payload, verify};

const PLACE: &str = "UNISONO_TEST_SMALL_DISK";

/// Runs one of the tests below whose names begin with `inside_`, on a disk of 192 MiB.
fn on_a_small_disk(test: &str) {
    let place = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=192m tmpfs \"$0\" && exec \"$@\"";
    let is_root = rustix::process::getuid().is_root();
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.arg(if is_root { "-m" } else { "-rm" });
        unshare.args(["sh", "-c", mount]).arg(place.path());
        unshare
    };
    let can = unshare().arg("true").output();
    if !can.as_ref().is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: no file system can be mounted here ({can:?})");
        return;
    }
    let mut unshare = unshare();
    unshare.arg(std::env::current_exe().unwrap());
    let name = format!("full_disk::{test}");
    unshare.args([name.as_str(), "--exact", "--nocapture", "--test-threads=1"]);
    let done = unshare.env(PLACE, place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && said.contains("went through"),
        "{said}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing() {
    on_a_small_disk("inside_full");
}

#[test]
fn a_store_on_a_full_or_read_only_disk_can_be_read() {
    on_a_small_disk("inside_closed");
}

/// The directory of the inner test, if this is one.
fn place() -> Option<std::path::PathBuf> {
    std::env::var_os(PLACE).map(Into::into)
}

fn fill(place: &Path) -> std::path::PathBuf {
    let ballast = place.join("ballast");
    let mut file = File::create(&ballast).unwrap();
    for size in [1 << 20, 1 << 12, 1] {
        while file.write_all(&vec![7; size]).is_ok() {}
    }
    ballast
}

struct Writer {
    disk: Arc<Disk>,
    claims: Vec<(SessionId, Claim)>,
    acked: Acked,
}

impl Writer {
    async fn open(place: &Path) -> Writer {
        let opened = Disk::open(place.join("store")).unwrap();
        assert_eq!(opened.salvage, None);
        let disk = Arc::new(opened.disk);
        let mut claims = Vec::new();
        for n in 1..=4_u32 {
            let id = SessionId::from_u128(n.into());
            claims.push((id, disk.claim(id).await.unwrap()));
        }
        Writer {
            disk,
            claims,
            acked: Acked::new(),
        }
    }

    /// Appends to each session in turn, until one append fails or this many were made.
    async fn write(&mut self, rounds: u64) -> Result<(), Error> {
        for _ in 0..rounds {
            for (session, claim) in &mut self.claims {
                let n = session.0.as_u128();
                let seqs = claim.last_seq + 1..=claim.last_seq + 8;
                let payloads = seqs.map(|seq| payload(n, seq)).collect();
                let append = Append::new(*session, claim.epoch, claim.last_seq, payloads);
                claim.last_seq = self.disk.append(append).await?;
                self.acked.insert(n, claim.last_seq);
            }
        }
        Ok(())
    }
}

#[test]
fn inside_full() {
    let Some(place) = place() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut writer = Writer::open(&place).await;
        writer.write(20).await.unwrap();
        for time in 0..3 {
            let ballast = fill(&place);
            let error = writer.write(10_000).await.unwrap_err();
            assert!(error.is_disk_full(), "time {time}: {error}");
            assert!(error.to_string().contains("free some space"), "{error}");
            let health = writer.disk.health();
            assert!(matches!(health, Health::DiskFull { .. }), "{health:?}");
            // Reads work, and a second attempt fails in the same way.
            verify(&*writer.disk, &writer.acked).await.unwrap();
            assert!(writer.write(1).await.unwrap_err().is_disk_full());
            fs::remove_file(ballast).unwrap();
            assert_eq!(writer.disk.health(), Health::Ok, "there is room again");
            writer.write(3).await.unwrap();
            let (session, claim) = writer.claims[0];
            let checkpoint = Checkpoint {
                seq: 1,
                state: vec![1; 100_000],
            };
            let put = writer.disk.put_checkpoint(session, claim.epoch, checkpoint);
            put.await.unwrap();
        }
        writer.disk.close().await.unwrap();
        let opened = Disk::open(place.join("store")).unwrap();
        assert_eq!(opened.salvage, None);
        verify(&opened.disk, &writer.acked).await.unwrap();
    });
    println!("went through");
}

/// All acknowledged data can be listed, read and exported, and nothing can be written.
async fn check_read_only(place: &Path, acked: &Acked) {
    let store = place.join("store");
    let Err(error) = Disk::open(&store) else {
        panic!("the store opened");
    };
    assert!(error.is_unwritable(), "{error}");
    let disk = ReadOnlyDisk::open(&store, error.to_string()).unwrap();
    verify(&disk, acked).await.unwrap();
    let sessions = disk.sessions(None, 100).await.unwrap();
    assert_eq!(sessions.len(), acked.len(), "the deleted one is not there");
    // In parts, as a journal is folded.
    for (&session, &seq) in acked {
        let id = SessionId::from_u128(session);
        let mut read = 0;
        while read < seq {
            let part = disk.read(id, read + 1, 7).await.unwrap();
            assert_eq!(part[0].seq, read + 1);
            read += part.len() as u64;
        }
    }
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = elsewhere.path().join("all.unisono");
    archive::export(&disk, &file).await.unwrap();
    let copy = Memory::new();
    archive::import(&copy, &file).await.unwrap();
    verify(&copy, acked).await.unwrap();
    let refused = disk.claim(SessionId::from_u128(1)).await.unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
    let deleted = disk.delete_session(Deletion::of_session(SessionId::from_u128(1)));
    assert!(deleted.await.is_err());
}

#[test]
fn inside_closed() {
    let Some(place) = place() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut writer = Writer::open(&place).await;
        writer.write(40).await.unwrap();
        let gone = SessionId::from_u128(99);
        let epoch = writer.disk.claim(gone).await.unwrap().epoch;
        let append = Append::new(gone, epoch, 0, vec![b"deleted".to_vec()]);
        writer.disk.append(append).await.unwrap();
        assert!(
            writer
                .disk
                .delete_session(Deletion::of_session(gone))
                .await
                .unwrap()
        );
        writer.disk.close().await.unwrap();
        let ballast = fill(&place);
        check_read_only(&place, &writer.acked).await;
        fs::remove_file(ballast).unwrap();
        let mut remount = Command::new("mount");
        remount.args(["-o", "remount,ro"]).arg(&place);
        assert!(remount.status().unwrap().success());
        check_read_only(&place, &writer.acked).await;
        let mut remount = Command::new("mount");
        remount.args(["-o", "remount,rw"]).arg(&place);
        assert!(remount.status().unwrap().success());
        let opened = Disk::open(place.join("store")).unwrap();
        assert_eq!(opened.salvage, None);
        verify(&opened.disk, &writer.acked).await.unwrap();
    });
    println!("went through");
}
