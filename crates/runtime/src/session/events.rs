//! Following a session: its journal is read from a cursor, the channel only wakes.

use std::collections::VecDeque;

use tokio::sync::watch;
use unisono_context::SessionId;
use unisono_session::Event;
use unisono_store::Journal;

use crate::runtime::Error;

/// Events read at a time.
const PAGE: usize = 256;

/// The durable events of a session from a cursor on, each once and in order.
#[derive(Debug)]
pub struct Events {
    journal: Journal,
    session: SessionId,
    next: u64,
    read: VecDeque<(u64, Event)>,
    durable: watch::Receiver<u64>,
}

impl Events {
    pub(super) fn new(
        journal: Journal,
        session: SessionId,
        after: u64,
        durable: watch::Receiver<u64>,
    ) -> Events {
        Events {
            journal,
            session,
            next: after + 1,
            read: VecDeque::new(),
            durable,
        }
    }

    /// The next event with its sequence number, as soon as it is on disk. None once the session
    /// has left memory and there are no more.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn next(&mut self) -> Result<Option<(u64, Event)>, Error> {
        loop {
            if let Some((seq, event)) = self.read.pop_front() {
                self.next = seq + 1;
                return Ok(Some((seq, event)));
            }
            let more = *self.durable.borrow_and_update() >= self.next;
            if more {
                self.read
                    .extend(self.journal.read(self.session, self.next, PAGE).await?);
            } else if self.durable.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}
