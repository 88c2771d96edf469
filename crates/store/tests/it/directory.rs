//! Tests of the directory of a store: who may open it, and what an opening refuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use unisono_store::{
    Append, Checkpoint, DegradedDisk, Deletion, Disk, Engine, Error, Health, Journal, Memory,
    ReadOnlyDisk, SessionId, archive, doctor, repair, vacuum,
};

use crate::child::{self, payload};

fn refused(path: impl AsRef<Path>) -> Error {
    match Disk::open(path) {
        Ok(_) => panic!("the store opened"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_told_who_holds_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = child::spawn(dir.path(), 1, &[]);
    child::await_ack(&mut child);
    let pid = child.id();
    let error = refused(dir.path());
    assert!(
        matches!(&error, Error::Held { pid: Some(holder), .. } if *holder == pid),
        "{error}"
    );
    assert!(
        error.to_string().contains(&format!("is held by pid {pid}")),
        "{error}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(Disk::open(dir.path()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_held_once_within_a_process_too() {
    let dir = tempfile::tempdir().unwrap();
    let opened = Disk::open(dir.path()).unwrap();
    assert!(matches!(refused(dir.path()), Error::Held { .. }));
    drop(opened);
    for _ in 0..5 {
        drop(Disk::open(dir.path()).unwrap());
    }
}

/// Closing releases the directory at once, even if the engine is still referenced and reads are in
/// progress.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_opens_again_while_somebody_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionId::from_u128(1);
    let mut held = Vec::new();
    for life in 0..5 {
        let disk = Arc::new(Disk::open(dir.path()).unwrap().disk);
        let journal = Journal::new(Arc::clone(&disk) as Arc<dyn Engine>);
        let epoch = disk.claim(session).await.unwrap().epoch;
        let append = |seq| Append::new(session, epoch, seq, vec![payload(1, seq + 1)]);
        disk.append(append(life)).await.unwrap();
        let reading: Vec<_> = (0..16)
            .map(|_| {
                let disk = Arc::clone(&disk);
                tokio::spawn(async move { disk.read(session, 1, 99).await })
            })
            .collect();
        journal.close().await.unwrap();
        for read in reading {
            let read = read.await.unwrap();
            assert!(
                matches!(&read, Ok(events) if events.len() as u64 == life + 1)
                    || matches!(read, Err(Error::Closed)),
                "{read:?}"
            );
        }
        let closed = disk.read(session, 1, 9).await;
        assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
        let closed = disk.append(append(life + 1)).await;
        assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
        journal.close().await.unwrap();
        held.push((disk, journal));
    }
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    drop(Disk::open(dir.path()).unwrap());
    fs::write(dir.path().join("FORMAT"), "unisono store, format 7\n").unwrap();
    let before = listing(dir.path());
    let error = refused(dir.path());
    assert!(
        matches!(
            error,
            Error::NewerStore {
                found: 7,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(listing(dir.path()), before);
}

/// A store of the version before format 1.
fn before_format_1() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/before-format-1")
}

/// Every file and directory below, with its bytes.
fn bytes(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(bytes(&path));
            all.push((path, Vec::new()));
        } else {
            let bytes = fs::read(&path).unwrap();
            all.push((path, bytes));
        }
    }
    all.sort();
    all
}

#[test]
fn a_store_from_before_format_1_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir(root.join("data")).unwrap();
    for (path, bytes) in bytes(&before_format_1().join("store")) {
        let file = path.strip_prefix(before_format_1().join("store")).unwrap();
        if path.is_file() {
            fs::write(root.join(file), bytes).unwrap();
        }
    }
    let (before, times) = (bytes(root), listing(root));
    assert!(before.iter().any(|(path, _)| path.ends_with("data/db")));
    let opened = [
        refused(root),
        ReadOnlyDisk::open(root, "to look").unwrap_err(),
        doctor(root).unwrap_err(),
        repair(root).unwrap_err(),
        vacuum(root).unwrap_err(),
    ];
    for error in opened {
        assert!(matches!(error, Error::EarlierStore { .. }), "{error}");
        let said = error.to_string();
        for part in [
            "nothing was touched",
            "`unisono export SESSION -o FILE`",
            "`unisono import FILE`",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
    assert_eq!(bytes(root), before);
    assert_eq!(listing(root), times);
}

#[tokio::test]
async fn an_archive_from_before_format_1_is_refused() {
    let archive = before_format_1().join("archive.unisono");
    let store = Memory::new();
    let error = archive::import(&store, &archive).await.unwrap_err();
    assert!(matches!(error, Error::EarlierArchive { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("`unisono export SESSION -o FILE`")
    );
    assert_eq!(store.sessions(None, 9).await.unwrap(), []);
}

/// Every file with its length and time of change.
fn listing(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        lines.push(format!(
            "{} {} {:?}",
            entry.path().display(),
            meta.len(),
            meta.modified().unwrap()
        ));
        if meta.is_dir() {
            lines.extend(listing(&entry.path()));
        }
    }
    lines.sort();
    lines
}

#[test]
fn a_directory_of_something_else_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    let before = listing(dir.path());
    let error = refused(dir.path());
    assert!(
        matches!(&error, Error::NotAStore { why, .. } if why == "it holds thesis.tex"),
        "{error}"
    );
    fs::write(dir.path().join("FORMAT"), "who knows").unwrap();
    assert!(matches!(refused(dir.path()), Error::NotAStore { .. }));
    fs::remove_file(dir.path().join("FORMAT")).unwrap();
    assert_eq!(listing(dir.path()).len(), before.len());
}

/// Works as root, too, whom permissions do not restrict.
#[test]
fn a_place_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for path in [
        dir.path().join("file/store"),
        dir.path().join("file"),
        "/proc/self/store".into(),
    ] {
        let error = refused(&path);
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
}

#[test]
fn an_interrupted_making_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("LOCK"), "1\n").unwrap();
    fs::write(dir.path().join("FORMAT.tmp"), "unis").unwrap();
    assert!(Disk::open(dir.path()).unwrap().salvage.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_journals_are_not_counted_as_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path()).unwrap().disk;
    for id in [1, u128::MAX - 9] {
        let session = SessionId::from_u128(id);
        let epoch = disk.claim(session).await.unwrap().epoch;
        disk.append(Append::new(session, epoch, 0, vec![payload(id, 1)]))
            .await
            .unwrap();
    }
    disk.close().await.unwrap();
    drop(disk);
    let vacuumed = vacuum(dir.path()).unwrap();
    assert_eq!((vacuumed.sessions, vacuumed.events), (1, 2));
    fs::remove_dir_all(dir.path().join("data")).unwrap();
    let salvage = Disk::open(dir.path()).unwrap().salvage.unwrap();
    assert_eq!(salvage.sessions, 1, "{salvage}");
}

/// A vacuum drops outdated and deleted data and keeps everything else unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_reclaims_space() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path()).unwrap().disk;
    let (kept, deleted) = (SessionId::from_u128(1), SessionId::from_u128(2));
    for session in [kept, deleted] {
        let epoch = disk.claim(session).await.unwrap().epoch;
        for seq in 0..60 {
            let payloads = vec![
                payload(session.0.as_u128(), seq + 1),
                vec![7; 200_000 * usize::from(session == deleted)],
            ];
            disk.append(Append::new(session, epoch, seq * 2, payloads))
                .await
                .unwrap();
            let state = payload(9, seq * 37);
            disk.put_checkpoint(session, epoch, Checkpoint { seq, state })
                .await
                .unwrap();
        }
    }
    disk.delete_session(Deletion::of_session(deleted))
        .await
        .unwrap();
    let before = (
        disk.read(kept, 1, 999).await.unwrap(),
        disk.latest_checkpoint(kept).await.unwrap(),
        disk.session(kept).await.unwrap(),
    );
    disk.close().await.unwrap();
    drop(disk);
    let vacuumed = vacuum(dir.path()).unwrap();
    assert_eq!((vacuumed.sessions, vacuumed.events), (1, 120));
    assert!(
        vacuumed.after_bytes * 4 < vacuumed.before_bytes,
        "{vacuumed:?}"
    );
    let opened = Disk::open(dir.path()).unwrap();
    assert_eq!(opened.salvage, None);
    let disk = opened.disk;
    let after = (
        disk.read(kept, 1, 999).await.unwrap(),
        disk.latest_checkpoint(kept).await.unwrap(),
        disk.session(kept).await.unwrap(),
    );
    assert!(before == after);
    assert_eq!(disk.session(deleted).await.unwrap(), None);
    let claim = disk.claim(kept).await.unwrap();
    disk.append(Append::new(kept, claim.epoch, 120, vec![vec![1]]))
        .await
        .unwrap();
}

