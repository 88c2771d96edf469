//! Contents of attachments: each is a journal of the store's own beside those of the sessions, so
//! that all that holds for journals holds for it, in every engine: it is durable when it is
//! acknowledged, checked when it is read, and in archives.
//!
//! The id of the journal is derived from the digest of the content, which is therefore stored once.
//! The first event is the content. Each later one says that a session begins or ceases to name it.
//! The journal goes with the last session that names it ([`Journal::delete`]); what crashes leave
//! behind is found by [`Journal::sweep_blobs`].

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::{Digest, SessionId as Session};

use crate::engine::{self, Append, Deletion, Engine, SESSIONS_PAGE, SessionId, SessionInfo};
use crate::error::{Error, Fault, Record, Result};
use crate::grants;
use crate::journal::{FIRST_OWN, Journal};
use crate::record;

/// The largest content, in bytes.
pub const MAX_BLOB_BYTES: usize = 48 << 20;
/// How long a content that no session names is kept since it was last stored, in milliseconds.
const UNNAMED_MS: u64 = 3_600_000;
/// Events read at a time.
const PAGE: usize = 1_024;
/// How often a journal is read again that another program changes at the same time.
const TRIES: usize = 64;
/// The first byte of a content's event.
const FORMAT: u8 = 1;
/// The bytes of an id that all contents share.
const SHARED: usize = 3;
/// The ids behind this one are those of other journals of the store.
const LAST: SessionId = SessionId::from_u128(u128::MAX - 256);

/// Whether a journal is a content's.
pub(crate) fn is_blob(journal: SessionId) -> bool {
    journal >= FIRST_OWN && journal < LAST
}

/// The journal of a content.
fn journal_of(digest: &Digest) -> SessionId {
    let mut id = [0xff; 16];
    for (to, from) in id.iter_mut().skip(SHARED).zip(digest.0) {
        *to = from;
    }
    SessionId::from_u128(u128::from_be_bytes(id))
}

/// What is wrong with the first event of a content's journal, if anything.
pub(crate) fn fault(journal: SessionId, payload: &[u8]) -> Option<Fault> {
    match payload {
        [FORMAT, bytes @ ..] if journal_of(&Digest::of_bytes(bytes)) == journal => None,
        [FORMAT, ..] => Some(Fault::Undecodable {
            reason: "the content has another digest".to_owned(),
        }),
        [found, ..] => Some(Fault::Newer {
            what: format!("content of format {found}, this version reads {FORMAT}"),
        }),
        [] => Some(Fault::Truncated),
    }
}

/// The size of what is stored, and how much of it there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stored {
    /// How many contents.
    pub contents: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A session that begins or ceases to name a content.
fn note(session: SessionId, names: bool, journal: SessionId, seq: u64) -> Result<Vec<u8>> {
    record::encode_entry(&(*session.0.as_bytes(), names), journal, seq)
}

/// The sessions that name a content.
async fn sessions_of(engine: &dyn Engine, journal: SessionId) -> Result<BTreeSet<SessionId>> {
    let (mut sessions, mut last) = (BTreeSet::new(), 1);
    loop {
        let page = engine.read(journal, last + 1, PAGE).await?;
        let Some(newest) = page.last() else {
            return Ok(sessions);
        };
        last = newest.seq;
        for event in page {
            let of = Record::Event {
                session: journal,
                seq: event.seq,
            };
            let noted: ([u8; 16], bool) =
                record::decode_own(&event.payload).map_err(|fault| Error::unreadable(of, fault))?;
            let session = SessionId::from_u128(u128::from_be_bytes(noted.0));
            match noted.1 {
                true => sessions.insert(session),
                false => sessions.remove(&session),
            };
        }
    }
}

/// The content of a journal.
async fn read(engine: &dyn Engine, journal: SessionId) -> Result<Option<Arc<[u8]>>> {
    let Some(event) = engine.read(journal, 1, 1).await?.pop() else {
        return Ok(None);
    };
    let of = Record::Event {
        session: journal,
        seq: 1,
    };
    if let Some(fault) = fault(journal, &event.payload) {
        return Err(Error::unreadable(of, fault));
    }
    let bytes = event.payload.get(1..).unwrap_or_default();
    Ok(Some(Arc::from(bytes)))
}

/// Whether somebody else was faster.
fn was_late(error: &Error) -> bool {
    matches!(error, Error::Fenced { .. } | Error::Conflict { .. })
}

