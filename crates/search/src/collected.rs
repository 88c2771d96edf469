//! Committed messages that are added to the index together: each addition hands the writer to a thread
//! and back, which takes longer than adding a few messages.

use unisono_context::SessionId;

use crate::committed::{CommittedMessages, PlacedMessage};
use crate::error::Result;
use crate::follow::Follower;
use crate::index::Cursor;

/// Maximum number of commits that are added together.
const COLLECTED_MAX: usize = 256;
/// Maximum number of messages of such a commit. An import has more.
const MESSAGES_MAX: usize = 64;
/// Maximum number of bytes of their texts, so that all of them take little memory.
const TEXT_MAX: usize = 8 << 10;

/// New messages of a session, and its cursor before and after them.
struct Addition {
    session: SessionId,
    from: Cursor,
    to: Cursor,
    messages: Vec<PlacedMessage>,
}

impl Addition {
    /// The messages of a commit that are not indexed yet; none if earlier ones are missing.
    fn new(from: Cursor, committed: &mut CommittedMessages) -> Option<Addition> {
        let known = from.messages.checked_sub(committed.from as u64)?;
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let mut messages = std::mem::take(&mut committed.messages);
        messages.drain(..messages.len().min(known));
        let last = messages.last().map(|placed| placed.message.id);
        let to = Cursor {
            seq: committed.seq.max(from.seq),
            messages: from.messages + messages.len() as u64,
            last: last.or(from.last),
            ..from
        };
        Some(Addition {
            session: committed.session,
            from,
            to,
            messages,
        })
    }
}

fn is_large(committed: &CommittedMessages) -> bool {
    committed.messages.len() > MESSAGES_MAX || committed.text_bytes() > TEXT_MAX
}

impl Follower {
    /// Keeps the messages of a commit until the next commit of the index, or until there are many.
    pub(crate) async fn collect(&mut self, committed: CommittedMessages) -> Result<()> {
        if self.writer.is_none() || is_large(&committed) {
            self.add_collected().await?;
            return self.committed(committed).await;
        }
        if !committed.messages.is_empty() {
            self.commit_later();
        }
        self.collected.push(committed);
        match self.collected.len() < COLLECTED_MAX {
            true => Ok(()),
            false => self.add_collected().await,
        }
    }

    pub(crate) async fn add_collected(&mut self) -> Result<()> {
        let mut additions: Vec<Addition> = Vec::new();
        for mut committed in std::mem::take(&mut self.collected) {
            let session = committed.session;
            let mut newest = additions.iter().rev();
            let earlier = newest.find(|one| one.session == session).map(|one| one.to);
            let cursor = earlier.or_else(|| self.cursor(session));
            match cursor.and_then(|cursor| Addition::new(cursor, &mut committed)) {
                Some(addition) => additions.push(addition),
                // The session is new to the index, or earlier messages are missing.
                None => {
                    self.add_all(std::mem::take(&mut additions)).await?;
                    self.committed(committed).await?;
                }
            }
        }
        self.add_all(additions).await
    }

    async fn add_all(&mut self, additions: Vec<Addition>) -> Result<()> {
        if additions.is_empty() {
            return Ok(());
        }
        if additions.iter().any(|one| !one.messages.is_empty()) {
            self.commit_later();
        }
        self.write(move |writer| {
            for one in &additions {
                writer.add(one.session, one.from, &one.messages)?;
                writer.set(one.session, one.to);
            }
            Ok(())
        })
        .await
    }
}
