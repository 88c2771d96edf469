//! Tests of how much memory a store needs.

use std::process::Command;
use std::time::{Duration, Instant};

use unisono_store::{Append, Disk, Engine, SessionId};

const ASKED: &str = "UNISONO_TEST_MEMORY";
const EVENT_BYTES: usize = 256 << 10;
const EVENTS: u64 = 768;
const AT_ONCE: u64 = 16;
/// Half of the written data. Without sweeps nearly all of it stays in memory.
const MAX_BYTES: u64 = EVENTS * EVENT_BYTES as u64 / 2;

/// The resident memory of a separate process falls again although every page was in use once.
#[test]
fn the_cache_gives_back_what_is_over_its_bound() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["memory::inside", "--exact", "--nocapture"]);
    // Freed memory is returned to the system at once, so that only the store is measured.
    child.env("MALLOC_MMAP_THRESHOLD_", "16384");
    let done = child.env(ASKED, "yes").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && said.contains("fell back"),
        "{said}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// The code of the child. Does nothing unless the parent started it.
#[tokio::test(flavor = "multi_thread")]
async fn inside() {
    if std::env::var_os(ASKED).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path().join("store")).unwrap().disk;
    let session = SessionId::from_u128(1);
    let claim = disk.claim(session).await.unwrap();
    for seq in (0..EVENTS).step_by(AT_ONCE as usize) {
        let payloads = (seq..seq + AT_ONCE).map(incompressible).collect();
        let append = Append::new(session, claim.epoch, seq, payloads);
        disk.append(append).await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while resident() > MAX_BYTES {
        let bytes = resident();
        assert!(Instant::now() < deadline, "{bytes} bytes are still held");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let events = disk.read(session, 1, 3).await.unwrap();
    assert_eq!(events[2].payload, incompressible(2));
    println!("fell back");
}

fn incompressible(seq: u64) -> Vec<u8> {
    let mut bytes = vec![0; EVENT_BYTES];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seq.to_be_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    kib * 1024
}
