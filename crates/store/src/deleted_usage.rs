//! What is left of sessions that were deleted: what their models were used for, in a journal beside
//! those of the sessions.
//!
//! An entry is written with the deletion of its session, in one write, so that nothing is counted
//! twice or not at all, whenever the process dies. [`Journal`] shows the journal to nobody. When it
//! has grown, its sum takes its place: it stays short however many sessions come and go.

use std::collections::BTreeSet;

use unisono_context::{Digest, SessionId};
use unisono_session::usage::{Deleted, Ledger};

use crate::contents;
use crate::engine::{self, DELETED_USAGE, Deletion};
use crate::error::{Error, Fault, Record, Result};
use crate::journal::Journal;
use crate::record;

/// Events read at a time.
const PAGE: usize = 1_024;
/// Entries after which the sum takes their place.
const SUM_AFTER: u64 = 1_024;
/// How often a session is read on that is written to meanwhile.
const TRIES: usize = 8;

/// Deletes a session, and keeps what it used.
pub(crate) async fn delete(journal: &Journal, session: SessionId) -> Result<bool> {
    let engine = journal.engine();
    let id = engine::SessionId::from(session);
    let (mut told, mut read) = (Told::default(), 0);
    let mut tries = 0..TRIES;
    loop {
        let Some(info) = engine.session(id).await? else {
            return Ok(false);
        };
        follow(journal, session, &mut told, &mut read).await?;
        let deleted = Deleted {
            sessions: 1,
            ledger: told.ledger.clone(),
        };
        let used = told.ledger.used().len() > 0;
        let deletion = Deletion {
            session: id,
            // What cannot be read is not read on either.
            expected_seq: Some(read.max(info.last_seq)),
            deleted_usage: used.then(|| encode(&deleted)).transpose()?,
        };
        match engine.delete_session(deletion).await {
            // Its writer is faster: it is held off until the session is gone.
            Err(Error::Conflict { .. }) if tries.next().is_some() => {
                engine.claim(id).await?;
            }
            Ok(true) => {
                journal.forget_blobs(id, told.contents).await;
                if used {
                    sum_up(journal).await;
                }
                return Ok(true);
            }
            deleted => return deleted,
        }
    }
}

/// What is told of a session that is deleted.
#[derive(Default)]
struct Told {
    /// What it used.
    ledger: Ledger,
    /// The contents that its messages name.
    contents: BTreeSet<Digest>,
}

/// What all deleted sessions used.
pub(crate) async fn read(journal: &Journal) -> Result<Deleted> {
    Ok(fold(journal).await?.0)
}

/// One entry for these, as an archive has them.
///
/// # Errors
/// One of several cannot be read.
pub(crate) fn merged(mut entries: Vec<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    if entries.len() < 2 {
        return Ok(entries.pop());
    }
    let mut all = Deleted::default();
    for (seq, entry) in (1..).zip(&entries) {
        all.add(&entry_of(seq, entry)?);
    }
    encode(&all).map(Some)
}

/// Reads a session on, event by event. One that cannot be read ends it: a damaged session can be
/// deleted, and what is told of it is what can be told.
async fn follow(
    journal: &Journal,
    session: SessionId,
    told: &mut Told,
    read: &mut u64,
) -> Result<()> {
    loop {
        let page = match journal.read(session, *read + 1, PAGE).await {
            Err(error @ (Error::Corrupt { .. } | Error::NewerRecord { .. })) => {
                tracing::warn!(%session, %error, "what the session used is known up to there only");
                return Ok(());
            }
            page => page?,
        };
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        *read = *last;
        for (_, event) in &page {
            told.contents.extend(contents::named(&event.fact));
            told.ledger.take(event);
        }
    }
}

/// The sum of the entries, and how many they are.
async fn fold(journal: &Journal) -> Result<(Deleted, u64)> {
    let (mut all, mut last) = (Deleted::default(), 0);
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

/// Puts the sum in the place of many entries. Where that fails they stay.
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
            // An entry came meanwhile: the next one sums up.
            Err(Error::Conflict { .. }) => Ok(()),
            summed => summed.map(drop),
        }
    };
    if let Err(error) = summed.await {
        tracing::warn!(%error, "cannot sum up what deleted sessions used");
    }
}

fn encode(deleted: &Deleted) -> Result<Vec<u8>> {
    record::encode_own(deleted).map_err(|reason| Error::Encode {
        record: Record::Head {
            session: DELETED_USAGE,
        },
        reason,
    })
}

fn decode(bytes: &[u8]) -> std::result::Result<Deleted, Fault> {
    record::decode_own(bytes)
}

fn entry_of(seq: u64, payload: &[u8]) -> Result<Deleted> {
    let session = DELETED_USAGE;
    decode(payload).map_err(|fault| Error::unreadable(Record::Event { session, seq }, fault))
}

/// An entry of so many sessions.
#[cfg(test)]
pub(crate) fn of_sessions(sessions: u64) -> Vec<u8> {
    let ledger = Ledger::default();
    encode(&Deleted { sessions, ledger }).unwrap_or_default()
}

#[cfg(test)]
mod tests;
