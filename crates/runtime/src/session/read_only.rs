//! A session whose store is read-only: its state on disk can be inspected, nothing is changed, and
//! its open turns continue when the disk has space again.

use std::time::Duration;

use ractor::ActorRef;
use unisono_session::{Machine, State as SessionState};

use crate::error::Error;

use super::{Msg, Phase, State};

/// The interval of checks for free space, if turns are open. A request checks at once.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The time for which requests are answered with the result of a try that had no answer.
const TRIED_WITHIN: Duration = Duration::from_secs(1);

/// Whether the store may work later.
fn is_transient(why: &Error) -> bool {
    matches!(why, Error::Store(error) if error.is_transient())
}

/// A session as it is on disk.
pub(crate) struct ReadOnlySession {
    pub(super) machine: Machine,
    /// The reason why it is not live.
    pub(super) why: Error,
}

impl ReadOnlySession {
    pub(super) fn state(&self) -> &SessionState {
        self.machine.state()
    }

    fn has_work(&self) -> bool {
        self.state().has_work()
    }

    fn can_become_live(&self) -> bool {
        is_transient(&self.why)
    }

    /// Whether it stays in memory for turns that will continue.
    pub(super) fn is_kept(&self) -> bool {
        self.can_become_live() && self.has_work()
    }
}

/// Whether a store with this failure can still be read.
pub(super) fn can_be_read(error: &unisono_store::Error) -> bool {
    error.is_transient() || matches!(error, unisono_store::Error::ReadOnly { .. })
}

/// Whether the database did not answer.
pub(super) fn is_unanswered(error: &unisono_store::Error) -> bool {
    matches!(error, unisono_store::Error::Unreachable { .. })
}

impl State {
    /// Tries to make the session live again for a request. A try waits for the database: requests that
    /// came meanwhile do not wait once more.
    pub(super) async fn retry_for_request(&mut self, myself: &ActorRef<Msg>) {
        let is_unanswered = match &self.phase {
            Phase::Broken(Error::Store(error)) => is_unanswered(error),
            _ => false,
        };
        let tried = self.tried_at.map(|tried| tried.elapsed());
        if is_unanswered && tried.is_some_and(|before| before < TRIED_WITHIN) {
            return;
        }
        self.retry_load(myself).await;
    }

    /// Tries to make the session live again.
    pub(super) async fn retry_load(&mut self, myself: &ActorRef<Msg>) {
        let may_go_on = match &self.phase {
            Phase::ReadOnly(shown) => shown.can_become_live(),
            Phase::Broken(why) => is_transient(why),
            _ => false,
        };
        if may_go_on {
            self.on_load(myself).await;
        }
    }

    /// Schedules another try, if turns wait for it.
    pub(super) fn schedule_retry(&self, myself: &ActorRef<Msg>) {
        let is_tried = match &self.phase {
            Phase::ReadOnly(shown) => shown.is_kept(),
            Phase::Broken(why) => is_transient(why),
            _ => false,
        };
        if !is_tried {
            return;
        }
        let myself = myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RETRY_AFTER).await;
            // Already gone: the next opening tries.
            let _ = myself.send_message(Msg::RetryLoad);
        });
    }
}
