//! The contents of attachments in memory, and the references of facts to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use unisono_context::Digest;
use unisono_session::Fact;

/// Number of locks. Contents whose digests have the same last bits share a lock.
const LOCKS: usize = 16;

/// The contents in use in this process. Readers share one copy of each.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    contents: Mutex<HashMap<Digest, Weak<[u8]>>>,
    locks: [tokio::sync::Mutex<()>; LOCKS],
}

impl Loaded {
    /// Locks the references of a content, so that tasks of this process do not conflict.
    pub(crate) async fn lock(&self, digest: &Digest) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let last = digest.0.last().copied().unwrap_or_default();
        let lock = self.locks.get(usize::from(last) % LOCKS)?;
        Some(lock.lock().await)
    }

    /// The content with that digest, if it is in use.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        let loaded = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.get(digest)?.upgrade()
    }

    /// Shares a content with later readers, as long as it is in use.
    pub(crate) fn keep(&self, digest: Digest, bytes: &Arc<[u8]>) {
        let mut loaded = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|_, bytes| bytes.strong_count() > 0);
        loaded.insert(digest, Arc::downgrade(bytes));
    }
}

/// The contents that a fact refers to, and the texts of its documents.
pub(crate) fn references(fact: &Fact) -> impl Iterator<Item = Digest> {
    let contents = fact.contents().into_iter();
    contents.flat_map(|content| {
        let text = content.text.map(|text| text.digest);
        std::iter::once(content.digest).chain(text)
    })
}
