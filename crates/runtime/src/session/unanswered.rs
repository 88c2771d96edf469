//! An append that the store does not answer. The session keeps its state, its running calls and
//! their results, and appends again until there is an answer; requests of clients are refused
//! meanwhile. Otherwise the results of calls that end during an outage would be lost. If these are too
//! large for one append, they are appended in parts.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use unisono_session::Event;
use unisono_store::Error as StoreError;

use crate::error::Error;

use super::{Live, Msg, Phase, State};

/// The pause before another try. Each try waits for the store, too.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whether an append that failed is tried again. A session that has to be on disk before the program
/// stops does not wait longer.
pub(super) fn can_retry(live: &Live, error: &StoreError) -> bool {
    error.is_unanswered() && live.drained.is_none()
}

/// Whether an append was refused because of its size, and has several events.
pub(super) fn can_divide(live: &Live, error: &StoreError) -> bool {
    matches!(error, StoreError::TooLarge { .. }) && live.in_flight.len() > 1
}

/// The result of an append after an earlier try without an answer. Only this session appends under its
/// claim: a journal that has as many events more as the append was written by the earlier try.
pub(super) fn settle(
    result: Result<u64, StoreError>,
    expected: u64,
    events: &[Event],
) -> Result<u64, StoreError> {
    let last = expected + events.len() as u64;
    match result {
        Err(StoreError::Conflict { last_seq, .. }) if last_seq == last => Ok(last),
        result => result,
    }
}

impl State {
    /// Why the store does not answer.
    pub(super) fn unanswered(&self) -> Option<Error> {
        match &self.phase {
            Phase::Live(live) => live.unanswered.clone(),
            _ => None,
        }
    }

    /// Has the events in flight appended again, later.
    pub(super) fn retry_append(&mut self, myself: &ActorRef<Msg>, error: Error) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if live.unanswered.is_none() {
            tracing::warn!(session = %self.args.id, %error, "a session waits for its store");
        }
        live.refuse_requests(&error);
        live.unanswered = Some(error);
        let myself = myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RETRY_AFTER).await;
            // A session that has left reads its journal when it returns.
            let _ = myself.send_message(Msg::RetryAppend);
        });
    }

    /// Has the first half of the events in flight appended, and later the others.
    pub(super) fn divide_append(&mut self, myself: &ActorRef<Msg>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let mut first = Arc::unwrap_or_clone(std::mem::take(&mut live.in_flight));
        let mut rest = first.split_off(first.len() / 2);
        rest.append(&mut live.pending);
        live.pending = rest;
        live.in_flight = Arc::new(first);
        self.send_append(myself);
    }

    pub(super) fn on_retry_append(&mut self, myself: &ActorRef<Msg>) {
        if self.unanswered().is_some() {
            self.send_append(myself);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unisono_context::Timestamp;
    use unisono_session::Fact;
    use unisono_store::SessionId;

    #[test]
    fn an_earlier_try_that_was_written_is_known_by_the_last_event() {
        let event = Event {
            at: Timestamp(0),
            fact: Fact::Pinned {
                messages: Vec::new(),
            },
        };
        let events = [event.clone(), event];
        let conflict = |last_seq| {
            let session = SessionId::from_u128(1);
            Err(StoreError::Conflict {
                session,
                expected_seq: 4,
                last_seq,
            })
        };
        assert_eq!(settle(conflict(6), 4, &events).ok(), Some(6));
        assert_eq!(settle(Ok(6), 4, &events).ok(), Some(6));
        for last_seq in [3, 5, 7] {
            assert!(settle(conflict(last_seq), 4, &events).is_err());
        }
    }
}
