//! The programs that use a store together.

use std::time::Duration;

use async_trait::async_trait;
use unisono_api::cluster::{ClusterMember, MemberState};
use unisono_api::page::PageQuery;
use unisono_api::service::{Cluster, Result};
use unisono_api::session::SessionListItem;
use unisono_api::{Code, Page};
use unisono_context::SessionId;
use uuid::Uuid;

use super::cursor;
use super::sessions::list_items;
use crate::Local;
use crate::error::Error;
use crate::values;

#[async_trait]
impl Cluster for Local {
    async fn members(&self, query: &PageQuery) -> Result<Page<ClusterMember>> {
        let after: Option<Uuid> = cursor(query.cursor.as_deref())?;
        let all = self.all_members().await?;
        let left = match after {
            Some(after) => {
                let place = all.iter().position(|one| one.member == after.to_string());
                all.into_iter()
                    .skip(place.map_or(0, |place| place + 1))
                    .collect()
            }
            None => all,
        };
        let limit = Page::<ClusterMember>::size(query.limit);
        Ok(Page::first(left, limit, |last| last.member.clone()))
    }

    async fn member_sessions(
        &self,
        member: &str,
        query: &PageQuery,
    ) -> Result<Page<SessionListItem>> {
        let unknown = || Error::not_found("program of the cluster with the id", member);
        let before: Option<SessionId> = cursor(query.cursor.as_deref())?;
        let id: Uuid = member.parse().map_err(|_| unknown())?;
        let all = self.all_members().await?;
        if !all.iter().any(|one| one.member == id.to_string()) {
            return Err(unknown().into());
        }
        let limit = Page::<()>::size(query.limit);
        // One more session shows whether there is a next page.
        let owned = self.journal().sessions_of_member(id, before, limit + 1);
        let owned = owned.await.map_err(Error::from)?.into_iter();
        let part = Page::first(owned, limit, |last| last.id().to_string());
        Ok(Page {
            items: list_items(self, part.items).await?,
            next: part.next,
        })
    }

    async fn drain(&self, member: &str, drain: bool) -> Result<ClusterMember> {
        let unknown = || Error::not_found("live program of the cluster with the id", member);
        let member: Uuid = member.parse().map_err(|_| unknown())?;
        let cluster = self.cluster().ok_or_else(unknown)?;
        let others = self.all_members().await?;
        let mut others = others.iter().filter(|one| one.member != member.to_string());
        let takes = |one: &ClusterMember| one.address.is_some() && one.state == MemberState::Alive;
        if drain && !others.any(takes) {
            let detail = "no other daemon is there to take its sessions";
            return Err(Error::new(Code::Conflict, detail).into());
        }
        if !cluster.drain(member, drain).await.map_err(Error::from)? {
            return Err(unknown().into());
        }
        let all = self.all_members().await?;
        let found = all.into_iter().find(|one| one.member == member.to_string());
        Ok(found.ok_or_else(unknown)?)
    }
}

impl Local {
    /// All programs on the store; none where it is in a directory.
    async fn all_members(&self) -> Result<Vec<ClusterMember>, Error> {
        let Some(cluster) = self.cluster() else {
            return Ok(Vec::new());
        };
        let own = self.agents_digest();
        let members = cluster.members().await?.into_iter();
        let members = members.map(|(member, sessions)| {
            let agents = &member.announced.agents;
            ClusterMember {
                member: member.id.to_string(),
                state: match (member.is_alive, member.is_draining) {
                    (false, _) => MemberState::Gone,
                    (true, true) => MemberState::Draining,
                    (true, false) => MemberState::Alive,
                },
                same_agents: agents.as_ref().map(|agents| *agents == own),
                name: member.name,
                version: member.version,
                address: member.announced.address,
                is_self: member.is_self,
                sessions,
                joined: values::unix_ms(member.joined_unix_ms),
                last_seen_ms: millis(member.beat_age),
            }
        });
        Ok(members.collect())
    }
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}
