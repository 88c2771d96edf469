//! The only writer of an index. It blocks: for threads that may wait for the disk.

use std::collections::{HashMap, HashSet};

use tantivy::indexer::IndexWriterOptions;
use tantivy::{IndexWriter, TantivyError};
use unisono_context::SessionId;

use crate::committed::PlacedMessage;
use crate::error::Result;
use crate::guarded::guarded;
use crate::index::{Cursor, Index};

/// Memory for what is not written yet.
const BUFFER_BYTES: usize = 32 << 20;

/// Writes documents and cursors; both are there, or neither is, after a commit.
pub(crate) struct Writer {
    index: Index,
    writer: IndexWriter,
    cursors: HashMap<SessionId, Cursor>,
    /// Sessions whose cursor was moved since the last commit.
    moved: HashSet<SessionId>,
}

impl Writer {
    /// Takes the index to write to it.
    pub(crate) fn open(index: Index) -> Result<Writer> {
        let options = IndexWriterOptions::builder()
            .memory_budget_per_thread(BUFFER_BYTES)
            .num_worker_threads(1)
            .num_merge_threads(1)
            .build();
        let writer = guarded("written", || {
            let writer: IndexWriter = index.index.writer_with_options(options)?;
            // A writer that was killed in a commit leaves files that no commit names. A list of
            // removed documents is named by the commit's number, which this one counts up to
            // again: with the old file in the way, no commit would succeed.
            writer.garbage_collect_files().wait()?;
            Ok(writer)
        })?;
        index.narrow();
        // Where the last commit could not be seen any more, the disk was full, its cursors count.
        index.refresh()?;
        let cursors = index.cursors()?.into_iter().collect();
        Ok(Writer {
            index,
            writer,
            cursors,
            moved: HashSet::new(),
        })
    }

    /// How far a session is taken in.
    pub(crate) fn cursor(&self, session: SessionId) -> Option<Cursor> {
        self.cursors.get(&session).copied()
    }

    /// The sessions that are in the index.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.cursors.keys().copied().collect()
    }

    /// Takes messages in that follow those taken in so far.
    pub(crate) fn add(
        &mut self,
        session: SessionId,
        from: Cursor,
        messages: &[PlacedMessage],
    ) -> Result<()> {
        for placed in messages {
            let document = self.index.fields.message(session, placed);
            let writer = &mut self.writer;
            guarded("written", || match writer.add_document(document) {
                Err(error) => Err(cause(writer, error)),
                added => added,
            })?;
        }
        let cursor = Cursor {
            messages: from.messages + messages.len() as u64,
            last: messages
                .last()
                .map_or(from.last, |placed| Some(placed.message.id)),
            ..from
        };
        self.set(session, cursor);
        Ok(())
    }

    /// Says how far a session is looked at.
    pub(crate) fn set(&mut self, session: SessionId, cursor: Cursor) {
        if self.cursors.insert(session, cursor) != Some(cursor) {
            self.moved.insert(session);
        }
    }

    /// Forgets a session.
    pub(crate) fn remove(&mut self, session: SessionId) -> Result<()> {
        let fields = self.index.fields;
        guarded("written", || {
            self.writer.delete_term(fields.of_session(session));
            self.writer.delete_term(fields.cursor_of(session));
            Ok(())
        })?;
        self.cursors.remove(&session);
        self.moved.insert(session);
        Ok(())
    }

    /// Makes durable what was written, and lets searches see it. Without changes it does nothing.
    pub(crate) fn commit(&mut self) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let fields = self.index.fields;
        for session in self.moved.drain() {
            let cursor = self.cursors.get(&session);
            guarded("written", || {
                self.writer.delete_term(fields.cursor_of(session));
                if let Some(cursor) = cursor {
                    self.writer.add_document(fields.cursor(session, cursor))?;
                }
                Ok(())
            })?;
        }
        guarded("written", || self.writer.commit())?;
        self.index.refresh()
    }

    /// Gives the space of what was removed back: one segment of all there is.
    pub(crate) fn compact(mut self) -> Result<()> {
        self.purge()?;
        guarded("written", || self.writer.wait_merging_threads())
    }

    /// Writes all there is into one segment and removes the others: nothing that was removed is on
    /// disk any more.
    pub(crate) fn purge(&mut self) -> Result<()> {
        self.commit()?;
        let segments = guarded("read", || self.index.index.searchable_segment_ids())?;
        if !segments.is_empty() {
            guarded("written", || self.writer.merge(&segments).wait())?;
        }
        // The searches from now on read the new one, and let go of the old ones.
        self.index.refresh()?;
        guarded("written", || {
            self.writer.garbage_collect_files().wait().map(drop)
        })
    }
}

/// Why documents are not taken: a thread that has ended tells it to whoever waits for it.
fn cause(writer: &mut IndexWriter, error: TantivyError) -> TantivyError {
    match error {
        TantivyError::ErrorInThread(_) => writer.prepare_commit().err().unwrap_or(error),
        error => error,
    }
}
