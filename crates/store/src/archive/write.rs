//! The file's side of an export.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use tokio::sync::mpsc;

use crate::archive::end_key;
use crate::codec::Block;
use crate::engine::{Checkpoint, SessionId};
use crate::envelope::{self, Key, Kind};
use crate::error::{Error, Record, Result};
use crate::private;
use crate::row::{self, ArchiveEnd, Body, CheckpointRow, EventRow, Head, Stamp};

/// The first line of archives from before format 1.
pub(super) const EARLIER_LINE: &[u8] = b"unisono archive, schema 1\n";
pub(super) const FIRST_LINE: &[u8] = b"unisono archive, format 1\n";

pub(super) enum Section {
    /// Events, each with its number, its stamp and its payload.
    Events {
        session: SessionId,
        links: Vec<((u64, Stamp), Vec<u8>)>,
    },
    Checkpoint {
        session: SessionId,
        checkpoint: Checkpoint,
    },
    Head {
        session: SessionId,
        head: Head,
    },
    End,
}

/// Writes sections until the end section; if that never arrives, the file is removed.
pub(super) fn file(path: &Path, mut sections: mpsc::Receiver<Section>) -> Result<()> {
    let file = private::create_new(path).map_err(|error| Error::io("create", path, error))?;
    let mut archive = Archive {
        out: BufWriter::new(file),
        path,
        hasher: blake3::Hasher::new(),
        records: 0,
    };
    let result = archive.write_all(&mut sections);
    if !matches!(result, Ok(true))
        && let Err(error) = std::fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished archive");
    }
    result.map(drop)
}

struct Archive<'a> {
    out: BufWriter<File>,
    path: &'a Path,
    hasher: blake3::Hasher,
    records: u64,
}

impl Archive<'_> {
    /// Returns whether the archive was finished. If it was not, the sender has the reason.
    fn write_all(&mut self, sections: &mut mpsc::Receiver<Section>) -> Result<bool> {
        self.write(FIRST_LINE)?;
        while let Some(section) = sections.blocking_recv() {
            if matches!(section, Section::End) {
                return self.finish().map(|()| true);
            }
            self.section(section)?;
        }
        Ok(false)
    }

    fn section(&mut self, section: Section) -> Result<()> {
        match section {
            Section::Events { session, links } => {
                links.into_iter().try_for_each(|((seq, stamp), payload)| {
                    let body = Body::Inline(Block(payload));
                    let row = EventRow { stamp, body };
                    self.record(
                        Kind::Event,
                        row::key(session, seq),
                        &row,
                        Record::Event { session, seq },
                    )
                })
            }
            Section::Checkpoint {
                session,
                checkpoint,
            } => {
                let row = CheckpointRow {
                    epoch: 1,
                    body: Body::Inline(Block(checkpoint.state)),
                };
                self.record(
                    Kind::Checkpoint,
                    row::key(session, checkpoint.seq),
                    &row,
                    Record::Checkpoint { session },
                )
            }
            Section::Head { session, head } => self.record(
                Kind::Head,
                row::key(session, 0),
                &head,
                Record::Head { session },
            ),
            Section::End => Ok(()),
        }
    }

    fn record<T: serde::Serialize>(
        &mut self,
        kind: Kind,
        key: Key,
        row: &T,
        record: Record,
    ) -> Result<()> {
        let sealed = envelope::seal(kind, key, row);
        self.records += 1;
        self.write(&sealed.map_err(|reason| Error::Encode { record, reason })?)
    }

    fn finish(&mut self) -> Result<()> {
        let end = ArchiveEnd {
            records: self.records,
            digest: *self.hasher.finalize().as_bytes(),
        };
        self.record(Kind::ArchiveEnd, end_key(), &end, Record::SessionList)?;
        let synced = self
            .out
            .flush()
            .and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(|error| Error::io("write", self.path, error))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.out
            .write_all(bytes)
            .map_err(|error| Error::io("write", self.path, error))
    }
}
