//! Keeps sled's cache at its size limit.
//!
//! sled 0.34 counts the cached pages in 256 shards, by page number, and a shard checks its size
//! only after 64 accesses. A page of blocks is large (up to 512 KiB) and is accessed a few times,
//! so most shards never check: hundreds of megabytes stay in memory, whatever capacity is set. The
//! sweep makes every shard check: it reads small pages, some of each shard, 64 times. They are in
//! sled's default tree, which the store does not use otherwise, and are written once a store is
//! large enough to need them.
//!
//! sled frees an evicted or replaced page when no thread can be reading it any more, but only in the
//! course of later accesses: each thread collects 64 such objects before others may free them. So a
//! sweep goes on after the evictions, another one follows when the threads of readers have ended, and
//! the writer's thread hands over its own objects when it has nothing to do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::disk::log::{Log, guarded};
use crate::disk::trees::Trees;
use crate::error::{Error, Fault, Result};

/// Size of sled's page cache after a sweep.
pub(super) const CAPACITY_BYTES: u64 = 12 << 20;
/// After this many bytes were read and written, a sweep is done after [`PAUSE`].
const SWEEP_BYTES: u64 = 8 << 20;
/// Pause before a sweep, so that sweeps take little time from a busy store.
const PAUSE: Duration = Duration::from_secs(2);
/// After this many bytes, a sweep is done after [`LONG_PAUSE`]: a page that is read for one block is
/// up to 16 times as large.
const FEW_BYTES: u64 = 512 << 10;
/// Pause before a sweep for few bytes, and after one for many. An idle thread of a reader ends in ten
/// seconds.
const LONG_PAUSE: Duration = Duration::from_secs(12);
/// After this many bytes were read and written, the sweep does not wait.
const MANY_BYTES: u64 = 128 << 20;
/// Number of keys. A page has at most 16 keys, so they fill 288 pages with successive numbers, more
/// than there are shards.
const KEYS: u16 = 288 * 16;
/// Size of these keys in a batch.
pub(super) const PAGES_BYTES: usize = 64 * KEYS as usize;
/// Distance of the keys that are read. A page has at least 8 keys, so each page is read twice in a
/// round.
const STEP: usize = 4;
/// Number of rounds. Two reads of a page in each round are the 64 accesses after which a shard
/// checks, in two thirds of the rounds; the others free what was evicted.
const ROUNDS: usize = 48;
/// Number of reads after which a thread has handed over the objects that it collects: each 64 accesses
/// of a page add one, which is 64 times 64, and then a few more until they can be freed.
const HAND_OVER_READS: usize = 80 * 64;

/// Counts the bytes read from and written to a log since sled's cache was last swept.
#[derive(Debug, Default)]
pub(super) struct Cache {
    unswept: AtomicU64,
    /// Whether the small pages exist.
    primed: AtomicBool,
    closing: AtomicBool,
    sweeper: OnceLock<Thread>,
}

impl Cache {
    /// Counts bytes that were read or written.
    pub(super) fn count(&self, bytes: usize) {
        let bytes = bytes as u64;
        let before = self.unswept.fetch_add(bytes, Ordering::Relaxed);
        let passes = |mark| before < mark && before + bytes >= mark;
        if passes(FEW_BYTES) || passes(SWEEP_BYTES) || passes(MANY_BYTES) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(sweeper) = self.sweeper.get() {
            sweeper.unpark();
        }
    }

    /// Whether the small pages are missing and the store is large enough for them.
    pub(super) fn needs_pages(&self) -> bool {
        !self.primed.load(Ordering::Relaxed) && self.unswept.load(Ordering::Relaxed) >= SWEEP_BYTES
    }

    /// Writes the small pages, if they are missing. They need not be durable, and are not before a
    /// flush.
    pub(super) fn write_pages(&self, log: &Log) -> sled::Result<()> {
        if !log.db.contains_key(key(KEYS - 1))? {
            let mut pages = sled::Batch::default();
            (0..KEYS).for_each(|number| pages.insert(&key(number), &[]));
            log.db.apply_batch(pages)?;
        }
        self.primed.store(true, Ordering::Relaxed);
        self.wake();
        Ok(())
    }
}

