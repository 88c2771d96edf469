//! How a program takes over the sessions of members that are gone, and gives up what it took over.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::own_sessions::KNOWN_MAX;
use super::statements::{DECLINE, FORGET_GONE, RELEASE, TAKE_OVER};
use super::{Membership, NOBODY, lock};
use crate::engine::{Cluster as _, SessionId, SessionInfo};
use crate::error::Result;
use crate::postgres::info;

impl Membership {
    pub(super) async fn taken_over(&self, limit: usize) -> Result<Vec<SessionInfo>> {
        let (id, lease) = (self.id(), self.lease_of_others_ms());
        let lapses = self.beats.borrow().lapses;
        // Without beats of its own it does not know who else has some.
        if lock(&self.mine).is_draining || !self.holds_lease() {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let declined: Vec<Uuid> = {
            let mut mine = lock(&self.mine);
            mine.is_taking = true;
            mine.declined.iter().map(|session| session.0).collect()
        };
        let parameters: [&(dyn ToSql + Sync); 5] = [&id, &lease, &limit, &declined, &NOBODY];
        // If the answer is lost, this program owns the sessions nevertheless: after the error the caller
        // looks for those that it owns.
        let rows = self.link.change(TAKE_OVER, &parameters).await;
        let taken = rows.map(|rows| rows.iter().map(info).collect::<Vec<SessionInfo>>());
        let taken = self.took(id, lapses, taken)?;
        if taken.is_empty() {
            self.link.read(FORGET_GONE, &[&id, &lease]).await?;
        }
        Ok(taken)
    }

    /// Records the answer to a takeover under that id.
    fn took(
        &self,
        id: Uuid,
        lapses: u64,
        taken: Result<Vec<SessionInfo>>,
    ) -> Result<Vec<SessionInfo>> {
        let mut mine = lock(&self.mine);
        mine.is_taking = false;
        let taken = taken?;
        // If it was taken to be gone meanwhile, others may have claimed them since.
        let is_current = mine.id == id && !mine.is_handing_over;
        if is_current && self.beats.borrow().lapses == lapses {
            mine.took(&taken);
        }
        Ok(taken)
    }

    pub(super) async fn released(&self, sessions: Vec<SessionInfo>) -> Result<()> {
        let ids: Vec<Uuid> = sessions.iter().map(|info| info.session.0).collect();
        let epochs: Vec<i64> = sessions.iter().map(epoch).collect();
        let parameters: [&(dyn ToSql + Sync); 3] = [&ids, &epochs, &self.id()];
        let released = self.link.read(RELEASE, &parameters).await?;
        let mut mine = lock(&self.mine);
        for row in released {
            mine.forget(SessionId(row.get(0)));
        }
        Ok(())
    }

    pub(super) async fn declined(&self, session: SessionInfo) -> Result<()> {
        let (id, epoch) = (self.id(), epoch(&session));
        let parameters: [&(dyn ToSql + Sync); 4] = [&session.session.0, &epoch, &id, &NOBODY];
        let declined = self.link.read(DECLINE, &parameters).await?;
        let mut mine = lock(&self.mine);
        if !declined.is_empty() {
            mine.forget(session.session);
            if mine.declined.len() < KNOWN_MAX {
                mine.declined.insert(session.session);
            }
        }
        Ok(())
    }
}

fn epoch(info: &SessionInfo) -> i64 {
    i64::try_from(info.epoch).unwrap_or(i64::MAX)
}
