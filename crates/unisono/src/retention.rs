//! Finding and permanently deleting sessions that have not changed for a long time.
//!
//! Sessions with open turns are excluded, and so are sessions whose number of open turns is
//! unknown.

use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::time::MissedTickBehavior;
use unisono_context::Timestamp;
use unisono_runtime::clock;
use unisono_store::{Error, Journal, SessionInfo};

use crate::Local;

/// Sessions per read.
const PAGE: usize = 512;
const MS_PER_DAY: i64 = 24 * 60 * 60 * 1_000;
/// The interval of the daemon's search.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// The sessions without open turns that last changed before the given time, the oldest first.
async fn older_than(journal: &Journal, before: Timestamp) -> Result<Vec<SessionInfo>, Error> {
    let (mut found, mut after): (Vec<SessionInfo>, _) = (Vec::new(), None);
    loop {
        let page = journal.sessions(after, PAGE).await?;
        let Some(last) = page.last() else {
            found.sort_by_key(|old| old.updated_unix_ms);
            return Ok(found);
        };
        after = Some(last.id());
        for info in page.into_iter().filter(|info| is_old(info, before)) {
            if journal.has_open_turns(&info).await? == Some(false) {
                found.push(info);
            }
        }
    }
}

/// Whether it has not changed since the search, and has no open turn.
async fn is_still_old(journal: &Journal, old: &SessionInfo) -> Result<bool, Error> {
    let now = journal.engine().session(old.session).await?;
    match now {
        Some(now) if now.last_seq == old.last_seq => {
            Ok(journal.has_open_turns(&now).await? == Some(false))
        }
        _ => Ok(false),
    }
}

fn is_old(info: &SessionInfo, before: Timestamp) -> bool {
    let updated = i64::try_from(info.updated_unix_ms).unwrap_or(i64::MAX);
    // A claimed session without events does not exist.
    info.last_seq > 0 && updated < before.0
}

/// At each of these times, removes the contents of attachments that no session names, and deletes the
/// sessions that exceed the current retention settings, up to the last time.
pub async fn follow(local: &Local, times: impl Stream<Item = Timestamp>) {
    let mut times = pin!(times);
    while let Some(now) = times.next().await {
        let at = u64::try_from(now.0).unwrap_or_default();
        match local.journal().sweep_blobs(at).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed attachments that no session names"),
            Err(error) => {
                tracing::warn!(%error, "attachments that no session names cannot be removed");
            }
        }
        let days = local.setup().loaded.config.store.retention_days;
        if days == 0 {
            continue;
        }
        if let Err(error) = local.prune(days, now).await {
            tracing::warn!(%error, "old sessions cannot be deleted; the next try is in an hour");
        }
    }
}

/// Now, and every hour from now on.
pub fn hourly(journal: &Journal) -> impl Stream<Item = Timestamp> {
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold(every, move |mut every| async move {
        every.tick().await;
        Some((clock::store_now(journal), every))
    })
}

impl Local {
    /// Deletes the sessions that have not changed for this number of days, and logs them. Returns
    /// their number. Leaves those that other programs own to them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn prune(&self, days: u32, now: Timestamp) -> Result<usize, crate::Error> {
        let before = now.plus_ms(-i64::from(days) * MS_PER_DAY);
        let journal = self.journal();
        let mut deleted = 0;
        for old in older_than(journal, before).await? {
            if !is_still_old(journal, &old).await? {
                continue;
            }
            let session = old.id();
            match self.discard(session).await {
                // Its owner deletes it.
                Err(error) if error.session_of_another().is_some() => continue,
                discarded => discarded?,
            };
            deleted += 1;
            tracing::info!(%session, "a session is deleted: store.retention_days are over");
        }
        Ok(deleted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unisono_context::SessionId;
    use unisono_session::machine::Import;
    use unisono_store::Memory;

    use super::*;
    use crate::fixture::local;

    const OLD: SessionId = SessionId::from_u128(1);

    async fn daemon(days: &str) -> Local {
        let local = local([("store.retention_days", days)]).await;
        let import = Import {
            session: Some(OLD),
            title: "An old one".into(),
            ..Import::default()
        };
        local.import(import).await.unwrap();
        local
    }

    /// Whether it is there after the daemon has looked so many days later, one time after the other.
    async fn stays(local: &Local, days: &[i64]) -> bool {
        let now = clock::now();
        let times = days.iter().map(|days| now.plus_ms(days * MS_PER_DAY));
        follow(local, stream::iter(times)).await;
        local.journal().exists(OLD).await.unwrap()
    }

    #[tokio::test]
    async fn a_session_goes_when_its_days_are_over_and_not_before() {
        let kept = daemon("30").await;
        assert!(stays(&kept, &[0, 29]).await);
        assert!(!stays(&kept, &[29, 31]).await);
        kept.shutdown().await;
        let forever = daemon("0").await;
        assert!(stays(&forever, &[0, 31, 40_000]).await, "it is off");
        forever.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_daemon_looks_at_once_and_then_every_hour() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let mut times = pin!(hourly(&journal));
        let begun = tokio::time::Instant::now();
        for hours in 0..3 {
            assert!(times.next().await.is_some());
            assert_eq!(begun.elapsed(), EVERY * hours);
        }
    }
}
