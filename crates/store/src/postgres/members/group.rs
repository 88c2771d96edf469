//! The membership as the group that the other crates use.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use super::statements::{CREATED_SINCE, OWNED};
use super::{Membership, lock};
use crate::engine::{
    Announcement, Beat, Cluster, Document, EngineFuture, Member, ProviderPause, SessionId,
    SessionInfo,
};
use crate::postgres::info;

impl Cluster for Membership {
    fn takeover_after(&self) -> Duration {
        self.takeover_after
    }

    fn beat_every(&self) -> Duration {
        self.pause()
    }

    fn announce(&self, announcement: Announcement) -> EngineFuture<'_, ()> {
        Box::pin(self.announced(announcement))
    }

    fn beats(&self) -> watch::Receiver<Beat> {
        self.beats.subscribe()
    }

    fn members(&self) -> EngineFuture<'_, Vec<(Member, u64)>> {
        Box::pin(self.all())
    }

    fn owner(&self, session: SessionId) -> EngineFuture<'_, Option<Member>> {
        Box::pin(async move {
            // Without the lease, another member may have claimed it and have later information.
            if self.is_own(session) && self.holds_lease() {
                return Ok(None);
            }
            self.asked_owner(session).await
        })
    }

    fn is_own(&self, session: SessionId) -> bool {
        lock(&self.mine).contains(session)
    }

    fn holds_lease(&self) -> bool {
        lock(&self.seen).elapsed() < self.takeover_after
    }

    fn owned(&self) -> EngineFuture<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let rows = self.link.read(OWNED, &[&self.id()]).await?;
            Ok(rows.iter().map(info).collect())
        })
    }

    fn created_since(
        &self,
        unix_ms: u64,
        known: Vec<(SessionId, u64)>,
    ) -> EngineFuture<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let time = |unix_ms| i64::try_from(unix_ms).unwrap_or(i64::MAX);
            let (ids, times): (Vec<Uuid>, Vec<i64>) = known
                .iter()
                .map(|(id, created)| (id.0, time(*created)))
                .unzip();
            let since = time(unix_ms);
            let rows = self
                .link
                .read(CREATED_SINCE, &[&since, &ids, &times])
                .await?;
            Ok(rows.iter().map(info).collect())
        })
    }

    fn document(&self, name: &'static str) -> EngineFuture<'_, Option<Document>> {
        Box::pin(self.read_document(name))
    }

    fn put_document(
        &self,
        name: &'static str,
        text: String,
        before: u64,
    ) -> EngineFuture<'_, bool> {
        Box::pin(self.replace_document(name, text, before))
    }

    fn begun(
        &self,
        cause: u128,
        session: Option<SessionId>,
    ) -> EngineFuture<'_, Option<SessionId>> {
        Box::pin(self.first_session(cause, session))
    }

    fn hold(&self, holds: Vec<ProviderPause>) -> EngineFuture<'_, ()> {
        Box::pin(self.held(holds))
    }

    fn want_budget(&self, is_wanted: bool) {
        if self.is_short.swap(is_wanted, Ordering::Relaxed) != is_wanted {
            self.at_once.notify_one();
        }
    }

    fn put_callback(&self, session: SessionId, name: String, text: String) -> EngineFuture<'_, ()> {
        Box::pin(self.keep_callback(session, name, text))
    }

    fn forget_callback(
        &self,
        session: SessionId,
        name: String,
        text: String,
    ) -> EngineFuture<'_, ()> {
        Box::pin(self.drop_callback(session, name, text))
    }

    fn callbacks(
        &self,
        sessions: Option<Vec<SessionId>>,
    ) -> EngineFuture<'_, Vec<(SessionId, String)>> {
        Box::pin(self.kept_callbacks(sessions))
    }

    fn take_over(&self, limit: usize) -> EngineFuture<'_, Vec<SessionInfo>> {
        Box::pin(self.taken_over(limit))
    }

    fn take_up(&self, session: SessionId, epoch: u64) -> bool {
        let mut mine = lock(&self.mine);
        self.gate.check().is_ok() && self.holds_lease() && mine.take_up(session, epoch)
    }

    fn decline(&self, session: SessionInfo) -> EngineFuture<'_, ()> {
        Box::pin(self.declined(session))
    }

    fn release(&self, sessions: Vec<SessionInfo>) -> EngineFuture<'_, ()> {
        Box::pin(self.released(sessions))
    }

    fn drain(&self, member: Uuid, drains: bool) -> EngineFuture<'_, bool> {
        Box::pin(self.drained(member, drains))
    }

    fn begin_hand_over(&self) {
        let mut mine = lock(&self.mine);
        mine.forget_all();
        mine.is_handing_over = true;
    }

    fn hand_over(&self) -> EngineFuture<'_, ()> {
        Box::pin(self.handed_over())
    }
}
