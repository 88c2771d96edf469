//! Sessions that have not changed for long: found, and deleted for good.
//!
//! One with open turns is never among them, nor one that does not tell whether it has any.

use unisono_context::{SessionId, Timestamp};
use unisono_runtime::clock;
use unisono_session::Fact;
use unisono_store::{Error, Journal, SessionInfo};

use crate::Daemon;
use crate::labels::Label;

/// Sessions that are looked at with one read.
const PAGE: usize = 512;
const MS_PER_DAY: i64 = 24 * 60 * 60 * 1_000;

/// A session that has not changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Old {
    /// Its id.
    pub session: SessionId,
    /// Its title.
    pub title: String,
    /// What the store knows of it.
    pub info: SessionInfo,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Those that can go, the oldest first.
    pub old: Vec<Old>,
    /// How many are as old and have open turns, or do not tell.
    pub open: usize,
}

/// The sessions with these labels that last changed before then.
///
/// # Errors
/// The store failed.
pub async fn older_than(
    journal: &Journal,
    before: Timestamp,
    labels: &[Label],
) -> Result<Found, Error> {
    let (mut found, mut after) = (Found::default(), None);
    loop {
        let page = journal.sessions(after, PAGE).await?;
        let Some(last) = page.last() else {
            found.old.sort_by_key(|old| old.info.updated_unix_ms);
            return Ok(found);
        };
        after = Some(last.session.into());
        let old: Vec<SessionInfo> = page
            .into_iter()
            .filter(|info| is_old(info, before))
            .collect();
        let ids: Vec<SessionId> = old.iter().map(|info| info.session.into()).collect();
        for (info, first) in old.into_iter().zip(journal.first_events(&ids).await?) {
            let first = first.filter(|first| Label::all_of(labels, first));
            let Some(Fact::Created { title, .. }) = first.map(|first| first.fact) else {
                continue;
            };
            if journal.has_open_turns(&info).await? != Some(false) {
                found.open += 1;
                continue;
            }
            found.old.push(Old {
                session: info.session.into(),
                title: title.to_string(),
                info,
            });
        }
    }
}

/// Whether it is as it was when it was found: it did not change, and no turn of it is open.
///
/// # Errors
/// The store failed.
pub async fn is_still_old(journal: &Journal, old: &Old) -> Result<bool, Error> {
    let now = journal.engine().session(old.session.into()).await?;
    match now {
        Some(now) if now.last_seq == old.info.last_seq => {
            Ok(journal.has_open_turns(&now).await? == Some(false))
        }
        _ => Ok(false),
    }
}

fn is_old(info: &SessionInfo, before: Timestamp) -> bool {
    let updated = i64::try_from(info.updated_unix_ms).unwrap_or(i64::MAX);
    // A session that was claimed but never written is none.
    info.last_seq > 0 && updated < before.0
}

impl Daemon {
    /// Deletes the sessions that did not change for so many days, and says in the log which. Gives
    /// how many.
    ///
    /// # Errors
    /// The store failed.
    pub async fn prune(&self, days: u32) -> Result<usize, unisono_runtime::Error> {
        let before = clock::now().plus_ms(-i64::from(days) * MS_PER_DAY);
        let journal = self.runtime().journal();
        let mut deleted = 0;
        for old in older_than(journal, before, &[]).await?.old {
            if !is_still_old(journal, &old).await? {
                continue;
            }
            self.runtime().delete(old.session).await?;
            deleted += 1;
            let (session, title) = (old.session, &old.title);
            tracing::info!(%session, title, "a session is deleted: store.retention_days are over");
        }
        Ok(deleted)
    }
}
