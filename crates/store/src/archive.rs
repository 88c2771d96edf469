//! Moves whole sessions between engines, as one file of the envelopes that the disk engine writes.
//!
//! The file starts with the line `unisono archive, format 1\n`. For every session its events follow
//! in order, then its checkpoint if it has one, and its head as the last record. The audit log comes
//! before the sessions. After them a second, empty head takes back each session that was deleted during
//! the export. The file ends with an end record, which has the number of records and a hash of
//! everything before it. An import checks the whole file before it stores anything.

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tokio::sync::mpsc;

use crate::engine::is_of_a_session;
use crate::engine::{Append, DELETED_USAGE, Engine, SessionId, SessionInfo, TOKENS};
use crate::error::{Error, Result};
use crate::journal::deleted_usage;
use crate::row::{self, Head};
use crate::{audit, blobs, imports, tokens};

use read::{Item, Journals};
use write::Section;

/// Number of sessions listed, and of events read, at a time.
const PAGE: usize = 256;
/// Capacity of the queue between the engine's side and the file's side, in sections or items of at
/// most a page.
const QUEUE: usize = 4;

/// Counts of what an export or import moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveCounts {
    /// Sessions.
    pub sessions: u64,
    /// Events.
    pub events: u64,
    /// State checkpoints.
    pub checkpoints: u64,
    /// Tokens of the archive that were not imported, because the store has another one of the same
    /// name.
    pub skipped_tokens: u64,
}

/// Writes all sessions of an engine into a new file.
///
/// # Errors
/// The engine's, and `Io` for the file, which must not exist yet; an unfinished one is removed.
pub async fn export(engine: &dyn Engine, path: &Path) -> Result<ArchiveCounts> {
    let (sender, sections) = mpsc::channel(QUEUE);
    let to = path.to_path_buf();
    let writing = tokio::task::spawn_blocking(move || write::file(&to, sections));
    let sent = send_all(engine, sender).await;
    // This side stopped because the file's side failed, so the error of the file's side is
    // returned.
    writing.await.unwrap_or_else(|error| Err(stopped(&error)))?;
    sent
}

/// A journal as it was written.
struct Sent {
    session: SessionId,
    last_seq: u64,
    has_checkpoint: bool,
}

async fn send_all(engine: &dyn Engine, sections: mpsc::Sender<Section>) -> Result<ArchiveCounts> {
    let mut sent = Vec::new();
    // First: the entries of an import follow those of the archive.
    for segment in engine.existing(audit::journals().collect()).await? {
        sent.push(send_session(engine, &sections, &segment).await?);
    }
    let mut after = None;
    loop {
        let page = engine.sessions(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.session);
        // Sessions of unfinished imports are left out, also if the import began after the export.
        let mut left_out = imports::unfinished(engine).await?;
        left_out.insert(imports::ID);
        left_out.extend(audit::journals());
        for info in page.iter().filter(|info| !left_out.contains(&info.session)) {
            sent.push(send_session(engine, &sections, info).await?);
        }
    }
    let mut moved = ArchiveCounts::default();
    for part in sent.chunks(PAGE) {
        take_back(engine, &sections, part, &mut moved).await?;
    }
    send(&sections, Section::End).await.map(|()| moved)
}

async fn send_session(
    engine: &dyn Engine,
    sections: &mpsc::Sender<Section>,
    info: &SessionInfo,
) -> Result<Sent> {
    let session = info.session;
    // Read before the events, so that it covers none that are not in the archive.
    let checkpoint = engine.latest_checkpoint(session).await?;
    let mut head = Head::claimed(session, None, 0);
    loop {
        // A session without events may be that of an import that begins now.
        let events = match info.last_seq {
            0 => Vec::new(),
            _ => engine.read(session, head.last_seq + 1, PAGE).await?,
        };
        if events.is_empty() {
            break;
        }
        let links = events
            .into_iter()
            .map(|event| (head.push(&event.payload, 0), event.payload))
            .collect();
        send(sections, Section::Events { session, links }).await?;
    }
    // The session may have been deleted meanwhile.
    let checkpoint = checkpoint.filter(|checkpoint| checkpoint.seq <= head.last_seq);
    let sent = Sent {
        session,
        last_seq: head.last_seq,
        has_checkpoint: checkpoint.is_some(),
    };
    if let Some(checkpoint) = checkpoint {
        send(
            sections,
            Section::Checkpoint {
                session,
                checkpoint,
            },
        )
        .await?;
    }
    send(sections, Section::Head { session, head }).await?;
    Ok(sent)
}

