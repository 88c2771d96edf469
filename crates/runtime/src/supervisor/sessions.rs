//! The sessions in memory: their followers, the sessions that leave, and those that are forgotten.

use std::sync::Arc;

use unisono_context::SessionId;

use super::{Child, State};
use crate::residence;
use crate::session::{self, Feed, FeedReceiver};

/// The number of feeds of sessions that are not live above which unused feeds are removed.
const STALE_FEEDS: usize = 64;

impl State {
    /// The feed of a session; kept as long as it is live or followed.
    pub(super) fn feed(&mut self, id: SessionId) -> Arc<Feed> {
        if self.feeds.len() > 2 * self.sessions.len() + STALE_FEEDS {
            let live = &self.sessions;
            self.feeds
                .retain(|id, feed| live.contains_key(id) || feed.is_followed());
        }
        let feed = self.feeds.entry(id);
        feed.or_insert_with(|| Arc::new(Feed::new())).clone()
    }

    pub(super) fn on_follow(&mut self, id: SessionId) -> (Arc<Feed>, FeedReceiver) {
        let feed = self.feed(id);
        let following = feed.follow();
        (feed, following)
    }

    /// Has sessions leave memory if there are too many, or they are too large.
    pub(super) fn make_room(&self) {
        let bounds = self.env.options.resident;
        if self.sessions.len() <= bounds.sessions && self.env.resident.bytes() <= bounds.bytes {
            return;
        }
        let live = self.sessions.iter();
        let live: Vec<_> = live
            .map(|(id, one)| (*id, one.residence.to_resident()))
            .collect();
        for id in residence::select_leaving(&live, bounds) {
            if let Some(live) = self.sessions.get(&id) {
                // A session that has ended has already left.
                let _ = live.registration.address().send_now(session::Msg::Leave);
            }
        }
    }

    /// The session does not exist any more, and neither does its feed.
    pub(super) fn on_forget(&mut self, id: SessionId) {
        self.feeds.remove(&id);
        let child = Child::Session(id);
        self.histories.remove(&child);
        self.actors.retain(|_, known| *known != child);
        if let Some(live) = self.sessions.remove(&id) {
            // A session that has ended has already left.
            let _ = live.registration.address().send_now(session::Msg::Forget);
        }
    }

    /// Whether a child that was lost is still to be started again: its session may have been forgotten
    /// meanwhile, and opened again.
    pub(super) fn is_missing(&self, child: &Child) -> bool {
        let is_wanted = match child {
            Child::Session(id) => self.sessions.contains_key(id),
            Child::Tokenizer
            | Child::Compactor
            | Child::BudgetBroker
            | Child::Pool(_)
            | Child::ToolServer(_) => true,
        };
        is_wanted && !self.actors.values().any(|known| known == child)
    }

    /// This program owns none of its sessions any more.
    pub(super) fn on_forget_all(&mut self) {
        let ids: Vec<SessionId> = self.feeds.keys().copied().collect();
        ids.into_iter().for_each(|id| self.on_forget(id));
    }

    /// This program owns only some of its sessions any more.
    pub(super) fn on_forget_lost(&mut self) {
        let journal = self.env.journal.clone();
        let Some(cluster) = journal.cluster() else {
            return;
        };
        let ids: Vec<SessionId> = self.feeds.keys().copied().collect();
        for id in ids {
            if !cluster.is_own(id.into()) {
                self.on_forget(id);
            } else if let Some(live) = self.sessions.get(&id) {
                // A session that has died looks at its journal when it returns.
                let renewed = session::Msg::LeaseRenewed;
                let _ = live.registration.address().send_now(renewed);
            }
        }
    }

    /// The number of sessions with open turns.
    pub(super) fn working(&self) -> usize {
        let live = self.sessions.values();
        live.filter(|one| one.residence.is_working()).count()
    }

    pub(super) fn on_session_left(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        if self.feeds.get(&id).is_some_and(|feed| !feed.is_followed()) {
            self.feeds.remove(&id);
        }
    }
}
