//! Writes the audit log in the background.
//!
//! ```text
//! request ─► record ─► bounded queue ─► one task ─► one append for all queued entries
//!                      full: counted
//! ```
//!
//! A request never waits for the log. The log counts omitted requests and records the count as an
//! entry. An entry is on disk at most 50 ms plus one write after the response to its request; in a
//! cluster 50 ms for each live member, up to a second.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use unisono_config::settings::Audit as AuditSettings;
use unisono_context::Timestamp;
use unisono_runtime::clock;
use unisono_store::audit::{Action, Audit, Cause, Entry, Retention};
use unisono_store::{Beat, Journal};

use crate::Local;

/// Maximum number of queued entries.
const QUEUE: usize = 4_096;
/// Maximum number of entries in one append.
const BATCH: usize = 1_024;
/// How long the writer collects entries for one append: alone, and at most.
const COLLECT_FOR: Duration = Duration::from_millis(50);
const COLLECT_AT_MOST: Duration = Duration::from_secs(1);
/// Delay before the retry of a failed append.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a reader waits for queued entries.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// A minute, and the number of minutes between two deletions of old entries.
const MINUTE: Duration = Duration::from_secs(60);
const SWEEP_EVERY: u64 = 60;
/// Maximum number of refused requests that are recorded per minute: per caller, and in all.
const REFUSALS_PER_CALLER: u64 = 60;
const REFUSALS: u64 = 600;

/// The log of a [`Local`]. It records nothing before [`Local::begin_audit`].
#[derive(Debug, Default)]
pub struct AuditLog {
    writer: Mutex<Option<Writer>>,
}

#[derive(Debug)]
struct Writer {
    orders: mpsc::Sender<Order>,
    task: JoinHandle<()>,
    omitted: Arc<Omitted>,
    is_enabled: bool,
}

#[derive(Debug)]
enum Order {
    Write(Action),
    /// Responds when all earlier entries are on disk.
    Flush(oneshot::Sender<()>),
}

/// The counts of requests that were not recorded.
#[derive(Debug, Default)]
struct Omitted {
    /// Requests that found the queue full.
    queue: AtomicU64,
    refusals: Mutex<Refusals>,
}

/// The refused requests of the current minute.
#[derive(Debug, Default)]
struct Refusals {
    began: Option<Instant>,
    by_name: HashMap<Option<Arc<str>>, u64>,
    all: u64,
    omitted: u64,
}

impl Refusals {
    /// Whether to record a refused request; counts it otherwise.
    fn take(&mut self, caller: Option<&Arc<str>>, now: Instant) -> bool {
        if self
            .began
            .is_none_or(|began| now.duration_since(began) >= MINUTE)
        {
            self.began = Some(now);
            self.by_name.clear();
            self.all = 0;
        }
        // The number of recorded requests bounds the number of names.
        let of_caller = self
            .by_name
            .get(&caller.cloned())
            .copied()
            .unwrap_or_default();
        let is_recorded = self.all < REFUSALS && of_caller < REFUSALS_PER_CALLER;
        if is_recorded {
            self.all += 1;
            self.by_name.insert(caller.cloned(), of_caller + 1);
        } else {
            self.omitted += 1;
        }
        is_recorded
    }
}

impl Omitted {
    fn refusals(&self) -> std::sync::MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the counts since the last call, as entries.
    fn entries(&self, at: Timestamp) -> Vec<Entry> {
        let refused = std::mem::take(&mut self.refusals().omitted);
        let full = self.queue.swap(0, Ordering::Relaxed);
        let counts = [(refused, Cause::Refusals), (full, Cause::Queue)];
        let each = counts.into_iter().filter(|(count, _)| *count > 0);
        each.map(|(count, cause)| Entry::Omitted { at, count, cause })
            .collect()
    }
}

