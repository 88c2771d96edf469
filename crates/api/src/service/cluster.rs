//! The programs that use a store together.

use async_trait::async_trait;

use super::Result;
use crate::cluster::ClusterMember;
use crate::session::SessionListItem;
use crate::{Page, PageQuery};

/// The programs that use a store together.
#[async_trait]
pub trait Cluster {
    /// The programs, in the order in which they joined; none where the store is a directory, which one
    /// program uses.
    ///
    /// # Errors
    /// `unavailable`: the database does not answer.
    async fn members(&self, query: &PageQuery) -> Result<Page<ClusterMember>>;

    /// The sessions that a program owns, the newest first. A session on which no program works is
    /// in no list.
    ///
    /// # Errors
    /// `not_found`: no program of the cluster has that id; `unavailable`: the database does not answer.
    async fn member_sessions(
        &self,
        member: &str,
        query: &PageQuery,
    ) -> Result<Page<SessionListItem>>;

    /// Has a program take no new sessions and hand over its own, or work as before. It does so within
    /// some seconds.
    ///
    /// # Errors
    /// `not_found`: no live program has that id; `conflict`: there is no other to take its sessions.
    async fn drain(&self, member: &str, drain: bool) -> Result<ClusterMember>;
}
