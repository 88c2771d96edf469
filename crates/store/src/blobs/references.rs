//! The references to a content: the events of its journal after the first one.
//!
//! Each event is in a block with events of other journals, so many of them take long to read. A
//! checkpoint has all references up to an event.

use std::collections::BTreeSet;

use super::LAST;
use crate::engine::{Checkpoint, Engine, SessionId, is_of_a_session};
use crate::error::{Error, Record, Result};
use crate::record;

/// Events per read.
const PAGE: usize = 1_024;
/// Number of events after which a checkpoint is written.
const FOLD_AFTER: u64 = 256;

/// The references to a content.
pub(super) struct References {
    /// The sessions that refer to it, and the marks of its uploaders.
    pub(super) named: BTreeSet<SessionId>,
    /// Whether it was uploaded after the newest reference of a session.
    pub(super) is_uploaded: bool,
    /// The last event.
    last: u64,
    /// The last event that the checkpoint covers.
    folded: u64,
}

impl References {
    pub(super) async fn read(engine: &dyn Engine, journal: SessionId) -> Result<References> {
        let mut references = References::restore(engine, journal).await?;
        loop {
            let page = engine.read(journal, references.last + 1, PAGE).await?;
            if page.is_empty() {
                return Ok(references);
            }
            for event in page {
                let of = Record::Event {
                    session: journal,
                    seq: event.seq,
                };
                let note = record::decode_own(&event.payload);
                let (id, names): ([u8; 16], bool) =
                    note.map_err(|fault| Error::unreadable(of, fault))?;
                references.take(session_of(id), names);
                references.last = event.seq;
            }
        }
    }

    /// The references in the checkpoint. Without a readable one, all are in the events after the content.
    async fn restore(engine: &dyn Engine, journal: SessionId) -> Result<References> {
        let saved = match engine.latest_checkpoint(journal).await {
            Err(Error::Corrupt { .. }) => None,
            saved => saved?,
        };
        let Some(Checkpoint { seq, state }) = saved else {
            return Ok(References {
                named: BTreeSet::new(),
                is_uploaded: true,
                last: 1,
                folded: 1,
            });
        };
        let of = Record::Checkpoint { session: journal };
        let (named, is_uploaded): (Vec<[u8; 16]>, bool) =
            record::decode_own(&state).map_err(|fault| Error::unreadable(of, fault))?;
        Ok(References {
            named: named.into_iter().map(session_of).collect(),
            is_uploaded,
            last: seq,
            folded: seq,
        })
    }

    fn take(&mut self, session: SessionId, names: bool) {
        match is_of_a_session(session) {
            true => self.is_uploaded &= !names,
            // The removal of an uploader's mark is no upload.
            false => self.is_uploaded |= names || session == LAST,
        }
        match names {
            true => self.named.insert(session),
            false => self.named.remove(&session),
        };
    }

    /// Writes a checkpoint, if there are many events since the last one.
    pub(super) async fn save(
        &self,
        engine: &dyn Engine,
        journal: SessionId,
        epoch: u64,
    ) -> Result<()> {
        if self.last.saturating_sub(self.folded) <= FOLD_AFTER {
            return Ok(());
        }
        let named: Vec<[u8; 16]> = self.named.iter().map(|id| *id.0.as_bytes()).collect();
        let checkpoint = Checkpoint {
            seq: self.last,
            state: record::encode_entry(&(named, self.is_uploaded), journal, self.last)?,
        };
        engine.put_checkpoint(journal, epoch, checkpoint).await
    }
}

fn session_of(id: [u8; 16]) -> SessionId {
    SessionId::from_u128(u128::from_be_bytes(id))
}

/// Encodes the event that adds or removes a reference of a session to a content.
pub(super) fn note(
    session: SessionId,
    names: bool,
    journal: SessionId,
    seq: u64,
) -> Result<Vec<u8>> {
    record::encode_entry(&(*session.0.as_bytes(), names), journal, seq)
}
