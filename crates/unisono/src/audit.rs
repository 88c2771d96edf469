//! Writes the audit log beside requests.
//!
//! ```text
//! request ─► record ─► bounded queue ─► one task ─► one append for all that came meanwhile
//!                      full: counted
//! ```
//!
//! A request never waits for the log. What is left out is counted, and the number is an entry. An entry
//! is on disk 50 ms and one write after its request was answered, at most.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use unisono_context::Timestamp;
use unisono_runtime::clock;
use unisono_store::audit::{Audit, Cause, Done, Entry, Kept};

use crate::Local;

/// Entries that wait to be written, at most.
const QUEUE: usize = 4_096;
/// Entries of one append, at most.
const BATCH: usize = 1_024;
/// How long entries are gathered for one append.
const GATHERED_FOR: Duration = Duration::from_millis(50);
/// How long to wait before an append that failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long a reader waits for the entries that are not written yet.
const FLUSHED_WITHIN: Duration = Duration::from_secs(5);
/// A minute, and how many of them are between two looks for old entries.
const MINUTE: Duration = Duration::from_secs(60);
const SWEEP_EVERY: u64 = 60;
/// Refused requests that are recorded in a minute: of one name, or of nobody known; and of all.
const REFUSALS_OF_ONE: u64 = 60;
const REFUSALS: u64 = 600;

/// The log of a [`Local`]; nothing is recorded before [`Local::begin_audit`].
#[derive(Debug, Default)]
pub struct AuditLog {
    writer: Mutex<Option<Writer>>,
}

#[derive(Debug)]
struct Writer {
    orders: mpsc::Sender<Order>,
    task: JoinHandle<()>,
    left_out: Arc<LeftOut>,
    is_enabled: bool,
}

#[derive(Debug)]
enum Order {
    Write(Done),
    /// Answers when all before it is on disk.
    Flush(oneshot::Sender<()>),
}

/// What was not recorded.
#[derive(Debug, Default)]
struct LeftOut {
    /// Because the queue was full.
    queue: AtomicU64,
    refusals: Mutex<Refusals>,
}

/// The refused requests of the current minute.
#[derive(Debug, Default)]
struct Refusals {
    began: Option<Instant>,
    by_name: HashMap<Option<Arc<str>>, u64>,
    all: u64,
    left_out: u64,
}

impl Refusals {
    /// Whether a refused request is recorded; it is counted if not.
    fn take(&mut self, who: Option<&Arc<str>>, now: Instant) -> bool {
        if self
            .began
            .is_none_or(|began| now.duration_since(began) >= MINUTE)
        {
            self.began = Some(now);
            self.by_name.clear();
            self.all = 0;
        }
        // The names are bounded by the number of all that are recorded.
        let of_one = self.by_name.get(&who.cloned()).copied().unwrap_or_default();
        let is_taken = self.all < REFUSALS && of_one < REFUSALS_OF_ONE;
        if is_taken {
            self.all += 1;
            self.by_name.insert(who.cloned(), of_one + 1);
        } else {
            self.left_out += 1;
        }
        is_taken
    }
}

impl LeftOut {
    fn refusals(&self) -> std::sync::MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was left out since the last time, as entries.
    fn entries(&self, at: Timestamp) -> Vec<Entry> {
        let refused = std::mem::take(&mut self.refusals().left_out);
        let full = self.queue.swap(0, Ordering::Relaxed);
        let counts = [(refused, Cause::Refusals), (full, Cause::Queue)];
        let each = counts.into_iter().filter(|(count, _)| *count > 0);
        each.map(|(count, cause)| Entry::LeftOut { at, count, cause })
            .collect()
    }
}

