//! The usage of models, folded once: a session's usage is known up to an event, and only later
//! events are read.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::Mutex;
use unisono_context::SessionId;
use unisono_session::budget::SessionUse;
use unisono_session::usage::Ledger;
use unisono_session::{Event, Fact};
use unisono_store::Journal;

use super::all_sessions;
use super::folded::Folded;

/// The known usage of the sessions of a store.
#[derive(Debug, Default)]
pub struct Folds {
    pub(super) used: Mutex<BTreeMap<SessionId, Folded<Fold>>>,
    /// The sessions' parts of the budgets.
    pub(crate) budgets: Mutex<BTreeMap<SessionId, KnownUse>>,
}

/// A session's part of the budgets, up to an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownUse {
    /// When the session was created: after its deletion, another one may have its id.
    pub(crate) created_unix_ms: u64,
    /// The event.
    pub(crate) seq: u64,
    /// The spent and reserved amounts.
    pub(crate) used: SessionUse,
}

/// The usage of one session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Fold {
    /// The session's title.
    pub title: String,
    /// Its usage.
    pub ledger: Ledger,
}

impl Folds {
    /// The usage of all sessions with usage. The cost depends on the events since the last call.
    ///
    /// # Errors
    /// The store fails.
    pub async fn all(
        &self,
        journal: &Journal,
    ) -> Result<Vec<(SessionId, Fold)>, unisono_store::Error> {
        let mut known = self.used.lock().await;
        let mut there = BTreeSet::new();
        let sessions = all_sessions(journal).await?;
        for info in &sessions {
            // A failure keeps the folded events: the entry is in the map meanwhile.
            let fold = known.entry(info.id()).or_default();
            fold.follow(journal, info, take).await?;
            there.insert(info.id());
        }
        if journal.owner().is_none() {
            known.retain(|session, _| there.contains(session));
        }
        let folds = known.iter().map(|(session, fold)| (session, &fold.value));
        let used = folds
            .filter(|(session, fold)| there.contains(session) && fold.ledger.entries().len() > 0);
        Ok(used.map(|(id, fold)| (*id, fold.clone())).collect())
    }

    /// Forgets a deleted session. If sessions are being folded, the next [`Self::all`] forgets it.
    pub(crate) fn forget(&self, session: SessionId) {
        if let Ok(mut known) = self.used.try_lock() {
            known.remove(&session);
        }
    }

    /// The usage of a session, if it exists. A session without an event does not exist.
    ///
    /// # Errors
    /// The store fails.
    pub async fn one(
        &self,
        journal: &Journal,
        session: SessionId,
    ) -> Result<Option<Fold>, unisono_store::Error> {
        let Some(info) = journal.session(session).await? else {
            return Ok(None);
        };
        let mut known = self.used.lock().await;
        let fold = known.entry(session).or_default();
        fold.follow(journal, &info, take).await?;
        Ok(Some(fold.value.clone()))
    }
}

fn take(fold: &mut Fold, _: u64, event: &Event) {
    if let Fact::Created { title, .. } = &event.fact {
        fold.title = title.to_string();
    }
    fold.ledger.take(event);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use unisono_context::SessionId;

    use crate::fixture::Counting;

    #[tokio::test]
    async fn a_session_is_read_once_and_not_again_until_it_changes() {
        let (engine, local) = Counting::with_three_sessions().await;
        for (read, new) in [(3, None), (0, None), (1, Some(4))] {
            if let Some(new) = new {
                engine.add(SessionId::from_u128(new)).await;
            }
            engine.reads.store(0, Ordering::Relaxed);
            let folds = &local.shared.usage_folds;
            folds.all(local.journal()).await.unwrap();
            assert_eq!(engine.reads.load(Ordering::Relaxed), read);
        }
    }
}
