//! Measures the disk engine: appends against a raw file, and the opening of a large store.
//!
//! `cargo run --release -p unisono-store --example measure -- append [slices]`
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
use unisono_store::{Append, Claim, Disk, Engine, SessionId};

const WRITERS: u128 = 64;
const EVENT_BYTES: usize = 1024;
const SLICE: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["append"] => append(40).await,
        ["append", slices] => append(slices.parse().unwrap()).await,
        ["fill", dir] => fill(Path::new(dir)).await,
        ["open", dir] => open(Path::new(dir)),
        _ => println!("append [slices] | fill <dir> | open <dir>"),
    }
}

/// Appends to both sides in turns, in short slices, so that a change of the machine's mood meets both.
async fn append(slices: u32) {
    let dir = tempfile::tempdir_in(".").unwrap();
    let file = raw_file(&dir.path().join("raw"));
    let disk = Arc::new(Disk::open(dir.path().join("store")).unwrap().disk);
    let mut raw = Side::new(
        "raw",
        (0..WRITERS).map(|_| RawWriter(file.clone())).collect(),
    );
    let mut writers = Vec::new();
    for n in 0..WRITERS {
        let session = SessionId::from_u128(n);
        let Claim { epoch, last_seq } = disk.claim(session).await.unwrap();
        let disk = Arc::clone(&disk);
        writers.push(StoreWriter {
            disk,
            session,
            epoch,
            last_seq,
        });
    }
    let mut store = Side::new("store", writers);
    let mut ratios = Vec::new();
    for _ in 0..slices {
        let (raw, store) = (raw.slice().await, store.slice().await);
        ratios.push(store / raw);
    }
    ratios.sort_by(f64::total_cmp);
    let ((raw_rate, raw_p99), (rate, p99)) = (raw.report(), store.report());
    println!(
        "throughput {:.2} of raw (median of slices {:.2}), p99 {:.2} of raw",
        rate / raw_rate,
        ratios[ratios.len() / 2],
        p99.as_secs_f64() / raw_p99.as_secs_f64()
    );
}

/// What appends one event and waits until it is on disk.
trait Writer: Send + 'static {
    fn write(&mut self) -> impl Future<Output = ()> + Send;
}

struct Side<W> {
    name: &'static str,
    writers: Vec<W>,
    latencies: Vec<Duration>,
    elapsed: Duration,
    cpu: Duration,
}

impl<W: Writer> Side<W> {
    fn new(name: &'static str, writers: Vec<W>) -> Self {
        Self {
            name,
            writers,
            latencies: Vec::new(),
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }

    /// Lets all writers write for a while; gives the events per second.
    async fn slice(&mut self) -> f64 {
        let (start, cpu, before) = (Instant::now(), cpu_time(), self.latencies.len());
        let writing: Vec<_> = self
            .writers
            .drain(..)
            .map(|mut writer| {
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    while start.elapsed() < SLICE {
                        let sent = Instant::now();
                        writer.write().await;
                        latencies.push(sent.elapsed());
                    }
                    (writer, latencies)
                })
            })
            .collect();
        for writer in writing {
            let (writer, latencies) = writer.await.unwrap();
            self.writers.push(writer);
            self.latencies.extend(latencies);
        }
        let elapsed = start.elapsed();
        self.elapsed += elapsed;
        self.cpu += cpu_time() - cpu;
        (self.latencies.len() - before) as f64 / elapsed.as_secs_f64()
    }

    /// Prints and gives the events per second and the 99th percentile.
    fn report(&mut self) -> (f64, Duration) {
        self.latencies.sort_unstable();
        let events = self.latencies.len();
        let at = |part: f64| self.latencies[(events as f64 * part) as usize];
        let rate = events as f64 / self.elapsed.as_secs_f64();
        let cpu = self.cpu.as_secs_f64() * 1e6 / events as f64;
        let (name, p50, p99) = (self.name, at(0.5), at(0.99));
        println!("{name}: {rate:.0}/s, p50 {p50:.0?}, p99 {p99:.0?}, {cpu:.1} us of CPU per event");
        (rate, p99)
    }
}

/// The processor time of this process so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2);
    // Linux counts in hundredths of a second for all it tells a program.
    Duration::from_millis(ticks.map(|field| field.parse::<u64>().unwrap() * 10).sum())
}

struct StoreWriter {
    disk: Arc<Disk>,
    session: SessionId,
    epoch: u64,
    last_seq: u64,
}

impl Writer for StoreWriter {
    async fn write(&mut self) {
        let append = Append {
            session: self.session,
            epoch: self.epoch,
            expected_seq: self.last_seq,
            payloads: vec![vec![7; EVENT_BYTES]],
        };
        self.last_seq = self.disk.append(append).await.unwrap();
    }
}

struct RawWriter(mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)>);

impl Writer for RawWriter {
    async fn write(&mut self) {
        let (reply, answer) = oneshot::channel();
        self.0.send((vec![7; EVENT_BYTES], reply)).await.unwrap();
        answer.await.unwrap();
    }
}

/// A preallocated file behind the same group commit.
fn raw_file(path: &Path) -> mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)> {
    let file = File::create(path).unwrap();
    let block = vec![0; 1 << 20];
    let room = 1 << 30;
    for at in (0..room).step_by(block.len()) {
        file.write_all_at(&block, at).unwrap();
    }
    file.sync_all().unwrap();
    let (sender, mut queue) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>(1024);
    std::thread::spawn(move || {
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
    sender
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
                disk.append(Append::new(session, epoch, seq, payloads))
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
