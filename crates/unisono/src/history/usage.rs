//! The usage of models, folded once: a session's usage is known up to an event, and only later
//! events are read.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::Mutex;
use unisono_context::SessionId;
use unisono_session::Fact;
use unisono_session::budget::SessionUse;
use unisono_session::usage::Ledger;
use unisono_store::{Journal, SessionInfo};

use super::read_from;

/// Sessions listed at a time.
const PAGE: usize = 1_024;

/// The known usage of the sessions of a store.
#[derive(Debug, Default)]
pub struct Folds {
    used: Mutex<BTreeMap<SessionId, Fold>>,
    /// What sessions take of the budgets.
    pub(crate) budgets: Mutex<BTreeMap<SessionId, KnownUse>>,
}

/// What a session takes of the budgets, up to an event.
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
pub struct Fold {
    /// When the session was created: after its deletion, another one may have its id.
    created_unix_ms: u64,
    /// The last folded event.
    seq: u64,
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
        let (mut there, mut after) = (BTreeSet::new(), None);
        loop {
            let page = journal.sessions(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.session.into());
            for info in &page {
                let session = info.session.into();
                // A failure keeps the folded events: the entry is in the map meanwhile.
                let fold = known.entry(session).or_default();
                fold.follow(journal, info).await?;
                there.insert(session);
            }
        }
        if journal.owner().is_none() {
            known.retain(|session, _| there.contains(session));
        }
        let used = known
            .iter()
            .filter(|(session, fold)| there.contains(session) && fold.ledger.entries().len() > 0);
        Ok(used.map(|(id, fold)| (*id, fold.clone())).collect())
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
        fold.follow(journal, &info).await?;
        Ok(Some(fold.clone()))
    }
}

impl Fold {
    /// Folds the new events of the session.
    async fn follow(
        &mut self,
        journal: &Journal,
        info: &SessionInfo,
    ) -> Result<(), unisono_store::Error> {
        if self.created_unix_ms != info.created_unix_ms || self.seq > info.last_seq {
            *self = Fold {
                created_unix_ms: info.created_unix_ms,
                ..Fold::default()
            };
        }
        if self.seq == info.last_seq {
            return Ok(());
        }
        read_from(journal, info.session.into(), self.seq + 1, |event| {
            if let Fact::Created { title, .. } = &event.fact {
                self.title = title.to_string();
            }
            self.ledger.take(event);
            // Event by event, so that none is folded twice if this is interrupted.
            self.seq += 1;
            Ok(true)
        })
        .await
    }
}
