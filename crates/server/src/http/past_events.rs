//! The events of a session from the journal: the owner of the session cannot be asked.
//!
//! The journal is read again each second: it has no progress, and another daemon writes it. The stream
//! ends after a while, so that its client asks the owner again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use unisono_context::SessionId;
use unisono_session::Event;

use super::Shared;
use super::events::{KEEP_ALIVE, recorded_event};
use crate::turn_follower::Pauses;

/// Events per read.
const PAGE: usize = 256;
/// The time after which a stream ends that has nothing new.
pub(super) const ENDS_AFTER: Duration = Duration::from_secs(15);

/// The events of a session after a number.
pub(super) struct PastEvents {
    shared: Arc<Shared>,
    session: SessionId,
    after: u64,
    /// Events that were read and not sent yet.
    read: VecDeque<(u64, Event)>,
    pauses: Pauses,
    _place: OwnedSemaphorePermit,
}

impl PastEvents {
    pub(super) fn new(
        shared: Arc<Shared>,
        session: SessionId,
        after: u64,
        place: OwnedSemaphorePermit,
    ) -> PastEvents {
        PastEvents {
            pauses: Pauses::new(&shared.stopping, Some(ENDS_AFTER)),
            shared,
            session,
            after,
            read: VecDeque::new(),
            _place: place,
        }
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<(u64, Event)> {
        loop {
            if let Some((seq, event)) = self.read.pop_front() {
                self.after = seq;
                return Some((seq, event));
            }
            let journal = self.shared.local.journal();
            match journal.read(self.session, self.after + 1, PAGE).await {
                Ok(read) => self.read = read.into(),
                Err(error) => {
                    tracing::warn!(%error, "a stream of events ends early");
                    return None;
                }
            }
            if self.read.is_empty() && !self.pauses.wait().await {
                return None;
            }
        }
    }
}

impl IntoResponse for PastEvents {
    fn into_response(self) -> Response {
        let events = stream::unfold(self, |mut stream| async move {
            let (seq, event) = stream.next().await?;
            Some((
                Ok::<_, Infallible>(recorded_event(seq, &event.into())),
                stream,
            ))
        });
        let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
        Sse::new(events).keep_alive(keep_alive).into_response()
    }
}