/// A vacuum or repair that is interrupted at any of its renames leaves one complete store.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_swap_is_finished_or_undone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path()).unwrap().disk;
    let session = SessionId::from_u128(1);
    let epoch = disk.claim(session).await.unwrap().epoch;
    disk.append(Append::new(session, epoch, 0, vec![vec![1]]))
        .await
        .unwrap();
    disk.close().await.unwrap();
    drop(disk);
    let (data, new, old) = (
        dir.path().join("data"),
        dir.path().join("data.new"),
        dir.path().join("data.old"),
    );
    let check = || {
        let opened = Disk::open(dir.path()).unwrap();
        assert_eq!(opened.salvage, None);
        assert!(!new.exists() && !old.exists());
        opened.disk
    };
    fs::create_dir(&new).unwrap();
    fs::write(new.join("db"), "half a log").unwrap();
    assert_eq!(check().read(session, 1, 9).await.unwrap().len(), 1);
    fs::rename(&data, &new).unwrap();
    fs::create_dir(&old).unwrap();
    assert_eq!(check().read(session, 1, 9).await.unwrap().len(), 1);
}

/// The opening for writing runs to its end without its caller, and the store knows its result.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_became_writable_is_healthy_if_its_caller_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    Disk::open(dir.path()).unwrap().disk.close().await.unwrap();
    let reason = "it was mounted read-only".to_owned();
    let disk = DegradedDisk::open(dir.path(), &Error::Unwritable { reason }).unwrap();
    assert!(matches!(disk.health(), Health::ReadOnly { .. }));
    let mut now = Context::from_waker(Waker::noop());
    let claimed = pin!(disk.claim(SessionId::from_u128(1))).poll(&mut now);
    assert!(claimed.is_pending());
    disk.writable().await.unwrap();
    assert_eq!(disk.health(), Health::Ok);
    disk.close().await.unwrap();
}

