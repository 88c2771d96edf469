//! A session whose store is read-only: its state on disk can be inspected, nothing is changed, and
//! its open turns continue when the disk has space again.

use std::time::Duration;

use ractor::ActorRef;
use unisono_session::State as SessionState;

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
    pub(super) state: SessionState,
    /// The reason why it is not live.
    pub(super) why: Error,
}

impl ReadOnlySession {
    pub(super) fn state(&self) -> &SessionState {
        &self.state
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

/// Whether two tries failed in the same way.
fn is_alike(before: &Error, now: &Error) -> bool {
    match (before, now) {
        (Error::Store(before), Error::Store(now)) if before.is_unanswered() => now.is_unanswered(),
        _ => before.to_string() == now.to_string(),
    }
}

impl State {
    /// Logs why the session cannot be opened, in short if the try before failed in the same way: while a
    /// database is away, each session with open turns is tried again and again.
    pub(super) fn log_failure(&self, error: &Error) {
        let session = self.args.id;
        match &self.phase {
            Phase::Broken(before) if is_alike(before, error) => {
                tracing::warn!(%session, "the session still cannot be opened");
            }
            _ => tracing::error!(%session, %error, "session cannot be opened"),
        }
    }

    /// Tries to make the session live again for a request. A try waits for the store: requests that
    /// came meanwhile do not wait once more.
    pub(super) async fn retry_for_request(&mut self, myself: &ActorRef<Msg>) {
        let is_unanswered = match &self.phase {
            Phase::Broken(Error::Store(error)) => error.is_unanswered(),
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

    /// Whether it tries to become live by itself: its turns may wait for that.
    pub(super) fn is_tried_again(&self) -> bool {
        match &self.phase {
            Phase::ReadOnly(shown) => shown.is_kept(),
            Phase::Broken(why) => is_transient(why),
            _ => false,
        }
    }

    /// Schedules another try, if turns wait for it, in place of an earlier one: each request of a client
    /// is a try, too. A session that cannot be opened or written for another reason leaves memory, so that
    /// the next request opens it: the cause may be gone by then, such as too many open files. Only a
    /// request opens it: without one, each refused result would make it repeat and pay its runs.
    pub(super) fn schedule_retry(&mut self, myself: &ActorRef<Msg>) {
        self.retries.abort_all();
        // Removes timers that have ended.
        while self.retries.try_join_next().is_some() {}
        let next = match &self.phase {
            _ if self.is_tried_again() => Msg::RetryLoad,
            Phase::Broken(_) => Msg::Leave,
            _ => return,
        };
        let myself = myself.clone();
        self.retries.spawn(async move {
            tokio::time::sleep(RETRY_AFTER).await;
            // Already gone: the next opening tries.
            let _ = myself.send_message(next);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_does_not_answer_fails_in_one_way_whatever_it_says() {
        let away = |reason: &str| {
            let reason = reason.to_owned();
            Error::from(unisono_store::Error::Unreachable { reason })
        };
        let full = |reason: &str| {
            let reason = reason.to_owned();
            Error::from(unisono_store::Error::DatabaseFull { reason })
        };
        assert!(is_alike(&away("refused"), &away("it does not answer")));
        assert!(is_alike(&full("no space"), &full("no space")));
        assert!(!is_alike(&away("refused"), &full("refused")));
        assert!(!is_alike(&full("refused"), &away("refused")));
        assert!(!is_alike(&full("no space"), &full("no inodes")));
    }
}
