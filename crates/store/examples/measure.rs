//! Measures the disk engine: appends against a raw file, and the opening of a large store.
//!
//! `cargo run --release -p unisono-store --example measure -- append [seconds]`
//! `cargo run --release -p unisono-store --example measure -- fill <dir>` and then `-- open <dir>`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints, and ends where it cannot go on"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use unisono_store::{Append, Disk, Engine, SessionId};

const WRITERS: u128 = 64;
const EVENT_BYTES: usize = 1024;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["append"] => append(Duration::from_secs(5)).await,
        ["append", seconds] => append(Duration::from_secs(seconds.parse().unwrap())).await,
        ["fill", dir] => fill(Path::new(dir)).await,
        ["open", dir] => open(Path::new(dir)),
        _ => println!("append [seconds] | fill <dir> | open <dir>"),
    }
}

/// Latencies of one side.
struct Side {
    name: &'static str,
    latencies: Vec<Duration>,
    elapsed: Duration,
}

impl Side {
    fn report(&mut self) -> f64 {
        self.latencies.sort_unstable();
        let at = |part: f64| self.latencies[(self.latencies.len() as f64 * part) as usize];
        let rate = self.latencies.len() as f64 / self.elapsed.as_secs_f64();
        println!(
            "{}: {rate:.0}/s, p50 {:?}, p99 {:?}",
            self.name,
            at(0.5),
            at(0.99)
        );
        rate
    }
}

/// Runs both sides in turns, so that a change of the machine's mood meets both.
async fn append(each: Duration) {
    let dir = tempfile::tempdir_in(".").unwrap();
    for round in 0..3 {
        let mut raw = raw_side(&dir.path().join(format!("raw-{round}")), each).await;
        let mut store = store_side(&dir.path().join(format!("store-{round}")), each).await;
        let (raw_rate, store_rate) = (raw.report(), store.report());
        println!("ratio {:.2}", store_rate / raw_rate);
    }
}

async fn store_side(dir: &Path, each: Duration) -> Side {
    let disk = Arc::new(Disk::open(dir).unwrap().disk);
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let disk = Arc::clone(&disk);
            tokio::spawn(async move {
                let session = SessionId::from_u128(n);
                let epoch = disk.claim(session).await.unwrap().epoch;
                let (mut seq, mut latencies) = (0, Vec::new());
                while start.elapsed() < each {
                    let payloads = vec![vec![n as u8; EVENT_BYTES]];
                    let sent = Instant::now();
                    seq = disk
                        .append(Append {
                            session,
                            epoch,
                            expected_seq: seq,
                            payloads,
                        })
                        .await
                        .unwrap();
                    latencies.push(sent.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for writer in writers {
        latencies.extend(writer.await.unwrap());
    }
    Side {
        name: "store",
        latencies,
        elapsed: start.elapsed(),
    }
}

/// A preallocated file with the same group commit.
async fn raw_side(path: &Path, each: Duration) -> Side {
    let file = File::create(path).unwrap();
    let block = vec![0; 1 << 20];
    let room = 1 << 30;
    for at in (0..room).step_by(block.len()) {
        file.write_all_at(&block, at).unwrap();
    }
    file.sync_all().unwrap();
    let (sender, mut queue) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>(1024);
    let thread = std::thread::spawn(move || {
        let mut at = 0;
        while let Some((bytes, reply)) = queue.blocking_recv() {
            let (mut group, mut replies) = (bytes, vec![reply]);
            while let Ok((bytes, reply)) = queue.try_recv() {
                group.extend(bytes);
                replies.push(reply);
            }
            file.write_all_at(&group, at % (room - (1 << 20))).unwrap();
            at += group.len() as u64;
            file.sync_data().unwrap();
            replies
                .into_iter()
                .for_each(|reply| reply.send(()).unwrap_or_default());
        }
    });
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while start.elapsed() < each {
                    let (reply, answer) = oneshot::channel();
                    let sent = Instant::now();
                    sender
                        .send((vec![n as u8; EVENT_BYTES], reply))
                        .await
                        .unwrap();
                    answer.await.unwrap();
                    latencies.push(sent.elapsed());
                }
                latencies
            })
        })
        .collect();
    drop(sender);
    let mut latencies = Vec::new();
    for writer in writers {
        latencies.extend(writer.await.unwrap());
    }
    let elapsed = start.elapsed();
    thread.join().unwrap();
    std::fs::remove_file(path).unwrap();
    Side {
        name: "raw",
        latencies,
        elapsed,
    }
}

/// 100,000 events of 1 KiB in 1,000 sessions.
async fn fill(dir: &Path) {
    let disk = Arc::new(Disk::open(dir).unwrap().disk);
    let mut claims = Vec::new();
    for n in 0..1000 {
        claims.push(disk.claim(SessionId::from_u128(n)));
    }
    let start = Instant::now();
    let mut epochs = Vec::new();
    for claim in claims {
        epochs.push(claim.await.unwrap().epoch);
    }
    for seq in 0..100 {
        let mut group = Vec::new();
        for (n, &epoch) in epochs.iter().enumerate() {
            let disk = Arc::clone(&disk);
            let session = SessionId::from_u128(n as u128);
            let payloads = vec![vec![n as u8; EVENT_BYTES]];
            group.push(tokio::spawn(async move {
                disk.append(Append {
                    session,
                    epoch,
                    expected_seq: seq,
                    payloads,
                })
                .await
                .unwrap()
            }));
        }
        for append in group {
            append.await.unwrap();
        }
    }
    println!("filled in {:?}", start.elapsed());
    disk.close().await.unwrap();
}

fn open(dir: &Path) {
    for _ in 0..2 {
        let start = Instant::now();
        let opened = Disk::open(dir).unwrap();
        println!(
            "opened in {:?}, salvage {:?}",
            start.elapsed(),
            opened.salvage
        );
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        status
            .lines()
            .filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS"))
            .for_each(|line| println!("{line}"));
    }
}
