//! What a program knows of the sessions that it owns. Without I/O.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::engine::{SessionId, SessionInfo};

/// Largest number of own sessions kept in memory; others are looked up in the database.
pub(super) const KNOWN_MAX: usize = 100_000;

/// The name of this program, and the sessions that it has claimed.
pub(super) struct OwnSessions {
    pub(super) id: Uuid,
    sessions: HashSet<SessionId>,
    /// The sessions that it took over and does not work on yet, with the epochs of these claims.
    taken: HashMap<SessionId, u64>,
    /// Whether it waits for the answer to a takeover.
    pub(super) is_taking: bool,
    /// The sessions that it cannot work on.
    pub(super) declined: HashSet<SessionId>,
    pub(super) is_draining: bool,
    /// Whether it has stopped to work on its sessions, and is about to leave them to the others.
    pub(super) is_handing_over: bool,
}

impl OwnSessions {
    pub(super) fn new(id: Uuid) -> OwnSessions {
        OwnSessions {
            id,
            sessions: HashSet::new(),
            taken: HashMap::new(),
            is_taking: false,
            declined: HashSet::new(),
            is_draining: false,
            is_handing_over: false,
        }
    }

    pub(super) fn may_claim(&self, session: SessionId) -> bool {
        !self.is_handing_over && (!self.is_draining || self.contains(session))
    }

    /// The number of sessions that it works on.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn contains(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// It has claimed the session, which ends a claim by which it took the session over.
    pub(super) fn claimed(&mut self, session: SessionId) {
        self.taken.remove(&session);
        if self.sessions.len() < KNOWN_MAX {
            self.sessions.insert(session);
        }
    }

    /// It took these sessions over. A session that it has claimed since has a later epoch.
    pub(super) fn took(&mut self, taken: &[SessionInfo]) {
        for info in taken {
            if !self.sessions.contains(&info.session) && self.taken.len() < KNOWN_MAX {
                self.taken.insert(info.session, info.epoch);
            }
        }
    }

    /// Whether it took the session over and does not work on it yet, or may be about to learn that.
    pub(super) fn takes_over(&self, session: SessionId) -> bool {
        self.is_taking || self.taken.contains_key(&session)
    }

    /// It begins to work on a session that it took over by the claim of that epoch; false if that
    /// claim may have ended.
    pub(super) fn take_up(&mut self, session: SessionId, epoch: u64) -> bool {
        let is_claim = self.taken.get(&session) == Some(&epoch) && !self.is_handing_over;
        if is_claim {
            self.claimed(session);
        }
        is_claim
    }

    /// It does not own the session any more.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.taken.remove(&session);
    }

    /// It owns only these sessions any more.
    pub(super) fn keep(&mut self, owned: &[SessionInfo]) {
        let owned: HashMap<SessionId, u64> = owned
            .iter()
            .map(|info| (info.session, info.epoch))
            .collect();
        self.sessions.retain(|session| owned.contains_key(session));
        self.taken
            .retain(|session, epoch| owned.get(session) == Some(epoch));
    }

    /// It may own no session any more.
    pub(super) fn forget_all(&mut self) {
        self.sessions.clear();
        self.taken.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId::from_u128(0xA);

    #[test]
    fn a_session_is_taken_up_once_and_only_by_the_claim_that_took_it_over() {
        let info = SessionInfo {
            session: A,
            last_seq: 3,
            epoch: 7,
            payload_bytes: 0,
            created_unix_ms: 0,
            updated_unix_ms: 0,
        };
        let took = || {
            let mut mine = OwnSessions::new(Uuid::nil());
            mine.took(&[info]);
            mine
        };
        let mut mine = took();
        assert!(!mine.contains(A) && mine.takes_over(A) && !mine.take_up(A, 6));
        assert!(mine.take_up(A, 7) && mine.contains(A) && !mine.takes_over(A));
        assert!(!mine.take_up(A, 7));
        // A request has claimed it meanwhile, before or after the answer to the takeover.
        let mut mine = took();
        mine.claimed(A);
        assert!(!mine.take_up(A, 7) && mine.contains(A));
        let mut mine = OwnSessions::new(Uuid::nil());
        mine.claimed(A);
        mine.took(&[info]);
        assert!(!mine.take_up(A, 7));
        // Another program may have claimed it.
        let mut mine = took();
        mine.forget(A);
        assert!(!mine.take_up(A, 7));
        let mut mine = took();
        mine.keep(&[info]);
        assert!(mine.take_up(A, 7));
        mine.keep(&[info]);
        assert!(mine.contains(A));
        mine.keep(&[]);
        assert!(!mine.contains(A));
        let mut mine = took();
        mine.keep(&[SessionInfo { epoch: 8, ..info }]);
        assert!(!mine.take_up(A, 7));
        let mut mine = took();
        mine.forget_all();
        assert!(!mine.take_up(A, 7) && !mine.contains(A));
    }
}
