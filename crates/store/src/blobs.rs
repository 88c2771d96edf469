//! Attachment contents. Each content is an internal journal of the store, so it has the guarantees of
//! journals in every engine: it is durable once acknowledged, checked at each read, and part of
//! archives.
//!
//! The digest of the content determines the id of the journal, so equal contents are stored once.
//! The first event is the content. Each later event adds or removes a session that refers to it, or
//! an owner who uploaded it: until a session refers to it, only that owner may read it.
//! The store deletes the journal with the last session that refers to it ([`Journal::delete`]), unless
//! the content was uploaded again within the last hour. [`Journal::sweep_blobs`] deletes the contents
//! that a crash or an upload left without a session.

mod payload;
mod references;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::{Digest, SessionId as Session};

use crate::engine::{
    self, Append, Deletion, Engine, FIRST_OWN, SESSIONS_PAGE, SessionId, SessionInfo, now_unix_ms,
};
use crate::error::{Error, Fault, Record, Result};
use crate::grants;
use crate::journal::Journal;
use crate::record;

use references::{References, note};

/// The largest content, in bytes.
pub const MAX_BLOB_BYTES: usize = 48 << 20;
/// How long a content without a session stays after it was last stored, in milliseconds.
const UNNAMED_MS: u64 = 3_600_000;
/// Maximum number of retries when another program changes the same journal.
const TRIES: usize = 64;
/// The number of leading bytes that the ids of all contents share.
const SHARED: usize = 3;
/// The end of the ids of contents: higher ids are other internal journals of the store.
const LAST: SessionId = SessionId::from_u128(u128::MAX - 256);

/// Whether a journal holds a content.
pub(crate) fn is_blob(journal: SessionId) -> bool {
    journal >= FIRST_OWN && journal < LAST
}

fn journal_of(digest: &Digest) -> SessionId {
    let mut id = [0xff; 16];
    for (to, from) in id.iter_mut().skip(SHARED).zip(digest.0) {
        *to = from;
    }
    SessionId::from_u128(u128::from_be_bytes(id))
}

/// The mark of an owner's uploads, in place of a session. No session has such an id.
fn uploader(owner: &str) -> SessionId {
    journal_of(&Digest::of_bytes(owner.as_bytes()))
}

/// Checks the first event of a content's journal and returns its fault, if any.
pub(crate) fn fault(journal: SessionId, payload: &[u8]) -> Option<Fault> {
    content_of(journal, payload).err()
}

/// The content in the first event of its journal.
fn content_of(journal: SessionId, payload: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    let content = payload::decode(payload)?;
    match journal_of(&Digest::of_bytes(&content)) == journal {
        true => Ok(content),
        false => Err(Fault::Undecodable {
            reason: "the content has another digest".to_owned(),
        }),
    }
}

/// The number and size of the stored contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobTotals {
    /// The number of contents.
    pub contents: u64,
    /// Their total size in bytes.
    pub bytes: u64,
}

/// The sessions that refer to a content, and the marks of its uploaders.
async fn sessions_of(engine: &dyn Engine, journal: SessionId) -> Result<BTreeSet<SessionId>> {
    Ok(References::read(engine, journal).await?.named)
}

async fn read(engine: &dyn Engine, journal: SessionId) -> Result<Option<Arc<[u8]>>> {
    let Some(event) = engine.read(journal, 1, 1).await?.pop() else {
        return Ok(None);
    };
    let of = Record::Event {
        session: journal,
        seq: 1,
    };
    let content = content_of(journal, &event.payload);
    let content = content.map_err(|fault| Error::unreadable(of, fault))?;
    Ok(Some(Arc::from(&*content)))
}

/// Whether another process changed the journal first.
fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Fenced { .. } | Error::Conflict { .. })
}

