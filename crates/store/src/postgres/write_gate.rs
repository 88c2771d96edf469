//! Refuses writes in advance while the database has no room, only reads, or lacks a right, a table or a
//! resource.
//!
//! After a refused write all later ones are refused until a probe of at least its size comes through.
//! Otherwise a session could claim its journal again and again, because a claim updates a row that
//! exists, and each time have a result refused that was already paid for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

use super::error_kind::{failed, failed_write};
use super::{Options, link};
use crate::engine::Health;
use crate::error::{Error, Result};

/// The pauses between probes; each is twice the one before it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A probe without an answer for this long has failed.
const STUCK_AFTER: Duration = Duration::from_secs(25);
/// The space of a probe besides that of the refused write, in bytes.
const SPARE_BYTES: usize = 256 << 10;
/// The largest size of a refused write that counts, in bytes.
const REFUSED_LIMIT: usize = 4 << 20;
/// The size of a payload that a table stores in its own pages. Larger ones are stored elsewhere.
const INLINE_BYTES: usize = 1_800;

/// The rows of a probe: a large one and many small ones, as of a session that nobody has.
const PROBE: &str = "\
INSERT INTO unisono_events (session, seq, checksum, payload)
SELECT $1::uuid, 0, 0, $2::bytea
UNION ALL SELECT $1::uuid, n, 0, $3::bytea FROM generate_series(1, $4::bigint) AS n";

/// Why writes are refused.
#[derive(Clone, Debug)]
struct Refusal {
    is_full: bool,
    reason: String,
    /// The size of the largest refused write.
    bytes: usize,
}

impl Refusal {
    /// The refusal that an error reports; `None` for any other error.
    fn from_error(error: &Error, bytes: usize) -> Option<Refusal> {
        let (is_full, reason) = match error {
            Error::DatabaseFull { reason } => (true, reason),
            Error::Unwritable { reason } => (false, reason),
            _ => return None,
        };
        Some(Refusal {
            is_full,
            reason: reason.clone(),
            bytes: bytes.min(REFUSED_LIMIT),
        })
    }

    fn to_error(&self) -> Error {
        let reason = self.reason.clone();
        match self.is_full {
            true => Error::DatabaseFull { reason },
            false => Error::Unwritable { reason },
        }
    }
}

#[derive(Default)]
struct State {
    refusal: Option<Refusal>,
    /// Ends when it has removed the refusal, or found none.
    probing: Option<JoinHandle<()>>,
}

/// Whether writes are refused in advance.
pub(super) struct WriteGate {
    options: Options,
    state: Mutex<State>,
}

impl WriteGate {
    pub(super) fn new(options: Options) -> Arc<WriteGate> {
        Arc::new(WriteGate {
            options,
            state: Mutex::default(),
        })
    }

    /// Fails while writes are refused.
    pub(super) fn check(&self) -> Result<()> {
        match &self.lock().refusal {
            Some(refusal) => Err(refusal.to_error()),
            None => Ok(()),
        }
    }

    pub(super) fn health(&self) -> Option<Health> {
        let refusal = self.lock().refusal.clone()?;
        let reason = refusal.reason;
        Some(match refusal.is_full {
            true => Health::DiskFull {
                reason: format!("the disk of the database is full ({reason})"),
            },
            false => Health::ReadOnly { reason },
        })
    }

    /// Records the result of a write of this size: from a refusal on, probes follow.
    pub(super) fn record<T>(self: &Arc<Self>, written: &Result<T>, bytes: usize) {
        let error = written.as_ref().err();
        let Some(mut refusal) = error.and_then(|error| Refusal::from_error(error, bytes)) else {
            return;
        };
        let mut state = self.lock();
        match &state.refusal {
            Some(known) => refusal.bytes = refusal.bytes.max(known.bytes),
            None => {
                tracing::error!(reason = refusal.reason, "the database refuses writes");
                state.probing = Some(tokio::spawn(self.clone().probe_on()));
            }
        }
        state.refusal = Some(refusal);
    }

    /// Probes once, in the background, unless writes are refused already.
    pub(super) fn probe_once(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.refusal.is_none() {
            let gate = self.clone();
            state.probing = Some(tokio::spawn(async move {
                let probed = gate.probe().await;
                gate.record(&probed, 0);
            }));
        }
    }

    /// Probes until writes are accepted again.
    async fn probe_on(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        loop {
            sleep(pause).await;
            let probed = self.probe().await;
            match probed {
                Ok(()) => {
                    tracing::info!("the database accepts writes again");
                    self.lock().refusal = None;
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "the database still refuses writes");
                    self.record::<()>(&Err(error), 0);
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Writes as much as was refused, and a little more, and rolls it back.
    ///
    /// # Errors
    /// `DatabaseFull`, `Unwritable`, or another error of the database.
    pub(super) async fn probe(&self) -> Result<()> {
        let refused = self.lock().refusal.as_ref().map(|refusal| refusal.bytes);
        let bytes = refused.unwrap_or_default() + SPARE_BYTES;
        let probed = timeout(STUCK_AFTER, async {
            let mut client: Client = link::connect(&self.options).await?;
            let transaction = client.transaction().await.map_err(failed("begin"))?;
            write(&transaction, bytes).await
        });
        probed.await.unwrap_or_else(|_| {
            Err(Error::Unreachable {
                reason: "it does not answer".to_owned(),
            })
        })
    }

    pub(super) fn close(&self) {
        if let Some(probing) = self.lock().probing.take() {
            probing.abort();
        }
    }

    /// No change of the guarded value can be left incomplete, so a poisoned lock is ignored.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes twice this many bytes. The transaction is rolled back when it is dropped.
async fn write(transaction: &Transaction<'_>, bytes: usize) -> Result<()> {
    let large = incompressible(bytes);
    let small = &large[..large.len().min(INLINE_BYTES)];
    let rows = i64::try_from(bytes / INLINE_BYTES).unwrap_or(i64::MAX);
    let session = Uuid::now_v7();
    let parameters: [&(dyn ToSql + Sync); 4] = [&session, &large, &small, &rows];
    let written = transaction.execute(PROBE, &parameters).await;
    written.map_err(failed_write("write"))?;
    Ok(())
}

/// Bytes that the database cannot compress: a sequence of xorshift64.
fn incompressible(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
