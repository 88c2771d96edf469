//! How a program joins the others, and how it leaves its sessions to them.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::absence::Absence;
use super::id_file::write_id;
use super::statements::{DRAIN, HAND_OVER, SERVER_START};
use super::{Membership, lock};
use crate::engine::Announcement;
use crate::error::{Error, Result};

impl Membership {
    /// Notes that the database was down, if it started after the last beats of members: they then have
    /// a lease to come back before this program takes over their sessions.
    pub(super) async fn note_outage(&self) -> Result<()> {
        let rows = self.link.read(SERVER_START, &[]).await?;
        let Some(row) = rows.first() else {
            return Ok(());
        };
        let ago = |ms: i64| {
            let age = Duration::from_millis(u64::try_from(ms).unwrap_or_default());
            Instant::now().checked_sub(age)
        };
        let (up, newest, has_beats_since): (i64, Option<i64>, bool) =
            (row.get(0), row.get(1), row.get(2));
        let back = has_beats_since.then(|| ago(up)).flatten();
        let outage = newest.and_then(ago).map(|seen| {
            let until = back.unwrap_or_else(Instant::now);
            Absence::new(None, seen, until, self.takeover_after)
        });
        *lock(&self.absence) = outage;
        Ok(())
    }

    pub(super) async fn announced(&self, announcement: Announcement) -> Result<()> {
        self.check_token(&announcement).await?;
        if lock(&self.announced).agents != announcement.agents {
            // Its agents are others now: it may work on what it left to others.
            lock(&self.mine).declined.clear();
        }
        *lock(&self.announced) = announcement.clone();
        self.beat().await?;
        // Of two that begin at the same time, one at least sees the other one now, and gives way.
        if let Err(error) = self.check_token(&announcement).await {
            *lock(&self.announced) = Announcement::default();
            self.beat().await?;
            return Err(error);
        }
        Ok(())
    }

    /// Refuses to announce a token that is another one than that of a live member.
    async fn check_token(&self, announcement: &Announcement) -> Result<()> {
        for (member, _) in self.all().await? {
            let token = &member.announced.token;
            let is_other = member.is_alive && !member.is_self && token.is_some();
            if is_other && *token != announcement.token {
                return Err(Error::Database {
                    reason: format!(
                        "{} uses it with another token: programs on one database pass requests on \
                         to each other, so all of them need the same `server.token_file`; another \
                         group needs a database or a schema of its own",
                        member.name
                    ),
                });
            }
        }
        Ok(())
    }

    pub(super) async fn drained(&self, member: Uuid, drains: bool) -> Result<bool> {
        let parameters: [&(dyn ToSql + Sync); 3] = [&member, &drains, &self.lease_ms()];
        let found = self.link.read(DRAIN, &parameters).await?;
        self.at_once.notify_one();
        Ok(!found.is_empty())
    }

    pub(super) async fn handed_over(&self) -> Result<()> {
        let new = Uuid::now_v7();
        // After a restart under the old id it would claim what is left under it: no harm.
        if let Some(directory) = &self.directory
            && let Err(error) = write_id(directory, new)
        {
            tracing::warn!(%error, "this program's new id is not kept for its next start");
        }
        let old = {
            let mut mine = lock(&self.mine);
            mine.forget_all();
            mine.is_draining = true;
            mine.is_handing_over = false;
            std::mem::replace(&mut mine.id, new)
        };
        // Its first beat under the new id.
        self.beats.send_modify(|beat| beat.count = 0);
        let parameters: [&(dyn ToSql + Sync); 3] = [&old, &self.instance, &new];
        let joined = self.link.read(HAND_OVER, &parameters).await?;
        // Where it was let in again meanwhile, its old row said so last.
        if let Some(joined) = joined.first() {
            lock(&self.mine).is_draining = joined.get(0);
        }
        self.beat().await?;
        Ok(())
    }
}