/// Takes back the sessions that were deleted since they were read, which may be written in part, and
/// counts the other journals.
async fn take_back(
    engine: &dyn Engine,
    sections: &mpsc::Sender<Section>,
    sent: &[Sent],
    moved: &mut ArchiveCounts,
) -> Result<()> {
    let ids = sent.iter().map(|one| one.session);
    let now = engine.existing(ids.collect()).await?.into_iter();
    let now: BTreeMap<SessionId, u64> = now.map(|info| (info.session, info.last_seq)).collect();
    for one in sent {
        let session = one.session;
        // Another session may have its id now.
        let is_there = now.get(&session).is_some_and(|last| *last >= one.last_seq);
        if is_of_a_session(session) && !is_there {
            let head = Head::claimed(session, None, 0);
            send(sections, Section::Head { session, head }).await?;
            continue;
        }
        moved.sessions += u64::from(is_of_a_session(session));
        moved.events += one.last_seq;
        moved.checkpoints += u64::from(one.has_checkpoint);
    }
    Ok(())
}

async fn send(sections: &mpsc::Sender<Section>, section: Section) -> Result<()> {
    sections.send(section).await.map_err(|_| Error::Closed)
}

fn stopped(error: &tokio::task::JoinError) -> Error {
    Error::engine("work on an archive", error)
}

/// Stores all sessions of an archive. If any part of it is damaged, or any of its sessions exists
/// already, nothing is stored. If the engine fails during the import, or the process ends, the
/// sessions that were begun are deleted again.
///
/// The usage of deleted sessions is added to that of this store by the write that ends the import,
/// so an import that is repeated adds it once. The grants of the archive's daemon are imported only
/// into a store without grants: a store's own limits stay as they are. The audit log is imported only
/// into a store without one.
///
/// # Errors
/// `BadArchive`, `SessionExists`, `Io`, and the engine's.
pub async fn import(engine: &dyn Engine, path: &Path) -> Result<ArchiveCounts> {
    let from = path.to_path_buf();
    let checking = tokio::task::spawn_blocking(move || read::check(&from));
    let Journals { whole, deleted } = checking
        .await
        .unwrap_or_else(|error| Err(stopped(&error)))?;
    // Sessions of unfinished imports are left out.
    let left = imports::abandoned(engine).await?;
    imports::delete_all(engine, &left).await?;
    let log = engine.existing(audit::journals().collect()).await?;
    let has_log = log.iter().any(|segment| segment.last_seq > 0);
    let mut kept: Vec<SessionId> = deleted.into_iter().collect();
    for &session in &whole {
        if has_log && audit::journals().any(|segment| segment == session) {
            kept.push(session);
            continue;
        }
        let Some(known) = engine.session(session).await? else {
            continue;
        };
        if is_of_a_session(session) {
            return Err(Error::SessionExists { session });
        }
        // The usage of deleted sessions and the tokens are added by the last writes in any case.
        if known.last_seq > 0 || session == DELETED_USAGE || session == TOKENS {
            kept.push(session);
        }
    }
    // If the process ends before the import does, the next process that opens the store deletes
    // them.
    let made: BTreeSet<SessionId> = whole
        .into_iter()
        .filter(|session| !kept.contains(session))
        .collect();
    imports::begin(engine, &made).await?;
    let stored = store_whole(engine, path, &kept, &made).await;
    // The original error is returned. What cannot be deleted now is deleted when the store is next
    // opened.
    if stored.is_err()
        && let Err(error) = imports::delete_all(engine, &made).await
    {
        tracing::warn!(%error, "an unfinished import is taken back later");
    }
    stored
}

