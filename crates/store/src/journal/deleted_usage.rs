//! The model usage of deleted sessions, kept in a journal of the store's own.
//!
//! An entry is written in the same write as the deletion of its session, so usage is counted
//! exactly once, even if the process crashes. [`Journal`] does not list this journal. When it has
//! grown, its entries are replaced by their sum, so it stays short however many sessions are
//! created and deleted.

use std::collections::BTreeSet;

use unisono_context::{Digest, SessionId};
use unisono_session::usage::{DeletedUsage, Ledger};

use crate::contents;
use crate::engine::{self, DELETED_USAGE, Deletion};
use crate::error::{Error, Record, Result};
use crate::journal::Journal;
use crate::record;

/// Number of events read at a time.
const PAGE: usize = 1_024;
/// Number of entries after which they are replaced by their sum.
const SUM_AFTER: u64 = 1_024;
/// Number of attempts to read a session to its end while it is being written to.
const TRIES: usize = 8;

pub(crate) async fn delete(journal: &Journal, session: SessionId) -> Result<bool> {
    let engine = journal.engine();
    let id = engine::SessionId::from(session);
    let (mut gone, mut read) = (DeletedSession::default(), 0);
    let mut tries = 0..TRIES;
    loop {
        let Some(info) = engine.session(id).await? else {
            return Ok(false);
        };
        follow(journal, session, &mut gone, &mut read).await?;
        let deleted = DeletedUsage {
            sessions: 1,
            ledger: gone.ledger.clone(),
        };
        let used = gone.ledger.entries().len() > 0;
        let deletion = Deletion {
            session: id,
            // The events after one that cannot be read are not read either.
            expected_seq: Some(read.max(info.last_seq)),
            deleted_usage: used.then(|| encode(&deleted)).transpose()?,
        };
        match engine.delete_session(deletion).await {
            // Its writer appended more meanwhile: it is fenced until the session is deleted.
            Err(Error::Conflict { .. }) if tries.next().is_some() => {
                engine.claim(id).await?;
            }
            Ok(true) => {
                journal.forget_blobs(id, gone.contents).await;
                if used {
                    sum_up(journal).await;
                }
                return Ok(true);
            }
            deleted => return deleted,
        }
    }
}

/// The usage of a deleted session, and the contents that it named.
#[derive(Default)]
struct DeletedSession {
    ledger: Ledger,
    /// The contents that its messages name.
    contents: BTreeSet<Digest>,
}

pub(crate) async fn read(journal: &Journal) -> Result<DeletedUsage> {
    Ok(fold(journal).await?.0)
}

/// Merges the entries of an archive into one.
///
/// # Errors
/// There are several entries, and one of them cannot be read.
pub(crate) fn merge_entries(mut entries: Vec<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    if entries.len() < 2 {
        return Ok(entries.pop());
    }
    let mut all = DeletedUsage::default();
    for (seq, entry) in (1..).zip(&entries) {
        all.add(&entry_of(seq, entry)?);
    }
    encode(&all).map(Some)
}

/// Adds up a session's usage, event by event. An event that cannot be read ends that: a damaged
/// session can be deleted, and its usage is counted up to the damage.
async fn follow(
    journal: &Journal,
    session: SessionId,
    gone: &mut DeletedSession,
    read: &mut u64,
) -> Result<()> {
    loop {
        let page = match journal.read(session, *read + 1, PAGE).await {
            Err(error @ (Error::Corrupt { .. } | Error::NewerRecord { .. })) => {
                tracing::warn!(%session, %error, "usage of the session is incomplete");
                return Ok(());
            }
            page => page?,
        };
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        *read = *last;
        for (_, event) in &page {
            gone.contents.extend(contents::references(&event.fact));
            gone.ledger.take(event);
        }
    }
}

/// The sum of the entries, and their number.
async fn fold(journal: &Journal) -> Result<(DeletedUsage, u64)> {
    let (mut all, mut last) = (DeletedUsage::default(), 0);
    loop {
        let page = journal.engine().read(DELETED_USAGE, last + 1, PAGE).await?;
        let Some(newest) = page.last() else {
            return Ok((all, last));
        };
        last = newest.seq;
        for event in page {
            all.add(&entry_of(event.seq, &event.payload)?);
        }
    }
}

/// Replaces many entries by their sum. If that fails, the entries stay.
async fn sum_up(journal: &Journal) {
    let Some(_summing) = journal.summing() else {
        return;
    };
    let summed = async {
        let engine = journal.engine();
        let info = engine.session(DELETED_USAGE).await?;
        if info.is_none_or(|info| info.last_seq < SUM_AFTER) {
            return Ok(());
        }
        let (all, last) = fold(journal).await?;
        let deletion = Deletion {
            session: DELETED_USAGE,
            expected_seq: Some(last),
            deleted_usage: Some(encode(&all)?),
        };
        match engine.delete_session(deletion).await {
            // Another entry was added meanwhile: the next deletion tries again.
            Err(Error::Conflict { .. }) => Ok(()),
            summed => summed.map(drop),
        }
    };
    if let Err(error) = summed.await {
        tracing::warn!(%error, "cannot sum up what deleted sessions used");
    }
}

fn encode(deleted: &DeletedUsage) -> Result<Vec<u8>> {
    record::encode_own(deleted).map_err(|reason| Error::Encode {
        record: Record::Head {
            session: DELETED_USAGE,
        },
        reason,
    })
}

fn entry_of(seq: u64, payload: &[u8]) -> Result<DeletedUsage> {
    let session = DELETED_USAGE;
    record::decode_own(payload)
        .map_err(|fault| Error::unreadable(Record::Event { session, seq }, fault))
}

/// An entry for this number of sessions.
#[cfg(test)]
pub(crate) fn of_sessions(sessions: u64) -> Vec<u8> {
    let ledger = Ledger::default();
    encode(&DeletedUsage { sessions, ledger }).unwrap_or_default()
}

#[cfg(test)]
mod tests;
