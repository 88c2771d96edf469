//! Follows a session: its newest events come from its feed, older ones from its journal, read from
//! a cursor; the channel only wakes.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use unisono_context::SessionId;

use super::feed::{BegunReplies, Recent, SharedEvent};
use crate::env::Env;
use crate::error::Error;

/// The maximum number of events per read of a follower that has fallen behind.
const PAGE: usize = 32;
/// The maximum size of those of them that it keeps until they are taken, in bytes on disk, without
/// the first.
const PAGE_BYTES: usize = 16 * 1024;

/// The durable events of a session from a cursor on, each once and in order.
#[derive(Debug)]
pub struct Events {
    env: Arc<Env>,
    session: SessionId,
    next: u64,
    /// The number of events of the next read: smaller if events are large.
    page: usize,
    read: VecDeque<(u64, Arc<SharedEvent>)>,
    durable: watch::Receiver<u64>,
    recent: Recent,
    pub(super) begun: BegunReplies,
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
            page: PAGE,
            read: VecDeque::new(),
            durable,
            recent,
            begun: BegunReplies::default(),
        }
    }

    /// Takes the replies of whose text some was sent before it followed.
    pub fn take_begun(&mut self) -> BegunReplies {
        std::mem::take(&mut self.begun)
    }

    /// The next event with its sequence number, as soon as it is on disk. None after the session
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

    /// Whether there are events on disk that were not taken yet.
    pub fn is_behind(&self) -> bool {
        *self.durable.borrow() >= self.next
    }

    /// The number of followers of the session, this one included.
    pub fn followers(&self) -> usize {
        self.recent.followers()
    }

    /// Continues to read the journal, with few others at a time, because each read takes a thread.
    /// False if there is no more, because the session was deleted.
    async fn read_on(&mut self) -> Result<bool, Error> {
        let _place = self.env.catching_up.acquire().await;
        let journal = &self.env.journal;
        let read = journal.read_within(self.session, self.next, self.page, PAGE_BYTES);
        let read = read.await?;
        self.page = (2 * read.len()).clamp(1, PAGE);
        let read = read.into_iter();
        self.read
            .extend(read.map(|(seq, event)| (seq, Arc::new(SharedEvent::from(event)))));
        Ok(!self.read.is_empty())
    }
}
