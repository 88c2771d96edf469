//! The sessions that messages of other programs began.
//!
//! The end of such a session's id follows from its message. The store is read once; afterwards a
//! message that comes again finds its session by that end, however many sessions the store has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};
use unisono_context::SessionId;
use unisono_runtime::clock;
use unisono_store::{Error, Journal};

/// The time in milliseconds for which a repeated first message finds its session: a day.
const KNOWN_MS: u64 = 24 * 60 * 60 * 1_000;
/// Maximum number of newest sessions that are read from the store.
const READ: usize = 4_096;
/// Sessions per read.
const PAGE: usize = 512;
/// Maximum number of known sessions, about 1.5 MiB.
const KNOWN: usize = 16_384;
/// The random bits of a session's id: those that are not its time, version or variant.
pub(crate) const RANDOM_BITS: u128 = (0xfff << 64) | ((1 << 62) - 1);

/// The sessions that messages began within a day.
#[derive(Debug, Default)]
pub(crate) struct FirstMessages {
    known: OnceCell<Mutex<Known>>,
    /// Held while the session of a message is searched for and created.
    beginning: AsyncMutex<()>,
}

impl FirstMessages {
    /// Waits until no other message, of any sender, is beginning a session.
    pub(crate) async fn begin(&self) -> AsyncMutexGuard<'_, ()> {
        self.beginning.lock().await
    }

    /// The newest session whose id has these random bits. It may be deleted.
    pub(crate) async fn session(
        &self,
        journal: &Journal,
        end: u128,
    ) -> Result<Option<SessionId>, Error> {
        let first = || async move { read(journal).await.map(Mutex::new) };
        let known = self.known.get_or_try_init(first).await?;
        Ok(lock(known).session(end, now_ms()))
    }

    /// Adds a session that a message began. Before the store is read, nothing is added: it is read
    /// before a session is created.
    pub(crate) fn note(&self, session: SessionId) {
        if let Some(known) = self.known.get() {
            lock(known).note(session, now_ms());
        }
    }
}

/// No panic leaves the known sessions inconsistent.
fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(journal: &Journal) -> Result<Known, Error> {
    let now_ms = now_ms();
    let oldest = oldest(now_ms);
    let mut known = Known::default();
    let mut before = None;
    for _ in 0..READ / PAGE {
        let part = journal.newest_sessions(before, PAGE).await?;
        for info in &part {
            let id = SessionId::from(info.session);
            if id.as_u128() < oldest {
                return Ok(known);
            }
            let is_newest = !known.by_end.contains_key(&end_of(id));
            if is_newest && info.last_seq > 0 {
                known.note(id, now_ms);
            }
            before = Some(id);
        }
        if part.len() < PAGE {
            break;
        }
    }
    Ok(known)
}

#[derive(Debug, Default)]
struct Known {
    /// By the random bits of their ids.
    by_end: BTreeMap<u128, SessionId>,
    /// By age: an id begins with its time.
    by_age: BTreeSet<SessionId>,
}

impl Known {
    fn session(&self, end: u128, now_ms: u64) -> Option<SessionId> {
        let session = self.by_end.get(&end).copied()?;
        (session.as_u128() >= oldest(now_ms)).then_some(session)
    }

    /// Adds a session, and removes the oldest ones if there are too many or they are too old.
    fn note(&mut self, session: SessionId, now_ms: u64) {
        if let Some(before) = self.by_end.insert(end_of(session), session) {
            self.by_age.remove(&before);
        }
        self.by_age.insert(session);
        let oldest = oldest(now_ms);
        while let Some(first) = self.by_age.first().copied() {
            if self.by_age.len() <= KNOWN && first.as_u128() >= oldest {
                break;
            }
            self.by_age.remove(&first);
            self.by_end.remove(&end_of(first));
        }
    }
}

fn end_of(session: SessionId) -> u128 {
    session.as_u128() & RANDOM_BITS
}

/// The smallest id of a session that is known.
fn oldest(now_ms: u64) -> u128 {
    time_bits(now_ms.saturating_sub(KNOWN_MS))
}

/// The current time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(clock::now().0).unwrap_or_default()
}

pub(crate) fn time_bits(ms: u64) -> u128 {
    u128::from(ms & ((1 << 48) - 1)) << 80
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_790_000_000_000;

    fn id(ms: u64, end: u128) -> SessionId {
        SessionId::from_u128(time_bits(ms) | end)
    }

    #[test]
    fn a_session_is_known_by_its_end_however_many_began_after_it() {
        let mut known = Known::default();
        let first = id(NOW_MS, 1);
        known.note(first, NOW_MS);
        for more in 2..=10_000 {
            known.note(id(NOW_MS + 1, more), NOW_MS + 1);
        }
        assert_eq!(known.session(1, NOW_MS + 2), Some(first));
        assert_eq!(known.session(10_001, NOW_MS + 2), None);
        // A session that replaces a deleted one has the same end and another time.
        let second = id(NOW_MS + 3, 1);
        known.note(second, NOW_MS + 3);
        assert_eq!(known.session(1, NOW_MS + 3), Some(second));
        assert_eq!(known.by_age.len(), known.by_end.len());
    }

    #[test]
    fn a_session_is_forgotten_after_a_day_or_if_too_many_are_newer() {
        let mut known = Known::default();
        known.note(id(NOW_MS, 1), NOW_MS);
        known.note(id(NOW_MS + 2, 2), NOW_MS + 2);
        let next_day = NOW_MS + KNOWN_MS + 1;
        assert_eq!(known.session(1, next_day), None);
        known.note(id(next_day, 3), next_day);
        assert_eq!((known.by_age.len(), known.by_end.len()), (2, 2));
        for more in 0..KNOWN as u128 {
            known.note(id(next_day + 1, 4 + more), next_day + 1);
        }
        assert_eq!((known.by_age.len(), known.by_end.len()), (KNOWN, KNOWN));
        assert_eq!(known.session(3, next_day + 1), None);
    }
}