/// Stores a content, or adds a session's reference to it if it is stored already. It rewrites a
/// damaged content.
async fn put(engine: &dyn Engine, content: &[u8], session: Option<SessionId>) -> Result<()> {
    let journal = journal_of(&Digest::of_bytes(content));
    let mut tries = 0..TRIES;
    loop {
        let done = put_once(engine, journal, content, session).await;
        match done {
            Err(error) if is_conflict(&error) && tries.next().is_some() => {}
            done => return done,
        }
    }
}

async fn put_once(
    engine: &dyn Engine,
    journal: SessionId,
    content: &[u8],
    session: Option<SessionId>,
) -> Result<()> {
    let claim = grants::join(engine, journal).await?;
    let mut sessions = BTreeSet::new();
    if claim.last_seq > 0 {
        let references = References::read(engine, journal).await?;
        match read(engine, journal).await {
            Ok(Some(_)) => {
                if let Err(error) = references.save(engine, journal, claim.epoch).await {
                    tracing::debug!(%journal, %error, "a content gets its checkpoint later");
                }
                return name(engine, journal, session, &references, claim.last_seq).await;
            }
            Ok(None) | Err(Error::Corrupt { .. }) => {
                tracing::warn!(%journal, "the content of an attachment was damaged; it is stored again");
                let deletion = Deletion {
                    expected_seq: Some(claim.last_seq),
                    ..Deletion::of_session(journal)
                };
                engine.delete_session(deletion).await?;
            }
            Err(error) => return Err(error),
        }
        sessions = references.named;
    }
    sessions.extend(session);
    let mut payloads = vec![payload::encode(content)];
    for (seq, session) in (2..).zip(sessions) {
        payloads.push(note(session, true, journal, seq)?);
    }
    let claim = grants::join(engine, journal).await?;
    let append = Append::new(journal, claim.epoch, 0, payloads);
    engine.append(append).await.map(drop)
}

/// Adds a session's reference to a stored content. Without a session it records that the content
/// was stored again.
async fn name(
    engine: &dyn Engine,
    journal: SessionId,
    session: Option<SessionId>,
    references: &References,
    last_seq: u64,
) -> Result<()> {
    let is_named =
        |session: &SessionId| references.named.contains(session) && !references.is_uploaded;
    let payload = match session {
        Some(session) if is_named(&session) && !is_blob(session) => return Ok(()),
        Some(session) => note(session, true, journal, last_seq + 1)?,
        // No session has this id; only the time of the event matters.
        None => note(LAST, false, journal, last_seq + 1)?,
    };
    let claim = grants::join(engine, journal).await?;
    let append = Append::new(journal, claim.epoch, last_seq, vec![payload]);
    engine.append(append).await.map(drop)
}

/// Removes the references of deleted sessions to a content, and the content if none is left. The content
/// of a new upload stays.
async fn forget(
    engine: &dyn Engine,
    info: SessionInfo,
    now_unix_ms: u64,
    is_deleted: impl Fn(&SessionId) -> bool,
) -> Result<bool> {
    let journal = info.session;
    let References {
        named, is_uploaded, ..
    } = References::read(engine, journal).await?;
    let is_new_upload = is_uploaded && info.updated_unix_ms + UNNAMED_MS > now_unix_ms;
    let (deleted, left): (Vec<_>, Vec<_>) = named.into_iter().partition(is_deleted);
    if left.into_iter().all(is_blob) && !is_new_upload {
        let deletion = Deletion {
            expected_seq: Some(info.last_seq),
            ..Deletion::of_session(journal)
        };
        return engine.delete_session(deletion).await;
    }
    let notes = (info.last_seq + 1..).zip(deleted);
    let payloads = notes.map(|(seq, session)| note(session, false, journal, seq));
    let payloads = payloads.collect::<Result<Vec<_>>>()?;
    if payloads.is_empty() {
        return Ok(false);
    }
    let append = Append {
        session: journal,
        epoch: grants::join(engine, journal).await?.epoch,
        expected_seq: info.last_seq,
        payloads,
    };
    engine.append(append).await.map(|_| false)
}