/// The parts of an archive that belong to journals of this store.
#[derive(Default)]
struct Kept {
    /// The usage of deleted sessions.
    left: Vec<Vec<u8>>,
    /// The events of tokens.
    tokens: Vec<Vec<u8>>,
    /// The events of contents of attachments. The first of each is the content itself.
    contents: BTreeMap<SessionId, Vec<Vec<u8>>>,
}

impl Kept {
    fn take(&mut self, journal: SessionId, payloads: Vec<Vec<u8>>) {
        if journal == DELETED_USAGE {
            self.left.extend(payloads);
        } else if journal == TOKENS {
            self.tokens.extend(payloads);
        } else if blobs::is_blob(journal) {
            let events = self.contents.entry(journal).or_default();
            let is_first = events.is_empty();
            events.extend(payloads);
            if let Some(content) = events.first_mut().filter(|_| is_first) {
                // The journal exists in this store.
                content.clear();
            }
        }
    }
}

/// Stores the content of an archive. To the journals in `kept`, which exist already, only three things
/// are added: the usage of deleted sessions, the sessions that name an attachment's content, and tokens.
async fn store_whole(
    engine: &dyn Engine,
    path: &Path,
    kept: &[SessionId],
    made: &BTreeSet<SessionId>,
) -> Result<ArchiveCounts> {
    let mut kept_journals = Kept::default();
    let mut moved = store_all(engine, path, kept, &mut kept_journals).await?;
    for (journal, events) in &kept_journals.contents {
        blobs::merge(engine, *journal, events.get(1..).unwrap_or_default()).await?;
    }
    // Tokens are the last thing that can fail: none of an import that is taken back works.
    let deleted_usage = deleted_usage::merge_entries(kept_journals.left)?;
    moved.skipped_tokens = tokens::merge(engine, &kept_journals.tokens).await?;
    // Contents of an import that ended in the middle, too: this one names them now.
    let named = kept.iter().copied().filter(|id| blobs::is_blob(*id));
    let done = made | &named.collect::<BTreeSet<SessionId>>();
    imports::end_with(engine, &done, deleted_usage).await?;
    Ok(moved)
}

async fn store_all(
    engine: &dyn Engine,
    path: &Path,
    kept: &[SessionId],
    kept_journals: &mut Kept,
) -> Result<ArchiveCounts> {
    let (sender, mut items) = mpsc::channel(QUEUE);
    let from = path.to_path_buf();
    let reading = tokio::task::spawn_blocking(move || read::send(&from, &sender));
    let mut moved = ArchiveCounts::default();
    let mut open: Option<(SessionId, u64, u64)> = None;
    while let Some(item) = items.recv().await {
        let session = item.session();
        if kept.contains(&session) {
            if let Item::Events { payloads, .. } = item {
                if session == DELETED_USAGE {
                    moved.events += payloads.len() as u64;
                }
                kept_journals.take(session, payloads);
            }
            continue;
        }
        let (epoch, last_seq) = match open {
            Some((current, epoch, last_seq)) if current == session => (epoch, last_seq),
            _ => {
                moved.sessions += u64::from(is_of_a_session(session));
                let claim = engine.claim(session).await?;
                (claim.epoch, claim.last_seq)
            }
        };
        open = Some((
            session,
            epoch,
            store(engine, item, epoch, last_seq, &mut moved).await?,
        ));
    }
    reading.await.unwrap_or_else(|error| Err(stopped(&error)))?;
    Ok(moved)
}

/// Stores one item and returns the number of the session's last event after it.
async fn store(
    engine: &dyn Engine,
    item: Item,
    epoch: u64,
    last_seq: u64,
    moved: &mut ArchiveCounts,
) -> Result<u64> {
    match item {
        Item::Events { session, payloads } => {
            moved.events += payloads.len() as u64;
            engine
                .append(Append::new(session, epoch, last_seq, payloads))
                .await
        }
        Item::Checkpoint {
            session,
            checkpoint,
        } => {
            moved.checkpoints += 1;
            engine
                .put_checkpoint(session, epoch, checkpoint)
                .await
                .map(|()| last_seq)
        }
        Item::Head { .. } | Item::Deleted { .. } => Ok(last_seq),
    }
}

fn end_key() -> crate::envelope::Key {
    row::key(SessionId::from_u128(u128::MAX), u64::MAX)
}
