//! Passes the messages that are on disk to the search index, once each.

use std::collections::VecDeque;

use unisono_context::{SessionId, Tree};
use unisono_search::{CommittedMessages, PlacedMessage, Search};
use unisono_session::State;

/// The messages that were passed to the index. After a session was loaded, all of them are passed
/// with the first commit: the index knows which ones it has.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    /// The number of passed messages.
    messages: usize,
    /// The number of messages after this number of events; ascending in both.
    grown: VecDeque<(u64, usize)>,
}

impl Indexed {
    /// Records the number of messages after this number of events.
    pub(super) fn decided(&mut self, events: u64, tree: &Tree) {
        let last = self.grown.back().map_or(self.messages, |(_, len)| *len);
        if tree.len() > last {
            self.grown.push_back((events, tree.len()));
        }
    }

    /// Passes on the messages that are on disk with this number of events.
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
            let new = PlacedMessage::messages_after(state, from).take(len - from);
            search.committed(CommittedMessages {
                session,
                seq,
                from,
                messages: new.collect(),
            });
        }
    }
}
