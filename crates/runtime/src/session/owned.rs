//! A session of a store that several programs use: another program may own it.

use super::{Phase, State, supervision};
use crate::error::Error;

impl State {
    /// Another program owns the session, or may own it: current callers get the error, later ones
    /// have it claimed.
    pub(super) fn lose(&mut self, error: Error) {
        self.break_off(error);
        let forget = supervision::Msg::Forget(self.args.id);
        // A stopping tree forgets it in any case.
        let _ = self.args.supervisor.send_message(forget);
    }

    /// The session is unavailable with this error. Nobody is there for a grant for which it waited.
    pub(super) fn break_off(&mut self, error: Error) {
        self.phase = Phase::Broken(error);
        self.on_recall();
    }

    /// Whether other programs may take over this one's sessions. In that case it is about to find out
    /// which sessions it still owns, and to forget the others.
    pub(super) fn may_be_taken_over(&self) -> bool {
        let cluster = self.args.env.journal.cluster();
        cluster.is_some_and(|cluster| !cluster.holds_lease())
    }
}