/// Removes the references of sessions that do not exist to a content, and the content if none is left.
async fn sweep_one(engine: &dyn Engine, info: SessionInfo, now_unix_ms: u64) -> Result<bool> {
    let mut deleted = BTreeSet::new();
    for session in sessions_of(engine, info.session).await? {
        let known = engine.session(session).await?;
        if known.is_none_or(|known| known.last_seq == 0) {
            deleted.insert(session);
        }
    }
    forget(engine, info, now_unix_ms, |id| deleted.contains(id)).await
}

/// Removes the reference of a deleted session to a content.
async fn forget_session(
    engine: &dyn Engine,
    journal: SessionId,
    session: SessionId,
) -> Result<bool> {
    let mut tries = 0..TRIES;
    loop {
        let Some(info) = engine.session(journal).await? else {
            return Ok(false);
        };
        match forget(engine, info, now_unix_ms(), |named| *named == session).await {
            Err(error) if is_conflict(&error) && tries.next().is_some() => {}
            forgotten => return forgotten,
        }
    }
}

/// Adds the references of an archive to a content that is stored already.
///
/// # Errors
/// The engine fails, or an entry is unreadable.
pub(crate) async fn merge(
    engine: &dyn Engine,
    journal: SessionId,
    notes: &[Vec<u8>],
) -> Result<()> {
    let mut named = BTreeSet::new();
    for (seq, payload) in (2..).zip(notes) {
        let of = Record::Event {
            session: journal,
            seq,
        };
        let note: ([u8; 16], bool) =
            record::decode_own(payload).map_err(|fault| Error::unreadable(of, fault))?;
        let session = SessionId::from_u128(u128::from_be_bytes(note.0));
        match note.1 {
            true => named.insert(session),
            false => named.remove(&session),
        };
    }
    for session in named {
        let claim = grants::join(engine, journal).await?;
        let references = References::read(engine, journal).await?;
        name(engine, journal, Some(session), &references, claim.last_seq).await?;
    }
    Ok(())
}

impl Journal {
    /// Stores a content once; it is on disk when this returns. It stays as long as the session exists,
    /// or for an hour without a session. Without a session, only the owner of this view may read it,
    /// or views without an owner.
    ///
    /// # Errors
    /// [`Error::TooLarge`] over [`MAX_BLOB_BYTES`]; the store accepts no writes or fails.
    pub async fn put_blob(&self, content: &Arc<[u8]>, session: Option<Session>) -> Result<Digest> {
        if content.len() > MAX_BLOB_BYTES {
            return Err(Error::TooLarge {
                what: "the content of an attachment",
                size_bytes: content.len() as u64,
                limit_bytes: MAX_BLOB_BYTES as u64,
            });
        }
        let digest = Digest::of_bytes(content);
        let session = session.map(engine::SessionId::from);
        let mark = || self.owner().map(|owner| uploader(owner));
        let session = session.or_else(mark);
        let _lock = self.loaded().lock(&digest).await;
        put(self.engine().as_ref(), content, session).await?;
        self.loaded().keep(digest, content);
        Ok(digest)
    }

    /// Reads the content with that digest, if it is stored. Concurrent readers share its memory.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged; the store fails. It never returns other bytes.
    pub async fn blob(&self, digest: Digest) -> Result<Option<Arc<[u8]>>> {
        if let Some(owner) = self.owner()
            && !self.shows_blob(owner, digest).await?
        {
            return Ok(None);
        }
        if let Some(bytes) = self.loaded().get(&digest) {
            return Ok(Some(bytes));
        }
        // Of several readers, one reads it.
        let _lock = self.loaded().lock(&digest).await;
        if let Some(bytes) = self.loaded().get(&digest) {
            return Ok(Some(bytes));
        }
        let found = read(self.engine().as_ref(), journal_of(&digest)).await?;
        let found = found.filter(|bytes| Digest::of_bytes(bytes) == digest);
        if let Some(bytes) = &found {
            self.loaded().keep(digest, bytes);
        }
        Ok(found)
    }

