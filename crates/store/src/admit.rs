//! Which writes a session takes: the rules that every engine shares.

use crate::engine::{Append, Checkpoint, Deletion, MAX_PAYLOAD_BYTES, SessionId};
use crate::error::{Error, Result};
use crate::row::Head;

/// Gives what is known of the session back if a write may build on it, or says why it may not.
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

/// Checks an append against what is known of its session, and gives that back.
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

/// Checks a deletion against what is known of its session, and gives that back; none: there is no
/// such session.
pub(crate) fn deletion<K: AsRef<Head>>(deletion: &Deletion, known: Option<K>) -> Result<Option<K>> {
    let known = known.filter(|known| !known.as_ref().deleted);
    if let (Some(known), Some(expected_seq)) = (&known, deletion.expected_seq) {
        follows(deletion.session, known.as_ref(), expected_seq)?;
    }
    Ok(known)
}

/// Whether this is the session's last event.
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

/// Checks a checkpoint against what is known of its session.
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

/// Checks what can be checked of an append before it queues.
pub(crate) fn check_append(append: &Append) -> Result<()> {
    if append.payloads.is_empty() {
        return Err(Error::EmptyAppend {
            session: append.session,
        });
    }
    let sum: usize = append.payloads.iter().map(Vec::len).sum();
    check_size("an append", sum)
}

/// Checks what can be checked of a deletion before it queues.
pub(crate) fn check_deletion(deletion: &Deletion) -> Result<()> {
    let left = deletion.deleted_usage.as_ref().map_or(0, Vec::len);
    check_size("what is left of a session", left)
}

/// Checks what can be checked of a checkpoint before it queues.
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
