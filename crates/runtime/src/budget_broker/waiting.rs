//! The requests that wait for a grant, and their order: first those of runs that have begun, then in
//! order of arrival, and in turns with those of other programs. Without I/O.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use unisono_context::SessionId;

use super::{Reply, Request};

pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) reply: Reply,
    /// When it arrived.
    pub(super) since: Instant,
}

impl Waiting {
    /// Since when it is waiting for its turn.
    pub(super) fn waits_since(&self, granted_at: Option<Instant>) -> Instant {
        granted_at.map_or(self.since, |granted_at| granted_at.max(self.since))
    }

    /// When this program last had its turn, after a grant for this request. A run that has begun goes on
    /// without a turn: otherwise a large request beside it would never be first.
    pub(super) fn took_turn(&self, before: Option<Instant>) -> Option<Instant> {
        match self.request.begun {
            true => before,
            false => Some(Instant::now()),
        }
    }

    /// Whether another program, which has been waiting since `other`, gets what is free before this
    /// request. A run that has begun goes on: what it holds comes back at its end.
    pub(super) fn goes_behind(&self, other: Option<Instant>, granted_at: Option<Instant>) -> bool {
        let waits_since = self.waits_since(granted_at);
        !self.request.begun && other.is_some_and(|other| other < waits_since)
    }
}

/// The waiting requests, at most one of each session, in order of arrival.
#[derive(Default)]
pub(super) struct WaitingRequests(Vec<Waiting>);

impl WaitingRequests {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.0.iter().map(|waiting| &waiting.request)
    }

    /// Adds a request, in place of an earlier one of its session.
    pub(super) fn push(&mut self, request: Request, reply: Reply) {
        self.forget(request.session);
        self.0.push(Waiting {
            request,
            reply,
            since: Instant::now(),
        });
    }

    /// Puts a request back at its old position, so that the order stays.
    pub(super) fn insert(&mut self, at: usize, waiting: Waiting) {
        self.0.insert(at, waiting);
    }

    pub(super) fn remove(&mut self, at: usize) -> Waiting {
        self.0.remove(at)
    }

    pub(super) fn forget(&mut self, session: SessionId) {
        self.0.retain(|waiting| waiting.request.session != session);
    }

    pub(super) fn position(&self, session: SessionId, number: u64) -> Option<usize> {
        self.requests()
            .position(|of| (of.session, of.number) == (session, number))
    }

    pub(super) fn get_mut(&mut self, session: SessionId, number: u64) -> Option<&mut Request> {
        let at = self.position(session, number)?;
        self.0.get_mut(at).map(|waiting| &mut waiting.request)
    }

    /// The request that is answered next, without those of blocked owners.
    pub(super) fn next(&self, blocked: &BTreeSet<Arc<str>>) -> Option<usize> {
        let is_free = |of: &Request| of.owner.as_ref().is_none_or(|of| !blocked.contains(of));
        let find = |begun: bool| {
            self.requests()
                .position(|of| is_free(of) && (of.begun || !begun))
        };
        find(true).or_else(|| find(false))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use unisono_session::budget::{Amount, SessionUse};

    use super::super::Recall;
    use super::*;

    fn request(session: u128, begun: bool, owner: Option<&str>) -> Request {
        Request {
            session: SessionId::from_u128(session),
            owner: owner.map(Into::into),
            number: 1,
            session_use: SessionUse::default(),
            needed: Amount::ZERO,
            begun,
            spending: false,
            recall: Recall::new(|| true),
        }
    }

    #[test]
    fn begun_runs_come_first_and_blocked_owners_wait() {
        let mut waiting = WaitingRequests::default();
        for (session, begun, owner) in [
            (1, false, Some("ada")),
            (2, false, None),
            (3, true, Some("ada")),
            (4, true, None),
        ] {
            waiting.push(request(session, begun, owner), oneshot::channel().0);
        }
        let ada = BTreeSet::from(["ada".into()]);
        assert_eq!(waiting.next(&BTreeSet::new()), Some(2));
        assert_eq!(waiting.next(&ada), Some(3));
        waiting.forget(SessionId::from_u128(4));
        assert_eq!(waiting.next(&ada), Some(1));
        // A session's later request waits behind the others.
        waiting.push(request(2, false, None), oneshot::channel().0);
        assert_eq!(waiting.position(SessionId::from_u128(2), 1), Some(2));
        let third = waiting.remove(2);
        waiting.insert(0, third);
        assert_eq!(waiting.next(&ada), Some(0));
    }

    #[test]
    fn programs_take_turns_and_a_large_request_gets_its_turn() {
        let begin = Instant::now();
        let at = |seconds| Some(begin + Duration::from_secs(seconds));
        let of = |begun, arrived: u64| Waiting {
            request: request(1, begun, None),
            reply: oneshot::channel().0,
            since: begin + Duration::from_secs(arrived),
        };
        let rows = [
            // arrived, last grant, the other waits since, goes behind
            (5, None, None, false),
            (5, None, at(4), true),
            (5, None, at(6), false),
            // Of two that arrived before, the one without a grant since then is first.
            (1, at(9), at(8), true),
            (1, at(9), at(10), false),
            (5, at(2), at(4), true),
            (5, at(2), at(6), false),
        ];
        for (arrived, granted_at, other, expected) in rows {
            let waiting = of(false, arrived);
            assert_eq!(
                waiting.goes_behind(other, granted_at),
                expected,
                "{arrived}"
            );
            assert!(!of(true, arrived).goes_behind(other, granted_at));
        }
        let before = Instant::now();
        assert!(of(false, 0).took_turn(None) >= Some(before));
        assert_eq!(of(true, 0).took_turn(Some(before)), Some(before));
    }
}