const fn key(number: u16) -> [u8; 2] {
    number.to_be_bytes()
}

/// The thread that sweeps. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Sweeper {
    trees: Arc<Trees>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    pub(super) fn start(trees: Arc<Trees>) -> Result<Self> {
        let (swept, root) = (Arc::clone(&trees), trees.root.clone());
        let thread = std::thread::Builder::new().name("store-cache".into());
        let thread = thread
            .spawn(move || run(&swept))
            .map_err(|error| Error::io("start the cache thread of", &root, error))?;
        if let Ok(log) = trees.log() {
            log.cache.sweeper.get_or_init(|| thread.thread().clone());
        }
        // Bytes may have been counted before the thread was stored.
        thread.thread().unpark();
        Ok(Self {
            trees,
            thread: Some(thread),
        })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Ok(log) = self.trees.log() {
            log.cache.closing.store(true, Ordering::Relaxed);
        }
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::warn!("the cache thread of the store panicked");
            }
        }
    }
}

fn run(trees: &Trees) {
    let Ok(log) = trees.log() else { return };
    let cache = &log.cache;
    // Of an earlier process: nothing may be written to the store in this one.
    if guarded(|| log.db.contains_key(key(KEYS - 1))).is_ok_and(|there| there) {
        cache.primed.store(true, Ordering::Relaxed);
    }
    let mut since = None;
    while !cache.closing.load(Ordering::Relaxed) {
        let unswept = cache.unswept.load(Ordering::Relaxed);
        let pause = pause_after(unswept).filter(|_| cache.primed.load(Ordering::Relaxed));
        let Some(pause) = pause else {
            std::thread::park();
            continue;
        };
        let left = pause.saturating_sub(since.get_or_insert_with(Instant::now).elapsed());
        if !left.is_zero() {
            std::thread::park_timeout(left);
            continue;
        }
        since = None;
        // After many bytes another sweep follows.
        let rest = if unswept >= SWEEP_BYTES { FEW_BYTES } else { 0 };
        cache.unswept.fetch_sub(unswept - rest, Ordering::Relaxed);
        if let Err(fault) = sweep(log) {
            tracing::warn!(%fault, "the store's cache is not swept any more");
            return;
        }
    }
}

/// The pause before a sweep after this many bytes; `None` without a sweep.
fn pause_after(unswept: u64) -> Option<Duration> {
    match unswept {
        _ if unswept >= MANY_BYTES => Some(Duration::ZERO),
        _ if unswept >= SWEEP_BYTES => Some(PAUSE),
        _ if unswept >= FEW_BYTES => Some(LONG_PAUSE),
        _ => None,
    }
}

/// Hands over the objects that this thread collects, so that sled frees them.
pub(super) fn hand_over(log: &Log) -> Result<(), Fault> {
    for _ in 0..HAND_OVER_READS {
        guarded(|| log.db.contains_key(key(0)))?;
    }
    Ok(())
}

/// Makes every shard of sled's cache check its size.
fn sweep(log: &Log) -> Result<(), Fault> {
    for _ in 0..ROUNDS {
        if log.cache.closing.load(Ordering::Relaxed) {
            return Ok(());
        }
        for number in (0..KEYS).step_by(STEP) {
            guarded(|| log.db.contains_key(key(number)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_before_a_sweep_is_shorter_after_more_bytes() {
        for (unswept, expected) in [
            (0, None),
            (FEW_BYTES - 1, None),
            (FEW_BYTES, Some(LONG_PAUSE)),
            (SWEEP_BYTES - 1, Some(LONG_PAUSE)),
            (SWEEP_BYTES, Some(PAUSE)),
            (MANY_BYTES - 1, Some(PAUSE)),
            (MANY_BYTES, Some(Duration::ZERO)),
        ] {
            assert_eq!(pause_after(unswept), expected, "{unswept}");
        }
    }
}
