//! A session of a store that several programs use: it may be another one's.

use super::{Phase, State};
use crate::runtime::Error;
use crate::supervisor;

impl State {
    /// Another program works on it, or may: who asked already is told, who asks later has it claimed.
    pub(super) fn lose(&mut self, error: Error) {
        self.phase = Phase::Broken(error);
        let forget = supervisor::Msg::Forget(self.args.id);
        // A tree that is stopping forgets it in any case.
        let _ = self.args.supervisor.send_message(forget);
    }

    /// Whether others may take this program to be gone. If they do, it is about to forget its sessions,
    /// and to open those again that are still its own.
    pub(super) fn may_be_taken_over(&self) -> bool {
        let cluster = self.args.env.journal.cluster();
        cluster.is_some_and(|cluster| !cluster.holds_lease())
    }
}
