//! Catching up with the journal: sessions with an outdated cursor are folded and indexed.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use unisono_context::SessionId;
use unisono_session::State;
use unisono_store::SessionInfo;

use crate::committed::PlacedMessage;
use crate::error::{Error, Result};
use crate::follow::Follower;
use crate::index::Cursor;

/// Events and sessions read at a time.
const PAGE: usize = 1_024;
/// Messages taken in at a time.
const CHUNK: usize = 512;
/// Maximum messages between two commits while a long session is indexed: a kill loses no more.
const COMMIT_EVERY: usize = 16 * CHUNK;

impl Follower {
    /// Indexes all missing messages, and removes deleted sessions. An unreadable session is
    /// skipped: the store reports it.
    pub(crate) async fn sweep(&mut self) -> Result<()> {
        let sessions = self.writer.as_ref().map(|writer| writer.sessions());
        let mut gone: HashSet<SessionId> = sessions.unwrap_or_default().into_iter().collect();
        let mut after = None;
        loop {
            let page = self.journal.sessions(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.session.into());
            for info in page {
                if self.is_closing() {
                    self.shared.behind.store(true, Ordering::Release);
                    return Ok(());
                }
                gone.remove(&info.session.into());
                self.take_in(info).await?;
            }
        }
        for session in gone {
            self.write(move |writer| writer.remove(session)).await?;
        }
        Ok(())
    }

    pub(crate) async fn index_session(&mut self, session: SessionId) -> Result<()> {
        match self.info(session).await? {
            Some(info) => self.take_in(info).await,
            None => self.write(move |writer| writer.remove(session)).await,
        }
    }

    fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire)
    }

    /// The store's information about a session; none if it does not exist.
    pub(crate) async fn info(&self, session: SessionId) -> Result<Option<SessionInfo>> {
        Ok(self.journal.engine().session(session.into()).await?)
    }

    async fn take_in(&mut self, info: SessionInfo) -> Result<()> {
        let session = SessionId::from(info.session);
        let cursor = self.cursor(session);
        let known = cursor.filter(|cursor| cursor.born == info.created_unix_ms);
        if known.is_some_and(|cursor| cursor.seq == info.last_seq) || info.last_seq == 0 {
            return Ok(());
        }
        let state = match self.fold(session).await {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(%session, %error, "a session cannot be searched");
                return Ok(());
            }
        };
        let messages: Vec<PlacedMessage> = PlacedMessage::messages_after(&state, 0).collect();
        let start = match known.filter(|cursor| fits(cursor, &messages)) {
            Some(cursor) => cursor,
            None => {
                if cursor.is_some() {
                    self.write(move |writer| writer.remove(session)).await?;
                }
                Cursor::start(info.created_unix_ms)
            }
        };
        // Until everything is indexed, the cursor marks the session as incomplete.
        let all = messages.len() as u64;
        self.add(session, Cursor { seq: 0, ..start }, messages)
            .await?;
        let cursor = self.cursor(session).ok_or(Error::Closed)?;
        if cursor.messages < all {
            return Ok(());
        }
        let seq = state.events();
        self.write(move |writer| {
            writer.set(session, Cursor { seq, ..cursor });
            Ok(())
        })
        .await
    }

    async fn add(
        &mut self,
        session: SessionId,
        start: Cursor,
        mut messages: Vec<PlacedMessage>,
    ) -> Result<()> {
        messages.drain(..usize::try_from(start.messages).unwrap_or(usize::MAX));
        self.write(move |writer| writer.add(session, start, &[]))
            .await?;
        self.add_parts(session, start, messages).await.map(drop)
    }

    /// Adds messages after the cursor, part by part; false if the index is closed before all are
    /// added.
    pub(crate) async fn add_parts(
        &mut self,
        session: SessionId,
        mut cursor: Cursor,
        messages: Vec<PlacedMessage>,
    ) -> Result<bool> {
        let mut uncommitted = 0;
        let mut rest = messages.into_iter().peekable();
        while rest.peek().is_some() && !self.is_closing() {
            let chunk: Vec<PlacedMessage> = rest.by_ref().take(CHUNK).collect();
            uncommitted += chunk.len();
            self.write(move |writer| writer.add(session, cursor, &chunk))
                .await?;
            cursor = self.cursor(session).unwrap_or(cursor);
            if uncommitted >= COMMIT_EVERY {
                uncommitted = 0;
                self.commit().await?;
            }
        }
        Ok(rest.peek().is_none())
    }

    async fn fold(&self, session: SessionId) -> Result<State, String> {
        let mut state = State::default();
        loop {
            let from = state.events() + 1;
            let page = self.journal.read(session, from, PAGE).await;
            let page = page.map_err(|error| error.to_string())?;
            if page.is_empty() {
                return Ok(state);
            }
            for (seq, event) in &page {
                state
                    .apply(event)
                    .map_err(|error| format!("event {seq} does not fit: {error}"))?;
            }
        }
    }
}

/// Whether the indexed messages are the first of these.
fn fits(cursor: &Cursor, messages: &[PlacedMessage]) -> bool {
    let taken = usize::try_from(cursor.messages).unwrap_or(usize::MAX);
    match taken.checked_sub(1) {
        None => true,
        Some(last) => {
            let last = messages.get(last).map(|placed| placed.message.id);
            last.is_some() && last == cursor.last
        }
    }
}
