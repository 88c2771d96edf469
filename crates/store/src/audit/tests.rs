//! The log keeps its order over segments and restarts, and deletes old entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::disk::Disk;
use crate::engine::{Engine, EngineFuture, Event};
use crate::memory::Memory;

const RETENTION: Retention = Retention {
    days: 90,
    entries: 1_000_000,
};

/// Segments of four entries.
const SMALL: Retention = Retention {
    entries: SEGMENTS * 4,
    ..RETENTION
};

fn entry(at: i64, caller: &str) -> Entry {
    let action = Action {
        at: Timestamp(at),
        caller: Some(caller.into()),
        owner: None,
        method: "POST".into(),
        route: "/v1/sessions/{session}/turns".into(),
        operation: None,
        object: BTreeMap::from([("session".into(), "0192".into())]),
        status: Some(200),
    };
    Entry::Action { action }
}

/// An engine that counts how often the beginnings of the segments are read.
#[derive(Default)]
struct Counting {
    memory: Memory,
    looks: AtomicUsize,
}

impl Engine for Counting {
    crate::forward_engine!(
        memory: claim, append, read, put_checkpoint, latest_checkpoint, session, sessions,
        delete_session, health, close
    );

    fn first_events(&self, sessions: Vec<SessionId>) -> EngineFuture<'_, Vec<Option<Event>>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.memory.first_events(sessions)
    }
}

async fn all(journal: &Journal, since: i64, limit: usize) -> Vec<Entry> {
    let (mut entries, mut before) = (Vec::new(), None);
    loop {
        let part = read(journal, before, Timestamp(since), limit, |_| true);
        let part = part.await.unwrap();
        assert!(part.entries.len() <= limit);
        entries.extend(part.entries.into_iter().map(|(_, entry)| entry));
        before = part.next;
        if before.is_none() {
            return entries;
        }
    }
}

#[tokio::test]
async fn entries_are_there_again_the_newest_first_and_are_no_session() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..4 {
        let disk = Disk::open(directory.path().join("store")).unwrap().disk;
        let journal = Journal::new(Arc::new(disk));
        let mut log = Audit::new(&journal, RETENTION);
        let new = [entry(round * 10, "ada"), entry(round * 10 + 1, "bob")];
        log.append(&new, Timestamp(round * 10)).await.unwrap();
        let expected: Vec<Entry> = (1..=round)
            .rev()
            .flat_map(|n| [entry(n * 10 + 1, "bob"), entry(n * 10, "ada")])
            .collect();
        for limit in [1, 3, 100] {
            assert_eq!(all(&journal, 0, limit).await, expected, "{limit}");
        }
        assert_eq!(journal.sessions(None, 10).await.unwrap(), []);
        journal.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_full_log_loses_its_oldest_segment_and_keeps_its_places() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let mut log = Audit::new(&journal, SMALL);
    for n in 0..100 {
        log.append(&[entry(n, "ada")], Timestamp(n)).await.unwrap();
        let shown = all(&journal, 0, 5).await;
        let last: Vec<i64> = shown.iter().map(|entry| entry.time().0).collect();
        let first = n + 1 - last.len() as i64;
        assert_eq!(last, (first..=n).rev().collect::<Vec<_>>());
        // Seven full segments of three entries and the newest one are left.
        assert!(
            last.len() as i64 >= (n + 1).min(21) && last.len() <= 24,
            "{n}"
        );
    }
}

#[tokio::test]
async fn a_batch_that_is_larger_than_a_segment_fills_several() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let mut log = Audit::new(&journal, SMALL);
    let many: Vec<Entry> = (0..100).map(|n| entry(n, "ada")).collect();
    log.append(&many[..20], Timestamp(0)).await.unwrap();
    assert_eq!(all(&journal, 0, 100).await.len(), 20);
    log.append(&many[20..], Timestamp(0)).await.unwrap();
    let shown = all(&journal, 0, 100).await;
    assert!((21..=24).contains(&shown.len()), "{}", shown.len());
    assert_eq!(shown.first(), many.last());
}

