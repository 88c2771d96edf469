//! Following a session: its newest events come from its feed, older ones from its journal, read
//! from a cursor; the channel only wakes.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use unisono_context::SessionId;

use super::feed::{Recent, SharedEvent};
use crate::runtime::{Env, Error};

/// Events read at a time by one that has fallen behind.
const PAGE: usize = 32;

/// The durable events of a session from a cursor on, each once and in order.
#[derive(Debug)]
pub struct Events {
    env: Arc<Env>,
    session: SessionId,
    next: u64,
    read: VecDeque<(u64, Arc<SharedEvent>)>,
    durable: watch::Receiver<u64>,
    recent: Recent,
}

impl Events {
    pub(super) fn new(
        env: Arc<Env>,
        session: SessionId,
        after: u64,
        durable: watch::Receiver<u64>,
        recent: Recent,
    ) -> Events {
        Events {
            env,
            session,
            next: after + 1,
            read: VecDeque::new(),
            durable,
            recent,
        }
    }

    /// The next event with its sequence number, as soon as it is on disk. None once the session
    /// was deleted or the runtime has stopped.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn next(&mut self) -> Result<Option<(u64, Arc<SharedEvent>)>, Error> {
        loop {
            if let Some((seq, event)) = self.read.pop_front() {
                self.next = seq + 1;
                return Ok(Some((seq, event)));
            }
            let more = *self.durable.borrow_and_update() >= self.next;
            if !more {
                if self.durable.changed().await.is_err() {
                    return Ok(None);
                }
            } else if let Some(event) = self.recent.get(self.next) {
                self.read.push_back((self.next, event));
            } else if !self.read_on().await? {
                return Ok(None);
            }
        }
    }

    /// Reads on in the journal, with few others at a time: each read takes a thread. False where
    /// there is no more, because the session was deleted.
    async fn read_on(&mut self) -> Result<bool, Error> {
        let _place = self.env.catching_up.acquire().await;
        let read = self.env.journal.read(self.session, self.next, PAGE).await?;
        let read = read.into_iter();
        self.read
            .extend(read.map(|(seq, event)| (seq, Arc::new(SharedEvent::from(event)))));
        Ok(!self.read.is_empty())
    }
}
