//! Data that members share besides sessions: documents, holds of providers, and callbacks of tasks.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Membership;
use super::statements::{
    BEGIN_ONCE, BEGUN, CALLBACKS, DOCUMENT, HOLD, OWN_CALLBACKS, PUT_DOCUMENT,
};
use crate::engine::{Document, ProviderPause, SessionId};
use crate::error::Result;
use crate::postgres::unsigned;

/// Maximum length in bytes of the names of providers and models in holds.
const NAME_MAX: usize = 200;
/// Maximum number of holds in one statement.
const HOLDS_MAX: usize = 256;

impl Membership {
    pub(super) async fn read_document(&self, name: &'static str) -> Result<Option<Document>> {
        let rows = self.link.read(DOCUMENT, &[&name]).await?;
        Ok(rows.first().map(|row| Document {
            text: row.get(0),
            version: unsigned(row, 1),
        }))
    }

    pub(super) async fn replace_document(
        &self,
        name: &'static str,
        text: String,
        before: u64,
    ) -> Result<bool> {
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 3] = [&name, &text, &before];
        let replaced = self.link.read(PUT_DOCUMENT, &parameters).await?;
        self.at_once.notify_one();
        Ok(!replaced.is_empty())
    }

    pub(super) async fn held(&self, mut holds: Vec<ProviderPause>) -> Result<()> {
        // One statement can change a row only once, so only the longest hold of a model is sent.
        holds.sort_unstable_by(|a, b| b.cmp(a));
        holds.dedup_by(|a, b| a.provider == b.provider && a.model == b.model);
        holds.retain(|hold| {
            let model = hold.model.as_deref().unwrap_or_default();
            hold.provider.len() <= NAME_MAX && model.len() <= NAME_MAX
        });
        holds.truncate(HOLDS_MAX);
        if holds.is_empty() {
            return Ok(());
        }
        let providers: Vec<&str> = holds.iter().map(|hold| hold.provider.as_str()).collect();
        let models = holds
            .iter()
            .map(|hold| hold.model.as_deref().unwrap_or_default());
        let models: Vec<&str> = models.collect();
        let waits = holds
            .iter()
            .map(|hold| i64::try_from(hold.wait.as_millis()).unwrap_or(i64::MAX / 2));
        let waits: Vec<i64> = waits.collect();
        let id = self.id();
        let parameters: [&(dyn ToSql + Sync); 4] = [&id, &providers, &models, &waits];
        self.link.read(HOLD, &parameters).await?;
        Ok(())
    }

    /// Keeps or forgets a callback, by the statement.
    pub(super) async fn change_callback(
        &self,
        statement: &'static str,
        session: SessionId,
        name: String,
        text: String,
    ) -> Result<()> {
        let parameters: [&(dyn ToSql + Sync); 3] = [&session.0, &name, &text];
        self.link.read(statement, &parameters).await?;
        Ok(())
    }

    pub(super) async fn first_session(
        &self,
        cause: u128,
        session: Option<SessionId>,
    ) -> Result<Option<SessionId>> {
        let cause = Uuid::from_u128(cause);
        let rows = match session {
            Some(session) => self.link.read(BEGIN_ONCE, &[&cause, &session.0]).await?,
            None => self.link.read(BEGUN, &[&cause]).await?,
        };
        Ok(rows.first().map(|row| SessionId(row.get(0))))
    }

    pub(super) async fn kept_callbacks(
        &self,
        sessions: Option<Vec<SessionId>>,
    ) -> Result<Vec<(SessionId, String)>> {
        let rows = match sessions {
            Some(sessions) => {
                let sessions: Vec<Uuid> = sessions.iter().map(|session| session.0).collect();
                self.link.read(CALLBACKS, &[&sessions]).await?
            }
            None => self.link.read(OWN_CALLBACKS, &[&self.id()]).await?,
        };
        let kept = rows
            .iter()
            .map(|row| (SessionId(row.get(0)), row.get::<_, String>(1)));
        Ok(kept.collect())
    }
}

/// The holds of other members in a row of a beat.
pub(super) fn holds(row: &Row) -> Vec<ProviderPause> {
    let providers: Option<Vec<String>> = row.get(13);
    let models: Option<Vec<String>> = row.get(14);
    let waits: Option<Vec<i64>> = row.get(15);
    let names = providers
        .into_iter()
        .flatten()
        .zip(models.into_iter().flatten());
    let all = names.zip(waits.into_iter().flatten());
    let all = all.map(|((provider, model), wait)| ProviderPause {
        provider,
        model: Some(model).filter(|model| !model.is_empty()),
        wait: Duration::from_millis(u64::try_from(wait).unwrap_or_default()),
    });
    all.collect()
}
