//! Contents of attachments on their way between messages and the store: a content is on disk before
//! the message that names it is taken, and is loaded once for all agents of a turn.

use std::sync::Arc;

use unisono_context::attachment::Files;
use unisono_context::{SessionId, Snapshot};
use unisono_session::Input;
use unisono_store::Journal;

use crate::runtime::Error;

/// How much is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachmentLimits {
    /// Bytes of one content at most.
    pub each: u64,
    /// Bytes of all attachments of a session at most.
    pub session: u64,
    /// Bytes of all contents of the store at most.
    pub store: u64,
}

impl Default for AttachmentLimits {
    fn default() -> AttachmentLimits {
        AttachmentLimits {
            each: 20 << 20,
            session: 256 << 20,
            store: 16 << 30,
        }
    }
}

/// Stores the contents that an input brings, for a session, and takes their bytes out of it.
/// `attached` are the bytes that the session has already; it is asked for only if there are contents.
///
/// # Errors
/// They are too large, one has no bytes here and is not in the store, or the store failed.
pub(crate) async fn store(
    journal: &Journal,
    session: SessionId,
    limits: AttachmentLimits,
    input: &mut Input,
    attached: impl AsyncFnOnce() -> Result<u64, Error>,
) -> Result<(), Error> {
    let mut contents = input.contents_mut();
    if contents.is_empty() {
        return Ok(());
    }
    let mut held = Vec::with_capacity(contents.len());
    for content in &contents {
        let bytes = match &content.held.0 {
            Some(bytes) => Some(bytes.clone()),
            None => journal.blob(content.digest).await?,
        };
        held.push(bytes.ok_or(Error::NoContent(content.digest))?);
    }
    let size = |bytes: &Arc<[u8]>| bytes.len() as u64;
    if let Some(large) = held.iter().map(size).find(|size| *size > limits.each) {
        return Err(Error::TooMuchAttached {
            what: "the attachment",
            bytes: large,
            most: limits.each,
        });
    }
    let new: u64 = held.iter().map(size).sum();
    let all = new.saturating_add(attached().await?);
    if all > limits.session {
        return Err(Error::TooMuchAttached {
            what: "the session with its attachments",
            bytes: all,
            most: limits.session,
        });
    }
    let stored = journal.stored_blobs().await?.bytes.saturating_add(new);
    if stored > limits.store {
        return Err(Error::TooMuchAttached {
            what: "the store with its attachments",
            bytes: stored,
            most: limits.store,
        });
    }
    for (content, bytes) in contents.iter_mut().zip(held) {
        content.digest = journal.put_blob(&bytes, Some(session)).await?;
        content.held.0 = None;
    }
    Ok(())
}

/// Loads the contents that a snapshot shows into it.
///
/// # Errors
/// One is missing or damaged, or the store failed: the text says which.
pub async fn load(journal: &Journal, snapshot: &Snapshot) -> Result<(), String> {
    if snapshot.is_loaded() {
        return Ok(());
    }
    let mut files = Files::default();
    for digest in snapshot.contents() {
        let read = journal.blob(digest).await;
        let found = read.map_err(|error| format!("an attachment cannot be read: {error}"))?;
        let bytes =
            found.ok_or_else(|| format!("the content {digest} of an attachment is lost"))?;
        files.insert(digest, bytes);
    }
    if !files.is_empty() {
        snapshot.load(files);
    }
    Ok(())
}