impl AuditLog {
    fn writer(&self) -> std::sync::MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request. It never waits.
    pub fn record(&self, done: Done) {
        let writer = self.writer();
        let Some(writer) = writer.as_ref().filter(|writer| writer.is_enabled) else {
            return;
        };
        let is_refused = matches!(done.status, Some(401 | 403 | 429));
        let mut is_recorded = true;
        if is_refused {
            let mut refusals = writer.left_out.refusals();
            is_recorded = refusals.take(done.who.as_ref(), Instant::now());
        }
        if is_recorded && writer.orders.try_send(Order::Write(done)).is_err() {
            writer.left_out.queue.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was recorded is on disk, but not longer than a few seconds.
    pub async fn flush(&self) {
        let Some(orders) = self.writer().as_ref().map(|writer| writer.orders.clone()) else {
            return;
        };
        let (done, flushed) = oneshot::channel();
        let flushing = async {
            if orders.send(Order::Flush(done)).await.is_ok() {
                // The writer is gone: there is nothing to wait for.
                let _ = flushed.await;
            }
        };
        if tokio::time::timeout(FLUSHED_WITHIN, flushing)
            .await
            .is_err()
        {
            tracing::warn!("the newest entries of the audit log are not on disk yet");
        }
    }

    /// Writes what is left, and ends.
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

impl Local {
    /// Begins to write the audit log as the settings have it, and to remove old entries.
    pub fn begin_audit(&self) {
        let settings = self.setup().loaded.config.audit.clone();
        let kept = Kept {
            days: settings.keep_days,
            entries: settings.max_entries,
        };
        let (orders, queue) = mpsc::channel(QUEUE);
        let left_out = Arc::new(LeftOut::default());
        let log = Audit::new(&self.parts_journal(), kept);
        let task = tokio::spawn(write(log, queue, left_out.clone()));
        *self.audit.writer() = Some(Writer {
            orders,
            task,
            left_out,
            is_enabled: settings.enabled,
        });
    }

    /// The audit log.
    pub fn audit_log(&self) -> &AuditLog {
        &self.audit
    }
}

/// Writes entries as they come, together those that come at the same time.
async fn write(mut log: Audit, mut orders: mpsc::Receiver<Order>, left_out: Arc<LeftOut>) {
    let mut minutes = tokio::time::interval(MINUTE);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for minute in 0u64.. {
        loop {
            let first = tokio::select! {
                first = orders.recv() => first,
                _ = minutes.tick() => break,
            };
            let is_last = first.is_none();
            let (mut entries, flushes) = gather(first, &mut orders).await;
            entries.extend(left_out.entries(clock::now()));
            append(&mut log, &entries, &orders).await;
            for flushed in flushes {
                // The reader may have left.
                let _ = flushed.send(());
            }
            if is_last {
                return;
            }
        }
        append(&mut log, &left_out.entries(clock::now()), &orders).await;
        if minute % SWEEP_EVERY == 0
            && let Err(error) = log.sweep(clock::now()).await
        {
            tracing::warn!(%error, "old entries of the audit log are removed later");
        }
    }
}

/// All orders that come within a moment, and who waits for them.
async fn gather(
    first: Option<Order>,
    orders: &mut mpsc::Receiver<Order>,
) -> (Vec<Entry>, Vec<oneshot::Sender<()>>) {
    if matches!(first, Some(Order::Write(_))) && !orders.is_closed() {
        tokio::time::sleep(GATHERED_FOR).await;
    }
    let (mut entries, mut flushes) = (Vec::new(), Vec::new());
    let mut next = first;
    while let Some(order) = next {
        match order {
            Order::Write(done) => entries.push(Entry::Done { done }),
            Order::Flush(flushed) => flushes.push(flushed),
        }
        if entries.len() + flushes.len() == BATCH {
            break;
        }
        next = orders.try_recv().ok();
    }
    (entries, flushes)
}

/// Appends entries, however often it takes, as long as the program does not stop.
async fn append(log: &mut Audit, entries: &[Entry], orders: &mpsc::Receiver<Order>) {
    let mut is_said = false;
    while !entries.is_empty() {
        let Err(error) = log.append(entries, clock::now()).await else {
            return;
        };
        if orders.is_closed() {
            let count = entries.len();
            tracing::error!(%error, count, "entries of the audit log are lost");
            return;
        }
        if !is_said {
            tracing::warn!(%error, "the audit log cannot be written; it is tried again");
            is_said = true;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_one_name_do_not_hide_those_of_another() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let ada: Arc<str> = "ada".into();
        let taken = |refusals: &mut Refusals, who, at| {
            (0..1_000).filter(|_| refusals.take(who, at)).count() as u64
        };
        assert_eq!(taken(&mut refusals, None, now), REFUSALS_OF_ONE);
        assert_eq!(taken(&mut refusals, Some(&ada), now), REFUSALS_OF_ONE);
        assert_eq!(refusals.left_out, 2 * (1_000 - REFUSALS_OF_ONE));
        assert_eq!(taken(&mut refusals, None, now + MINUTE), REFUSALS_OF_ONE);
        for n in 0..1_000 {
            refusals.take(Some(&n.to_string().into()), now + MINUTE);
        }
        assert_eq!(
            (refusals.all, refusals.by_name.len() as u64 <= REFUSALS),
            (REFUSALS, true)
        );
    }
}