impl AuditLog {
    fn writer(&self) -> std::sync::MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request, without waiting.
    pub fn record(&self, action: Action) {
        let writer = self.writer();
        let Some(writer) = writer.as_ref().filter(|writer| writer.is_enabled) else {
            return;
        };
        let is_refused = matches!(action.status, Some(401 | 403 | 429));
        let mut is_recorded = true;
        if is_refused {
            let mut refusals = writer.omitted.refusals();
            is_recorded = refusals.take(action.caller.as_ref(), Instant::now());
        }
        if is_recorded && writer.orders.try_send(Order::Write(action)).is_err() {
            writer.omitted.queue.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all recorded requests are on disk, for a few seconds at most.
    pub async fn flush(&self) {
        let Some(orders) = self.writer().as_ref().map(|writer| writer.orders.clone()) else {
            return;
        };
        let (action, flushed) = oneshot::channel();
        let flushing = async {
            if orders.send(Order::Flush(action)).await.is_ok() {
                // The writer has ended, so there is nothing to wait for.
                let _ = flushed.await;
            }
        };
        if tokio::time::timeout(FLUSH_TIMEOUT, flushing).await.is_err() {
            tracing::warn!("the newest entries of the audit log are not on disk yet");
        }
    }

    /// Writes the queued entries and ends.
    pub(crate) async fn close(&self) {
        let writer = self.writer().take();
        let Some(Writer { orders, task, .. }) = writer else {
            return;
        };
        drop(orders);
        if let Err(error) = task.await {
            tracing::error!(%error, "the newest entries of the audit log are lost");
        }
    }
}

/// The entries that these settings keep.
pub(crate) fn retention(settings: &AuditSettings) -> Retention {
    Retention {
        days: settings.keep_days,
        entries: settings.max_entries,
    }
}

impl Local {
    /// Starts to write the audit log by the settings, and to delete old entries.
    pub fn begin_audit(&self) {
        let settings = self.setup().loaded.config.audit.clone();
        let retention = retention(&settings);
        let (orders, queue) = mpsc::channel(QUEUE);
        let omitted = Arc::new(Omitted::default());
        let journal = self.whole_journal();
        let log = Audit::new(&journal, retention);
        let task = tokio::spawn(write(log, queue, omitted.clone(), journal));
        *self.shared.audit.writer() = Some(Writer {
            orders,
            task,
            omitted,
            is_enabled: settings.enabled,
        });
    }

    /// The audit log.
    pub fn audit_log(&self) -> &AuditLog {
        &self.shared.audit
    }
}

/// Writes queued entries in batches.
async fn write(
    mut log: Audit,
    mut orders: mpsc::Receiver<Order>,
    omitted: Arc<Omitted>,
    journal: Journal,
) {
    let beats = journal.cluster().map(|cluster| cluster.beats());
    let mut minutes = tokio::time::interval(MINUTE);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for minute in 0u64.. {
        loop {
            let first = tokio::select! {
                first = orders.recv() => first,
                _ = minutes.tick() => break,
            };
            let is_last = first.is_none();
            let (mut entries, waiters) =
                collect(first, &mut orders, collect_for(beats.as_ref())).await;
            entries.extend(omitted.entries(clock::now()));
            append(&mut log, &entries, &orders).await;
            for flushed in waiters {
                // The reader may have stopped waiting.
                let _ = flushed.send(());
            }
            if is_last {
                return;
            }
        }
        append(&mut log, &omitted.entries(clock::now()), &orders).await;
        if minute % SWEEP_EVERY == 0
            && let Err(error) = log.sweep(clock::store_now(&journal)).await
        {
            tracing::warn!(%error, "old entries of the audit log cannot be deleted now; the next hour deletes them");
        }
    }
}

/// How long entries are collected. The members of a cluster append to the same journal, and each append
/// makes those of the others at the same time fail once: all members together append as often as one.
fn collect_for(beats: Option<&watch::Receiver<Beat>>) -> Duration {
    let alive = beats.map_or(1, |beats| beats.borrow().alive.max(1));
    let alive = u32::try_from(alive).unwrap_or(u32::MAX);
    COLLECT_FOR.saturating_mul(alive).min(COLLECT_AT_MOST)
}

/// Collects the orders of a short period: their entries, and the waiting readers.
async fn collect(
    first: Option<Order>,
    orders: &mut mpsc::Receiver<Order>,
    period: Duration,
) -> (Vec<Entry>, Vec<oneshot::Sender<()>>) {
    if matches!(first, Some(Order::Write(_))) && !orders.is_closed() {
        tokio::time::sleep(period).await;
    }
    let (mut entries, mut waiters) = (Vec::new(), Vec::new());
    let mut next = first;
    while let Some(order) = next {
        match order {
            Order::Write(action) => entries.push(Entry::Action { action }),
            Order::Flush(flushed) => waiters.push(flushed),
        }
        if entries.len() + waiters.len() == BATCH {
            break;
        }
        next = orders.try_recv().ok();
    }
    (entries, waiters)
}

/// Appends entries, with retries until the program stops.
async fn append(log: &mut Audit, entries: &[Entry], orders: &mpsc::Receiver<Order>) {
    let mut is_logged = false;
    while !entries.is_empty() {
        let Err(error) = log.append(entries, clock::now()).await else {
            return;
        };
        if orders.is_closed() {
            let count = entries.len();
            tracing::error!(%error, count, "entries of the audit log are lost");
            return;
        }
        if !is_logged {
            tracing::warn!(%error, "the audit log cannot be written now; it retries every second");
            is_logged = true;
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_of_a_cluster_together_append_as_often_as_one() {
        let (beats, seen) = watch::channel(Beat::default());
        assert_eq!(collect_for(None), COLLECT_FOR);
        for (alive, expected_ms) in [(0, 50), (1, 50), (2, 100), (3, 150), (99, 1_000)] {
            beats.send_replace(Beat {
                alive,
                ..Beat::default()
            });
            assert_eq!(collect_for(Some(&seen)).as_millis(), expected_ms);
        }
    }

    #[test]
    fn refusals_of_one_caller_do_not_hide_those_of_another() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let ada: Arc<str> = "ada".into();
        let taken = |refusals: &mut Refusals, caller, at| {
            (0..1_000).filter(|_| refusals.take(caller, at)).count() as u64
        };
        assert_eq!(taken(&mut refusals, None, now), REFUSALS_PER_CALLER);
        assert_eq!(taken(&mut refusals, Some(&ada), now), REFUSALS_PER_CALLER);
        assert_eq!(refusals.omitted, 2 * (1_000 - REFUSALS_PER_CALLER));
        assert_eq!(
            taken(&mut refusals, None, now + MINUTE),
            REFUSALS_PER_CALLER
        );
        for n in 0..1_000 {
            refusals.take(Some(&n.to_string().into()), now + MINUTE);
        }
        assert_eq!(
            (refusals.all, refusals.by_name.len() as u64 <= REFUSALS),
            (REFUSALS, true)
        );
    }
}
