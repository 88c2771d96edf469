//! The membership as the group that the other crates use.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use uuid::Uuid;

use super::statements::{CREATED_SINCE, FORGET_CALLBACK, OWNED, OWNED_BY, OWNER, PUT_CALLBACK};
use super::{Membership, lock};
use crate::engine::{
    Announcement, Beat, Cluster, Document, EngineFuture, Member, ProviderPause, SessionId,
    SessionInfo, SessionsFuture,
};
use crate::postgres::info;

impl Cluster for Membership {
    boxed! {
        announce(announcement: Announcement) -> () = announced;
        members() -> Vec<(Member, u64)> = all;
        document(name: &'static str) -> Option<Document> = read_document;
        put_document(name: &'static str, text: String, before: u64) -> bool = replace_document;
        begun(cause: u128, session: Option<SessionId>) -> Option<SessionId> = first_session;
        hold(holds: Vec<ProviderPause>) -> () = held;
        callbacks(sessions: Option<Vec<SessionId>>) -> Vec<(SessionId, String)> = kept_callbacks;
        take_over(limit: usize) -> Vec<SessionInfo> = taken_over;
        decline(session: SessionInfo) -> () = declined;
        release(sessions: Vec<SessionInfo>) -> () = released;
        drain(member: Uuid, drains: bool) -> bool = drained;
        hand_over() -> () = handed_over;
    }

    fn takeover_after(&self) -> Duration {
        self.takeover_after
    }

    fn beat_every(&self) -> Duration {
        self.pause()
    }

    fn now_unix_ms(&self) -> Option<i64> {
        let (_, at, known) = (*lock(&self.acknowledged))?;
        Some(at.saturating_add(i64::try_from(known.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }

    fn beats(&self) -> watch::Receiver<Beat> {
        self.beats.subscribe()
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

    fn is_of_another(&self, session: SessionId) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            let rows = self.link.read(OWNER, &[&session.0]).await?;
            let owner = rows.first().map(|row| row.get::<_, Uuid>(0));
            // What a takeover has taken is known here only after its answer.
            let mine = lock(&self.mine);
            Ok(owner.is_some_and(|owner| owner != mine.id || mine.takes_over(session)))
        })
    }

    fn is_own(&self, session: SessionId) -> bool {
        lock(&self.mine).contains(session)
    }

    fn holds_lease(&self) -> bool {
        lock(&self.seen).elapsed() < self.takeover_after
    }

    fn owned(&self) -> SessionsFuture<'_> {
        Box::pin(async move {
            let rows = self.link.read(OWNED, &[&self.id()]).await?;
            Ok(rows.iter().map(info).collect())
        })
    }

    fn owned_by(
        &self,
        member: Uuid,
        before: SessionId,
        limit: usize,
    ) -> EngineFuture<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = self
                .link
                .read(OWNED_BY, &[&member, &before.0, &limit])
                .await?;
            Ok(rows.iter().map(info).collect())
        })
    }

    fn created_since(&self, unix_ms: u64, known: Vec<(SessionId, u64)>) -> SessionsFuture<'_> {
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

    fn want_budget(&self, is_wanted: bool, since: Option<Instant>) {
        *lock(&self.short_since) = since.filter(|_| is_wanted);
        if self.is_short.swap(is_wanted, Ordering::Relaxed) != is_wanted {
            self.at_once.notify_one();
        }
    }

    fn will_free_budget(&self, is_so: bool) {
        // A program that waits for it has little patience.
        if !self.is_spending.swap(is_so, Ordering::Relaxed) && is_so {
            self.at_once.notify_one();
        }
    }

    fn put_callback(&self, session: SessionId, name: String, text: String) -> EngineFuture<'_, ()> {
        Box::pin(self.change_callback(PUT_CALLBACK, session, name, text))
    }

    fn forget_callback(
        &self,
        session: SessionId,
        name: String,
        text: String,
    ) -> EngineFuture<'_, ()> {
        Box::pin(self.change_callback(FORGET_CALLBACK, session, name, text))
    }

    fn take_up(&self, session: SessionId, epoch: u64) -> bool {
        let mut mine = lock(&self.mine);
        let is_writable = self.gate.check().is_ok() && self.holds_lease();
        let takes_up = is_writable && mine.take_up(session, epoch);
        if takes_up {
            // What it knows is of an earlier claim.
            self.recent.forget(session);
        }
        takes_up
    }

    fn begin_hand_over(&self) {
        let mut mine = lock(&self.mine);
        mine.forget_all();
        mine.is_handing_over = true;
    }
}
