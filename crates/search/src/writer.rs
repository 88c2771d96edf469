//! The only writer of an index. It blocks: for threads that may wait for the disk.

use std::collections::{HashMap, HashSet};

use tantivy::indexer::{IndexWriterOptions, LogMergePolicy, NoMergePolicy};
use tantivy::{IndexWriter, TantivyError};
use unisono_context::SessionId;

use crate::committed::PlacedMessage;
use crate::error::Result;
use crate::guarded::guarded;
use crate::index::{Cursor, Index};

/// Memory for uncommitted documents.
const BUFFER_BYTES: usize = 32 << 20;

/// How often merging all segments is tried. Each failure means that an earlier merge has ended.
const MERGE_TRIES: u32 = 32;

/// Writes documents and cursors; both are there, or neither is, after a commit.
pub(crate) struct Writer {
    index: Index,
    writer: IndexWriter,
    cursors: HashMap<SessionId, Cursor>,
    /// Sessions with a changed cursor since the last commit.
    moved: HashSet<SessionId>,
    /// Whether data of removed sessions may be on disk. Unknown at first.
    may_have_removed: bool,
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
            // A writer that was killed during a commit leaves files without a commit. The name of a
            // list of removed documents contains the number of its commit, which is used again: the
            // old file would make every commit fail.
            writer.garbage_collect_files().wait()?;
            Ok(writer)
        })?;
        index.narrow();
        // If the last commit never became visible, the disk was full, and its cursors count.
        index.refresh()?;
        let cursors = index.cursors()?.into_iter().collect();
        Ok(Writer {
            index,
            writer,
            cursors,
            moved: HashSet::new(),
            may_have_removed: true,
        })
    }

    pub(crate) fn cursor(&self, session: SessionId) -> Option<Cursor> {
        self.cursors.get(&session).copied()
    }

    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.cursors.keys().copied().collect()
    }

    /// Adds messages that follow the indexed ones.
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

    pub(crate) fn set(&mut self, session: SessionId, cursor: Cursor) {
        if self.cursors.insert(session, cursor) != Some(cursor) {
            self.moved.insert(session);
        }
    }

    pub(crate) fn remove(&mut self, session: SessionId) -> Result<()> {
        self.may_have_removed = true;
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

    /// Whether there is something to commit.
    pub(crate) fn has_changes(&self) -> bool {
        !self.moved.is_empty()
    }

    /// Makes written documents durable and searchable. Does nothing without changes.
    pub(crate) fn commit(&mut self) -> Result<()> {
        if !self.has_changes() {
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

    /// Frees the space of removed documents by merging all segments into one.
    pub(crate) fn compact(mut self) -> Result<()> {
        self.purge()?;
        guarded("written", || self.writer.wait_merging_threads())
    }

    /// Writes all documents into one segment and removes the others, so that no removed data is on
    /// disk. Only commits if nothing was removed since the last time, and removes files that were left.
    pub(crate) fn purge(&mut self) -> Result<()> {
        if self.may_have_removed {
            self.writer.set_merge_policy(Box::new(NoMergePolicy));
            let merged = self.commit().and_then(|()| self.merge_all());
            self.writer
                .set_merge_policy(Box::<LogMergePolicy>::default());
            merged?;
            // Later searches read the new segment and release the old ones.
            self.index.refresh()?;
        } else {
            self.commit()?;
        }
        guarded("written", || {
            self.writer.garbage_collect_files().wait().map(drop)
        })?;
        self.may_have_removed = false;
        Ok(())
    }
}

impl Writer {
    /// Merges all segments. A merge that began earlier may replace some of them meanwhile: then the
    /// new ones are merged.
    fn merge_all(&mut self) -> Result<()> {
        let mut tries = MERGE_TRIES;
        loop {
            tries -= 1;
            let segments = guarded("read", || self.index.index.searchable_segment_ids())?;
            if segments.is_empty() {
                return Ok(());
            }
            let replaced = guarded("written", || match self.writer.merge(&segments).wait() {
                Ok(_) => Ok(false),
                Err(TantivyError::InvalidArgument(_)) if tries > 0 => Ok(true),
                Err(error) => Err(error),
            })?;
            if !replaced {
                return Ok(());
            }
        }
    }
}

/// The reason why documents are rejected: an ended thread reports it to its caller.
fn cause(writer: &mut IndexWriter, error: TantivyError) -> TantivyError {
    match error {
        TantivyError::ErrorInThread(_) => writer.prepare_commit().err().unwrap_or(error),
        error => error,
    }
}
