//! What models were used for, folded once: what a session used is known up to an event, and only
//! what came after that is read.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::Mutex;
use unisono_context::SessionId;
use unisono_session::Fact;
use unisono_session::usage::Ledger;
use unisono_store::{Journal, SessionInfo};

use super::read_from;

/// Sessions listed at a time.
const PAGE: usize = 1_024;

/// What the sessions of a store used, as far as anybody asked.
#[derive(Debug, Default)]
pub struct Folds(Mutex<BTreeMap<SessionId, Fold>>);

/// What one session used.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    /// When the session was made: another one may have its id after it was deleted.
    created_unix_ms: u64,
    /// The last event that is taken in.
    seq: u64,
    /// The session's title.
    pub title: String,
    /// What it used.
    pub ledger: Ledger,
}

impl Folds {
    /// What all sessions used that used anything. Costs what they wrote since it was asked last.
    ///
    /// # Errors
    /// The store fails.
    pub async fn all(
        &self,
        journal: &Journal,
    ) -> Result<Vec<(SessionId, Fold)>, unisono_store::Error> {
        let mut known = self.0.lock().await;
        let (mut there, mut after) = (BTreeSet::new(), None);
        loop {
            let page = journal.sessions(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.session.into());
            for info in &page {
                let session = info.session.into();
                // What fails keeps what it has taken in: its place is in the map meanwhile.
                let fold = known.entry(session).or_default();
                fold.follow(journal, info).await?;
                there.insert(session);
            }
        }
        known.retain(|session, _| there.contains(session));
        let used = known
            .iter()
            .filter(|(_, fold)| fold.ledger.used().len() > 0);
        Ok(used.map(|(id, fold)| (*id, fold.clone())).collect())
    }

    /// What a session used, if there is one of that id. One without an event is none.
    ///
    /// # Errors
    /// The store fails.
    pub async fn one(
        &self,
        journal: &Journal,
        session: SessionId,
    ) -> Result<Option<Fold>, unisono_store::Error> {
        let info = journal.engine().session(session.into()).await?;
        let Some(info) = info.filter(|info| info.last_seq > 0) else {
            return Ok(None);
        };
        let mut known = self.0.lock().await;
        let fold = known.entry(session).or_default();
        fold.follow(journal, &info).await?;
        Ok(Some(fold.clone()))
    }
}

impl Fold {
    /// Takes in what is new of the session.
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
            // Event by event, so that nothing is taken twice where this is left in the middle.
            self.seq += 1;
            Ok(true)
        })
        .await
    }
}
