//! Contents of attachments in memory, and in facts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use unisono_context::Digest;
use unisono_session::Fact;

/// Locks of contents: those whose digests end alike share one.
const LOCKS: usize = 16;

/// The contents that are in use in this process: each is read once.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    contents: Mutex<HashMap<Digest, Weak<[u8]>>>,
    changing: [tokio::sync::Mutex<()>; LOCKS],
}

impl Loaded {
    /// Held while the names of a content change, so that this process does not compete with itself.
    pub(crate) async fn lock(&self, digest: &Digest) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let last = digest.0.last().copied().unwrap_or_default();
        let lock = self.changing.get(usize::from(last) % LOCKS)?;
        Some(lock.lock().await)
    }

    /// One of them.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        let loaded = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.get(digest)?.upgrade()
    }

    /// Remembers one as long as somebody holds it.
    pub(crate) fn keep(&self, digest: Digest, bytes: &Arc<[u8]>) {
        let mut loaded = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|_, bytes| bytes.strong_count() > 0);
        loaded.insert(digest, Arc::downgrade(bytes));
    }
}

/// The contents that a fact names.
pub(crate) fn named(fact: &Fact) -> impl Iterator<Item = Digest> {
    fact.contents().into_iter().map(|content| content.digest)
}
