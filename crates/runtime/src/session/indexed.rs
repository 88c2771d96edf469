//! What the search index is told: the messages that are on disk, once each.

use std::collections::VecDeque;

use unisono_context::{SessionId, Tree};
use unisono_search::{Committed, Placed, Search};
use unisono_session::State;

/// How far a session's messages were told. After a session was loaded all of them are told with the
/// first commit: the index knows which it has.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    /// Messages told.
    messages: usize,
    /// How many messages there were when so many events were decided; ascending in both.
    grown: VecDeque<(u64, usize)>,
}

impl Indexed {
    /// Notes how many messages there are once so many events are decided.
    pub(super) fn decided(&mut self, events: u64, tree: &Tree) {
        let last = self.grown.back().map_or(self.messages, |(_, len)| *len);
        if tree.len() > last {
            self.grown.push_back((events, tree.len()));
        }
    }

    /// Tells of the messages that are on disk once so many events are.
    pub(super) fn committed(
        &mut self,
        search: &Search,
        session: SessionId,
        seq: u64,
        state: &State,
    ) {
        let mut len = self.messages;
        while let Some((_, grown)) = self.grown.front().copied().filter(|(at, _)| *at <= seq) {
            self.grown.pop_front();
            len = grown;
        }
        let from = std::mem::replace(&mut self.messages, len);
        if search.follows() {
            let new = Placed::after(state, from).take(len - from);
            search.committed(Committed {
                session,
                seq,
                from,
                messages: new.collect(),
            });
        }
    }
}