#[tokio::test]
async fn old_entries_leave_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let disk = Disk::open(&path).unwrap().disk;
    let journal = Journal::new(Arc::new(disk));
    let mut log = Audit::new(&journal, RETENTION);
    for day in 0..100 {
        let at = day * DAY_MS;
        log.append(&[entry(at, &format!("name-{day:03}"))], Timestamp(at))
            .await
            .unwrap();
        log.sweep(Timestamp(at)).await.unwrap();
    }
    let now = Timestamp(99 * DAY_MS);
    let shown = all(&journal, RETENTION.oldest(now).0, 100).await;
    assert_eq!(shown.len(), 91);
    let stored = all(&journal, 0, 1_000).await.len();
    assert!((91..=91 + 13).contains(&stored), "{stored}");
    // Without a new entry, the last one goes as well.
    let later = Timestamp(now.0 + 91 * DAY_MS);
    assert!(log.sweep(later).await.unwrap() > 0);
    assert_eq!(all(&journal, 0, 100).await, []);
    log.append(&[entry(later.0, "new")], later).await.unwrap();
    assert_eq!(all(&journal, 0, 100).await.len(), 1);
    journal.engine().vacuum(None).await.unwrap();
    journal.close().await.unwrap();
    let mut files = vec![path];
    while let Some(file) = files.pop() {
        if file.is_dir() {
            let inside = std::fs::read_dir(file).unwrap();
            files.extend(inside.map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes.windows(7).any(|bytes| bytes == b"name-04");
        assert!(!found, "{}", file.display());
    }
}

#[tokio::test]
async fn two_writers_lose_nothing_of_each_other() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let retention = Retention {
        entries: 1_000,
        ..RETENTION
    };
    let mut logs = [0, 1].map(|_| Audit::new(&journal, retention));
    for n in 0..200 {
        let log = &mut logs[n as usize % 2];
        log.append(&[entry(n, "ada")], Timestamp(n)).await.unwrap();
    }
    assert_eq!(all(&journal, 0, 7).await.len(), 200);
}

#[tokio::test]
async fn a_writer_that_is_behind_appends_again_without_reading_the_log() {
    let engine = Arc::new(Counting::default());
    let journal = Journal::new(engine.clone());
    let mut logs = [0, 1].map(|_| Audit::new(&journal, RETENTION));
    for n in 0..100 {
        let log = &mut logs[n as usize % 2];
        log.append(&[entry(n, "ada")], Timestamp(n)).await.unwrap();
    }
    // Once at the first append of each, and once when the first segment began.
    assert_eq!(engine.looks.load(Ordering::SeqCst), 3);
    let times: Vec<i64> = all(&journal, 0, 7)
        .await
        .iter()
        .map(|entry| entry.time().0)
        .collect();
    assert_eq!(times, (0..100).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_writer_that_was_idle_appends_to_the_newest_segment() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let mut logs = [0, 1].map(|_| Audit::new(&journal, SMALL));
    let mut last = 0;
    // Meanwhile the segment became longer or full, or was deleted and begun again.
    for meanwhile in 0..40 {
        for log in std::iter::repeat_n(0, meanwhile).chain([1]) {
            last += 1;
            let new = [entry(last, "ada")];
            logs[log].append(&new, Timestamp(last)).await.unwrap();
        }
        let shown = all(&journal, 0, 7).await;
        let times: Vec<i64> = shown.iter().map(|entry| entry.time().0).collect();
        let first = last + 1 - times.len() as i64;
        assert_eq!(times, (first..=last).rev().collect::<Vec<_>>());
        assert!(times.len() as i64 >= last.min(21), "{meanwhile}");
    }
}

#[tokio::test]
async fn a_part_looks_at_so_many_entries_and_tells_where_it_stopped() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let mut log = Audit::new(&journal, RETENTION);
    log.append(&[entry(0, "rare")], Timestamp(0)).await.unwrap();
    let many: Vec<Entry> = (0..1_000).map(|n| entry(n, "ada")).collect();
    for _ in 0..20 {
        log.append(&many, Timestamp(1)).await.unwrap();
    }
    let rare = |entry: &Entry| matches!(entry, Entry::Action { action } if action.caller.as_deref() == Some("rare"));
    let first = read(&journal, None, Timestamp(0), 10, rare).await.unwrap();
    assert!(first.entries.is_empty() && first.next.is_some());
    let second = read(&journal, first.next, Timestamp(0), 10, rare);
    assert_eq!(second.await.unwrap().entries.len(), 1);
}

#[test]
fn the_bytes_of_entries_do_not_change() {
    let left_out = Entry::Omitted {
        at: Timestamp(1),
        count: 2,
        cause: Cause::Queue,
    };
    let began = Entry::Began {
        generation: 3,
        at: Timestamp(4),
    };
    for (entry, expected) in [
        (entry(5, "ada"), DONE),
        (left_out, LEFT_OUT),
        (began, BEGAN),
    ] {
        let bytes = record::encode_entry(&entry, journal_of(0), 2).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
        assert_eq!(decode(journal_of(0), 2, &bytes).unwrap(), entry);
    }
}

const DONE: &str = "7501010500000000000000010300000000000000616461000400000000000000504f53541c00\
    0000000000002f76312f73657373696f6e732f7b73657373696f6e7d2f7475726e73000100\
    000000000000070000000000000073657373696f6e04000000000000003031393201c8000000";
const LEFT_OUT: &str = "750102010000000000000002000000000000000100";
const BEGAN: &str = "7501000300000000000000040000000000000000";