/// After an opening that failed, the store rests; meanwhile each refusal has the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_did_not_become_writable_says_why() {
    let dir = tempfile::tempdir().unwrap();
    Disk::open(dir.path()).unwrap().disk.close().await.unwrap();
    let reason = "it was mounted read-only".to_owned();
    let disk = DegradedDisk::open(dir.path(), &Error::Unwritable { reason }).unwrap();
    let told = || match disk.health() {
        Health::ReadOnly { reason } => reason,
        health => panic!("{health:?}"),
    };
    assert_eq!(told(), "it was mounted read-only");
    // The copy of the log's tail cannot be made.
    fs::create_dir(dir.path().join("tail.tmp")).unwrap();
    for rests in [false, true] {
        let refused = disk.claim(SessionId::from_u128(1)).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, Error::Unwritable { .. }), "{text}");
        assert!(text.contains("keep a copy of the log's tail"), "{text}");
        assert_eq!(text.contains("the next try is in"), rests, "{text}");
        assert!(told().starts_with("cannot keep a copy"), "{}", told());
    }
    disk.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_after_the_files_have_lost_their_names() {
    for is_moved in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("store");
        let session = SessionId::from_u128(1);
        let disk = Disk::open(&root).unwrap().disk;
        let epoch = disk.claim(session).await.unwrap().epoch;
        let append = |seq| Append::new(session, epoch, seq, vec![payload(1, seq + 1)]);
        disk.append(append(0)).await.unwrap();
        match is_moved {
            true => fs::rename(&root, place.path().join("old")).unwrap(),
            false => fs::remove_dir_all(&root).unwrap(),
        }
        let refused = disk.append(append(1)).await.unwrap_err();
        assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
        let health = disk.health();
        let is_told = matches!(&health, Health::ReadOnly { reason } if reason.contains("moved"));
        assert!(is_told, "{health:?}");
        // Its directory is gone.
        let _ = disk.close().await;
    }
}

/// Files and directories of a store to which others have permissions.
fn open_to_others(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            found.push(format!("{} {mode:o}", entry.path().display()));
        }
        if entry.file_type().unwrap().is_dir() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

/// Independent of the umask; the permissions of a store that an earlier version created are
/// restricted.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = place.path().join("deep/store");
    let session = SessionId::from_u128(1);
    let opened = Disk::open(&root).unwrap();
    assert_eq!(opened.narrowed, 0, "a new one was never open to anybody");
    let disk = opened.disk;
    let epoch = disk.claim(session).await.unwrap().epoch;
    let append = Append::new(session, epoch, 0, vec![payload(1, 37)]);
    disk.append(append).await.unwrap();
    assert_eq!(open_to_others(place.path()), [""; 0]);
    disk.close().await.unwrap();
    vacuum(&root).unwrap();
    assert_eq!(open_to_others(place.path()), [""; 0]);
    let archive = place.path().join("all.unisono");
    let disk = Disk::open(&root).unwrap().disk;
    unisono_store::archive::export(&disk, &archive)
        .await
        .unwrap();
    disk.close().await.unwrap();
    assert_eq!(open_to_others(place.path()), [""; 0]);
    // As they were created with umask 022.
    for (path, mode) in [("", 0o755), ("data", 0o755), ("data/db", 0o644)] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let checkup = unisono_store::doctor(&root).unwrap();
    assert_eq!(checkup.narrowed, 3);
    assert_eq!(open_to_others(place.path()), [""; 0]);
    assert_eq!(unisono_store::doctor(&root).unwrap().narrowed, 0);
}
