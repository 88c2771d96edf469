//! The sessions of the members of a cluster.

use unisono_context::SessionId;
use uuid::Uuid;

use super::{FIRST_OWN, Journal};
use crate::engine::SessionInfo;
use crate::error::Result;

impl Journal {
    /// Returns at most `limit` sessions that a member of the cluster owns, in descending order of their
    /// ids, starting before `before`; none without a cluster.
    pub async fn sessions_of_member(
        &self,
        member: Uuid,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        let Some(cluster) = self.cluster() else {
            return Ok(Vec::new());
        };
        let mut before = before.map_or(FIRST_OWN, Into::into).min(FIRST_OWN);
        let mut sessions = Vec::new();
        // Hidden sessions do not count towards the limit.
        while sessions.len() < limit {
            let room = limit - sessions.len();
            let page = cluster.owned_by(member, before, room).await?;
            let Some(last) = page.last() else { break };
            before = last.session;
            sessions.extend(self.shown(page).await?);
        }
        Ok(sessions)
    }
}
