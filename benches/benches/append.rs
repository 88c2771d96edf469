//! Durable appends of 64 sessions at once, against a preallocated file with the same group commit.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use unisono_benches::appending::{EVENT_BYTES, Session, Side, Writer};
use unisono_benches::{Table, bytes, time};
use unisono_store::{Disk, Engine};

const WRITERS: u128 = 64;
/// How long each side works before it is the other's turn.
const SLICE: Duration = Duration::from_millis(500);
const SLICES: usize = 12;
const RAW_BYTES: u64 = 256 << 20;

/// One writer to the raw file.
struct Raw(mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)>);

impl Writer for Raw {
    async fn append(&mut self) {
        let (reply, answer) = oneshot::channel();
        self.0.send((vec![7; EVENT_BYTES], reply)).await.unwrap();
        answer.await.unwrap();
    }
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = dir.path().join("store");
    let disk: Arc<dyn Engine> = Arc::new(Disk::open(&store).unwrap().disk);
    let mut sessions = Session::claim(&disk, WRITERS).await;
    let queue = raw_file(&dir.path().join("raw"));
    let mut raws: Vec<Raw> = (0..WRITERS).map(|_| Raw(queue.clone())).collect();
    drop(queue);
    // Not counted: the first slice of each grows files and threads.
    raws = Side::default().work(SLICE, raws).await;
    sessions = Side::default().work(SLICE, sessions).await;
    let (mut raw, mut durable) = (Side::default(), Side::default());
    for _ in 0..SLICES {
        raws = raw.work(SLICE, raws).await;
        sessions = durable.work(SLICE, sessions).await;
    }
    let events: u64 = sessions.iter().map(|session| session.last).sum();
    drop(sessions);
    disk.close().await.unwrap();
    report(&raw, &durable, size(&store) / events as f64);
}

fn report(raw: &Side, durable: &Side, on_disk: f64) {
    let table = Table::new(
        "append",
        &format!(
            "{WRITERS} sessions append events of {EVENT_BYTES} bytes one after the other, each waiting \
             for the disk; {SLICES} slices of {} for each side, in turns.",
            time(SLICE)
        ),
    );
    table.note(
        "preallocated file, group commit, fdatasync",
        &raw.shown(),
        None,
    );
    table.note("store", &durable.shown(), None);
    let ratio = durable.rate() / raw.rate();
    table.row(
        "throughput, store against file",
        "≥ 0.35 ×",
        "",
        Some(ratio),
        ratio >= 0.35,
    );
    let mut by_slice: Vec<f64> = durable
        .rates
        .iter()
        .zip(&raw.rates)
        .map(|(durable, raw)| durable / raw)
        .collect();
    by_slice.sort_by(f64::total_cmp);
    let spread = format!(
        "{:.2} to {:.2}",
        by_slice.first().unwrap(),
        by_slice.last().unwrap()
    );
    table.note(
        "the same, slice by slice",
        &spread,
        by_slice.get(SLICES / 2).copied(),
    );
    let (ours, theirs) = (durable.latencies.at(0.99), raw.latencies.at(0.99));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    table.row(
        "p99, store against file",
        "≤ 5 ×",
        &time(ours),
        Some(ratio),
        ratio <= 5.0,
    );
    table.note(
        "on disk per event",
        &bytes(on_disk),
        Some(on_disk / EVENT_BYTES as f64),
    );
}

/// A file that is on disk already, and the thread that writes to it: all that is queued, one
/// sync, then the answers.
fn raw_file(path: &Path) -> mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)> {
    let file = File::create(path).unwrap();
    let block = vec![0; 1 << 20];
    for at in (0..RAW_BYTES).step_by(block.len()) {
        file.write_all_at(&block, at).unwrap();
    }
    file.sync_all().unwrap();
    let (sender, mut queue) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>(1024);
    std::thread::spawn(move || {
        let mut at = 0;
        while let Some((first, reply)) = queue.blocking_recv() {
            let (mut group, mut replies) = (first, vec![reply]);
            while let Ok((bytes, reply)) = queue.try_recv() {
                group.extend(bytes);
                replies.push(reply);
            }
            file.write_all_at(&group, at % (RAW_BYTES - (1 << 20)))
                .unwrap();
            at += group.len() as u64;
            file.sync_data().unwrap();
            for reply in replies {
                reply.send(()).unwrap();
            }
        }
    });
    sender
}

/// Bytes of all files below a directory.
fn size(dir: &Path) -> f64 {
    let entries = std::fs::read_dir(dir).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                size(&entry.path())
            } else {
                meta.len() as f64
            }
        })
        .sum()
}