/// Stores a content, or notes that a session names one that is there. One that is damaged is written
/// anew.
async fn put(engine: &dyn Engine, content: &[u8], session: Option<SessionId>) -> Result<()> {
    let journal = journal_of(&Digest::of_bytes(content));
    let mut tries = 0..TRIES;
    loop {
        let done = put_once(engine, journal, content, session).await;
        match done {
            Err(error) if was_late(&error) && tries.next().is_some() => {}
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
        sessions = sessions_of(engine, journal).await?;
        match read(engine, journal).await {
            Ok(Some(_)) => {
                return name(engine, journal, session, &sessions, claim.last_seq).await;
            }
            Ok(None) | Err(Error::Corrupt { .. }) => {
                tracing::warn!(%journal, "a content was damaged and is written anew");
                let deletion = Deletion {
                    expected_seq: Some(claim.last_seq),
                    ..Deletion::of(journal)
                };
                engine.delete_session(deletion).await?;
            }
            Err(error) => return Err(error),
        }
    }
    sessions.extend(session);
    let mut payload = Vec::with_capacity(1 + content.len());
    payload.push(FORMAT);
    payload.extend_from_slice(content);
    let mut payloads = vec![payload];
    for (seq, session) in (2..).zip(sessions) {
        payloads.push(note(session, true, journal, seq)?);
    }
    let claim = grants::join(engine, journal).await?;
    let append = Append {
        session: journal,
        epoch: claim.epoch,
        expected_seq: 0,
        payloads,
    };
    engine.append(append).await.map(drop)
}

/// Notes that a session names a content that is there; without one, that it was stored again.
async fn name(
    engine: &dyn Engine,
    journal: SessionId,
    session: Option<SessionId>,
    sessions: &BTreeSet<SessionId>,
    last_seq: u64,
) -> Result<()> {
    let payload = match session {
        Some(session) if sessions.contains(&session) => return Ok(()),
        Some(session) => note(session, true, journal, last_seq + 1)?,
        // Nobody has this id: the time of the event is what counts.
        None => note(LAST, false, journal, last_seq + 1)?,
    };
    let claim = grants::join(engine, journal).await?;
    let append = Append {
        session: journal,
        epoch: claim.epoch,
        expected_seq: last_seq,
        payloads: vec![payload],
    };
    engine.append(append).await.map(drop)
}

/// Notes that sessions do not name a content any more; removes it if none does.
async fn forget(
    engine: &dyn Engine,
    info: SessionInfo,
    is_gone: impl Fn(&SessionId) -> bool,
) -> Result<bool> {
    let journal = info.session;
    let sessions = sessions_of(engine, journal).await?;
    let (gone, left): (Vec<_>, Vec<_>) = sessions.into_iter().partition(is_gone);
    if left.is_empty() {
        let deletion = Deletion {
            expected_seq: Some(info.last_seq),
            ..Deletion::of(journal)
        };
        return engine.delete_session(deletion).await;
    }
    let notes = (info.last_seq + 1..).zip(gone);
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

/// Adds the sessions that an archive says name a content that is here already.
///
/// # Errors
/// The engine's, or an entry cannot be read.
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
        let noted: ([u8; 16], bool) =
            record::decode_own(payload).map_err(|fault| Error::unreadable(of, fault))?;
        let session = SessionId::from_u128(u128::from_be_bytes(noted.0));
        match noted.1 {
            true => named.insert(session),
            false => named.remove(&session),
        };
    }
    for session in named {
        let claim = grants::join(engine, journal).await?;
        let sessions = sessions_of(engine, journal).await?;
        name(engine, journal, Some(session), &sessions, claim.last_seq).await?;
    }
    Ok(())
}

impl Journal {
    /// Stores a content, once; it is on disk when this returns, and stays as long as the session is
    /// there. Without a session it stays for an hour.
    ///
    /// # Errors
    /// [`Error::TooLarge`] over [`MAX_BLOB_BYTES`]; the store takes no writes, or failed.
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
        let _lock = self.loaded().lock(&digest).await;
        put(self.engine().as_ref(), content, session).await?;
        self.loaded().keep(digest, content);
        Ok(digest)
    }

    /// The content of that digest, if it is here. All who hold it at a time share it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged: other bytes are never returned. Or the store failed.
    pub async fn blob(&self, digest: Digest) -> Result<Option<Arc<[u8]>>> {
        if self.owner().is_some() && !self.shows_blob(digest).await? {
            return Ok(None);
        }
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

    /// Whether the owner that the journal is limited to may read a content: a session of that owner
    /// names it, or no session does yet, as after an upload.
    async fn shows_blob(&self, digest: Digest) -> Result<bool> {
        let named = self.blob_sessions(digest).await?;
        for session in &named {
            if self.shows(*session).await? {
                return Ok(true);
            }
        }
        Ok(named.is_empty())
    }

    /// The sessions that name a content.
    ///
    /// # Errors
    /// The store failed.
    pub async fn blob_sessions(&self, digest: Digest) -> Result<Vec<Session>> {
        let sessions = sessions_of(self.engine().as_ref(), journal_of(&digest)).await?;
        Ok(sessions.into_iter().map(Into::into).collect())
    }

    /// How many contents there are.
    ///
    /// # Errors
    /// The store failed.
    pub async fn stored_blobs(&self) -> Result<Stored> {
        let (mut stored, mut after) = (Stored::default(), Some(BEFORE_FIRST));
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

    /// Removes the contents that no session names any more, an hour after they were last stored.
    /// Answers how many these were. Costs a read of the names of every content.
    ///
    /// # Errors
    /// The store takes no writes, or failed.
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
                let mut gone = BTreeSet::new();
                for session in sessions_of(engine, info.session).await? {
                    let known = engine.session(session).await?;
                    if known.is_none_or(|known| known.last_seq == 0) {
                        gone.insert(session);
                    }
                }
                match forget(engine, info, |session| gone.contains(session)).await {
                    Ok(is_removed) => removed += usize::from(is_removed),
                    // It is in use again.
                    Err(error) if was_late(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Notes that a session is gone that named these contents. What fails here is left to the sweep.
    pub(crate) async fn forget_blobs(&self, session: SessionId, named: BTreeSet<Digest>) {
        let engine = self.engine().as_ref();
        for digest in named {
            let _lock = self.loaded().lock(&digest).await;
            let forgotten = async {
                let mut tries = 0..TRIES;
                loop {
                    let Some(info) = engine.session(journal_of(&digest)).await? else {
                        return Ok(false);
                    };
                    match forget(engine, info, |named| *named == session).await {
                        Err(error) if was_late(&error) && tries.next().is_some() => {}
                        forgotten => return forgotten,
                    }
                }
            };
            if let Err(error) = forgotten.await {
                tracing::warn!(%digest, %error, "an attachment's content is removed later");
            }
        }
    }
}

/// The id before the first content.
const BEFORE_FIRST: SessionId = SessionId::from_u128((0xff_ffff << 104) - 1);
