//! A session whose store takes no writes: what is on disk is shown, nothing is changed, and its open
//! turns go on when there is room on the disk again.

use std::time::Duration;

use ractor::ActorRef;
use unisono_session::{Machine, State as SessionState};

use crate::runtime::Error;

use super::{Msg, Phase, State};

/// After this it is tried again whether there is room, where turns are open. A request tries at once.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Whether the store may work later.
fn is_ephemeral(why: &Error) -> bool {
    matches!(why, Error::Store(error) if error.is_ephemeral())
}

/// A session as it is on disk.
pub(crate) struct ReadOnlySession {
    pub(super) machine: Machine,
    /// Why it is not live.
    pub(super) why: Error,
}

impl ReadOnlySession {
    pub(super) fn state(&self) -> &SessionState {
        self.machine.state()
    }

    fn has_work(&self) -> bool {
        self.state().has_work()
    }

    /// Whether it may become live in this process.
    fn can_become_live(&self) -> bool {
        is_ephemeral(&self.why)
    }

    /// Whether it is kept for turns that are to go on.
    pub(super) fn is_kept(&self) -> bool {
        self.can_become_live() && self.has_work()
    }
}

/// Whether a store that failed so can still be read.
pub(super) fn can_be_read(error: &unisono_store::Error) -> bool {
    error.is_ephemeral() || matches!(error, unisono_store::Error::ReadOnly { .. })
}

impl State {
    /// Tries whether the session can be live again.
    pub(super) async fn retry_load(&mut self, myself: &ActorRef<Msg>) {
        let may_go_on = match &self.phase {
            Phase::ReadOnly(shown) => shown.can_become_live(),
            Phase::Broken(why) => is_ephemeral(why),
            _ => false,
        };
        if may_go_on {
            self.on_load(myself).await;
        }
    }

    /// Has it tried again later, where turns wait for it.
    pub(super) fn schedule_retry(&self, myself: &ActorRef<Msg>) {
        let is_tried = match &self.phase {
            Phase::ReadOnly(shown) => shown.is_kept(),
            Phase::Broken(why) => is_ephemeral(why),
            _ => false,
        };
        if !is_tried {
            return;
        }
        let myself = myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RETRY_AFTER).await;
            // Gone already: whoever opens it again tries.
            let _ = myself.send_message(Msg::RetryLoad);
        });
    }
}