    /// Whether this owner may read a content: a session of the owner refers to it, or the owner
    /// uploaded it.
    async fn shows_blob(&self, owner: &str, digest: Digest) -> Result<bool> {
        let named = sessions_of(self.engine().as_ref(), journal_of(&digest)).await?;
        if named.contains(&uploader(owner)) {
            return Ok(true);
        }
        for session in named {
            if self.shows(session.into()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The sessions that refer to a content.
    pub async fn blob_sessions(&self, digest: Digest) -> Result<Vec<Session>> {
        let sessions = sessions_of(self.engine().as_ref(), journal_of(&digest)).await?;
        let sessions = sessions.into_iter().filter(|session| !is_blob(*session));
        Ok(sessions.map(Into::into).collect())
    }

    /// The number and size of all contents.
    pub async fn stored_blobs(&self) -> Result<BlobTotals> {
        let (mut stored, mut after) = (BlobTotals::default(), Some(BEFORE_FIRST));
        loop {
            let page = self.engine().sessions(after, SESSIONS_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(stored);
            };
            after = Some(last.session);
            for info in page.iter().filter(|info| is_blob(info.session)) {
                stored.contents += u64::from(info.last_seq > 0);
                stored.bytes += info.payload_bytes;
            }
        }
    }

    /// Deletes the contents without a session, an hour after they were last stored, and returns their
    /// number. It reads the references of every content, and keeps a content with damaged ones.
    pub async fn sweep_blobs(&self, now_unix_ms: u64) -> Result<usize> {
        let engine = self.engine().as_ref();
        let (mut removed, mut after) = (0, Some(BEFORE_FIRST));
        loop {
            let page = engine.sessions(after, SESSIONS_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(removed);
            };
            after = Some(last.session);
            let old = |info: &SessionInfo| {
                is_blob(info.session) && info.updated_unix_ms + UNNAMED_MS <= now_unix_ms
            };
            for info in page.into_iter().filter(old) {
                match sweep_one(engine, info, now_unix_ms).await {
                    Ok(is_removed) => removed += usize::from(is_removed),
                    // A session refers to it again.
                    Err(error) if is_conflict(&error) => {}
                    Err(error @ (Error::Corrupt { .. } | Error::NewerRecord { .. })) => {
                        tracing::warn!(%error, "the content of an attachment is kept: its references cannot be read");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Removes the references of a deleted session to contents. The sweep repeats what fails here.
    pub(crate) async fn forget_blobs(&self, session: SessionId, named: BTreeSet<Digest>) {
        for digest in named {
            let _lock = self.loaded().lock(&digest).await;
            let forgotten = forget_session(self.engine().as_ref(), journal_of(&digest), session);
            if let Err(error) = forgotten.await {
                tracing::warn!(%digest, %error, "the content of an attachment cannot be deleted now; the next sweep deletes it");
            }
        }
    }

    /// Removes all references of a deleted session to contents, at once and not with the next sweep: also
    /// to those that no message or result of it has, because it was refused or came too late. It reads the
    /// references of every content.
    ///
    /// # Errors
    /// A reference is unreadable, or the store fails.
    pub async fn forget_contents(&self, session: Session) -> Result<()> {
        let (engine, session) = (self.engine().as_ref(), SessionId::from(session));
        let mut after = Some(BEFORE_FIRST);
        loop {
            let page = engine.sessions(after, SESSIONS_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.session);
            for info in page.iter().filter(|info| is_blob(info.session)) {
                if sessions_of(engine, info.session).await?.contains(&session) {
                    forget_session(engine, info.session, session).await?;
                }
            }
        }
    }
}

/// The id before the first content.
const BEFORE_FIRST: SessionId = SessionId::from_u128((0xff_ffff << 104) - 1);
