//! Which writes a session takes: the rules that every engine shares.

use crate::engine::{Append, Checkpoint, MAX_PAYLOAD_BYTES, SessionId};
use crate::error::{Error, Result};
use crate::row::Head;

/// The head a write may build on, or why it may not.
fn writer(session: SessionId, epoch: u64, head: Option<Head>) -> Result<Head> {
    let current = head
        .as_ref()
        .map_or(0, |head| if head.deleted { 0 } else { head.epoch });
    match head {
        Some(head) if current == epoch && epoch != 0 => Ok(head),
        _ => Err(Error::Fenced {
            session,
            epoch,
            current,
        }),
    }
}

/// Checks an append against the head and gives the head it may build on.
pub(crate) fn append(append: &Append, head: Option<Head>) -> Result<Head> {
    let &Append {
        session,
        epoch,
        expected_seq,
        ..
    } = append;
    let head = writer(session, epoch, head)?;
    if head.last_seq != expected_seq {
        return Err(Error::Conflict {
            session,
            expected_seq,
            last_seq: head.last_seq,
        });
    }
    Ok(head)
}

/// Checks a checkpoint against the head.
pub(crate) fn checkpoint(
    session: SessionId,
    epoch: u64,
    seq: u64,
    head: Option<Head>,
) -> Result<()> {
    let last_seq = writer(session, epoch, head)?.last_seq;
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
