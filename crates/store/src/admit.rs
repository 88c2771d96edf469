//! The rules by which a write to a session is accepted or refused. All engines share them.

use crate::engine::{Append, Checkpoint, Deletion, MAX_PAYLOAD_BYTES, SessionId};
use crate::error::{Error, Result};
use crate::row::Head;

/// Returns the known state of the session if a write may build on it, otherwise the reason why not.
fn writer<K: AsRef<Head>>(session: SessionId, epoch: u64, known: Option<K>) -> Result<K> {
    let head = known.as_ref().map(AsRef::as_ref);
    let current = head.map_or(0, |head| if head.deleted { 0 } else { head.epoch });
    match known {
        Some(known) if current == epoch && epoch != 0 => Ok(known),
        _ => Err(Error::Fenced {
            session,
            epoch,
            current,
        }),
    }
}

/// Checks an append against the known state of its session, and returns that state.
pub(crate) fn append<K: AsRef<Head>>(append: &Append, known: Option<K>) -> Result<K> {
    let &Append {
        session,
        epoch,
        expected_seq,
        ..
    } = append;
    let known = writer(session, epoch, known)?;
    follows(session, known.as_ref(), expected_seq)?;
    Ok(known)
}

/// Checks a deletion against the known state of its session, and returns that state; `None` if
/// there is no such session.
pub(crate) fn deletion<K: AsRef<Head>>(deletion: &Deletion, known: Option<K>) -> Result<Option<K>> {
    let known = known.filter(|known| !known.as_ref().deleted);
    if let (Some(known), Some(expected_seq)) = (&known, deletion.expected_seq) {
        follows(deletion.session, known.as_ref(), expected_seq)?;
    }
    Ok(known)
}

/// Checks that `expected_seq` is the number of the session's last event.
fn follows(session: SessionId, head: &Head, expected_seq: u64) -> Result<()> {
    let last_seq = head.last_seq;
    if last_seq != expected_seq {
        return Err(Error::Conflict {
            session,
            expected_seq,
            last_seq,
        });
    }
    Ok(())
}

/// Checks a checkpoint against the known state of its session.
pub(crate) fn checkpoint<K: AsRef<Head>>(
    session: SessionId,
    epoch: u64,
    seq: u64,
    known: Option<K>,
) -> Result<()> {
    let last_seq = writer(session, epoch, known)?.as_ref().last_seq;
    if seq > last_seq {
        return Err(Error::CheckpointAhead {
            session,
            seq,
            last_seq,
        });
    }
    Ok(())
}

/// Checks of an append that need no session state; they run before it is queued.
pub(crate) fn check_append(append: &Append) -> Result<()> {
    if append.payloads.is_empty() {
        return Err(Error::EmptyAppend {
            session: append.session,
        });
    }
    let sum: usize = append.payloads.iter().map(Vec::len).sum();
    check_size("an append", sum)
}

/// Checks of a deletion that need no session state; they run before it is queued.
pub(crate) fn check_deletion(deletion: &Deletion) -> Result<()> {
    let left = deletion.deleted_usage.as_ref().map_or(0, Vec::len);
    check_size("what is left of a session", left)
}

/// Checks of a checkpoint that need no session state; they run before it is queued.
pub(crate) fn check_checkpoint(checkpoint: &Checkpoint) -> Result<()> {
    check_size("a checkpoint", checkpoint.state.len())
}

fn check_size(what: &'static str, bytes: usize) -> Result<()> {
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(Error::TooLarge {
            what,
            size_bytes: bytes as u64,
            limit_bytes: MAX_PAYLOAD_BYTES as u64,
        });
    }
    Ok(())
}
