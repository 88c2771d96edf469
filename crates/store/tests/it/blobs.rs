//! Contents of attachments: stored once, checked when read, gone with the last session.

use std::sync::Arc;

use tempfile::TempDir;
use unisono_context::attachment::{Content, DocumentText, Extent, LoadedBytes};
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::{Digest, MessageId, SessionId, Timestamp, Tokens};
use unisono_session::{Event, Fact};
use unisono_store::{Append, Disk, Journal, Memory, archive, check};

const HOUR_MS: u64 = 3_600_000;

fn bytes(text: &str) -> Arc<[u8]> {
    Arc::from(text.as_bytes())
}

fn disk(directory: &TempDir) -> Journal {
    Journal::new(Arc::new(Disk::open(directory.path()).unwrap().disk))
}

/// A session whose one message names a content.
async fn session(journal: &Journal, id: u128, content: &Arc<[u8]>) -> SessionId {
    session_with(journal, id, content, None).await
}

/// The same, with the text of the content as a document.
async fn session_with(
    journal: &Journal,
    id: u128,
    content: &Arc<[u8]>,
    text: Option<DocumentText>,
) -> SessionId {
    let session = SessionId::from_u128(id);
    let digest = journal.put_blob(content, Some(session)).await.unwrap();
    let part = Part::Attachment {
        filename: "a.png".into(),
        mime: "image/png".into(),
        size_bytes: content.len() as u64,
        content: Some(Content {
            digest,
            extent: Extent::Pages(1),
            loaded: LoadedBytes::default(),
            text,
        }),
    };
    let (id, at) = (MessageId::from_u128(id), Timestamp(1));
    let fact = Fact::Appended {
        branch: Some("main".into()),
        parent: None,
        message: NewMessage::new(id, Role::User, vec![part], at),
    };
    let event = Event { at, fact };
    let claim = journal.claim(session).await.unwrap();
    let appended = journal.append(session, claim.epoch, 0, &[event], 0).await;
    appended.unwrap();
    session
}

async fn contents(journal: &Journal) -> (u64, u64) {
    let stored = journal.stored_blobs().await.unwrap();
    (stored.contents, stored.bytes)
}

async fn lives_as_long_as_a_session_names_it(journal: &Journal) {
    let content = bytes("the bytes of an image");
    let digest = Digest::of_bytes(&content);
    let first = session(journal, 1, &content).await;
    let one = contents(journal).await;
    let second = session(journal, 2, &content).await;
    let two = contents(journal).await;
    assert_eq!((one.0, two.0), (1, 1));
    assert!(
        two.1 - one.1 < 64,
        "the bytes are stored once: {one:?} {two:?}"
    );
    // Neither list has it.
    let listed = journal.sessions(None, 10).await.unwrap().len();
    let newest = journal.newest_sessions(None, 10).await.unwrap().len();
    assert_eq!((listed, newest), (2, 2));

    assert!(journal.delete(first).await.unwrap());
    let read = journal.blob(digest).await.unwrap();
    assert_eq!(read.as_deref(), Some(&content[..]));
    assert_eq!(journal.blob_sessions(digest).await.unwrap(), [second]);
    assert!(journal.delete(second).await.unwrap());
    drop(read);
    drop(content);
    assert_eq!(journal.blob(digest).await.unwrap(), None);
    assert_eq!(contents(journal).await, (0, 0));
}

#[tokio::test]
async fn a_content_lives_as_long_as_a_session_names_it() {
    lives_as_long_as_a_session_names_it(&Journal::new(Arc::new(Memory::new()))).await;
    let directory = TempDir::new().unwrap();
    lives_as_long_as_a_session_names_it(&disk(&directory)).await;
}

#[tokio::test]
async fn the_text_of_a_document_lives_as_long_as_a_message_names_it() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let (document, text) = (bytes("a document"), bytes("its text"));
    let (id, tokens) = (SessionId::from_u128(1), Tokens(3));
    let digest = journal.put_blob(&text, Some(id)).await.unwrap();
    session_with(
        &journal,
        1,
        &document,
        Some(DocumentText { digest, tokens }),
    )
    .await;
    assert_eq!(contents(&journal).await.0, 2);
    assert!(journal.delete(id).await.unwrap());
    assert_eq!(contents(&journal).await, (0, 0));
}

#[tokio::test]
async fn a_content_outlives_the_process() {
    let directory = TempDir::new().unwrap();
    let (content, digest) = {
        let journal = disk(&directory);
        let content: Arc<[u8]> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        session(&journal, 1, &content).await;
        journal.close().await.unwrap();
        let digest = Digest::of_bytes(&content);
        (content, digest)
    };
    let journal = disk(&directory);
    let (one, other) = tokio::join!(journal.blob(digest), journal.blob(digest));
    let (one, other) = (one.unwrap().unwrap(), other.unwrap().unwrap());
    assert!(
        one == content && Arc::ptr_eq(&one, &other),
        "it is read once"
    );
    assert!(
        check(journal.engine().as_ref())
            .await
            .unwrap()
            .findings
            .is_empty()
    );
}

#[tokio::test]
async fn what_no_session_names_goes_after_an_hour() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let (used, unused) = (bytes("used"), bytes("unused"));
    session(&journal, 1, &used).await;
    // A session that never came to be, and an upload.
    journal
        .put_blob(&unused, Some(SessionId::from_u128(9)))
        .await
        .unwrap();
    let digest = journal.put_blob(&unused, None).await.unwrap();
    let engine = journal.engine();
    let stored = engine.sessions(None, 10).await.unwrap();
    let last = stored
        .iter()
        .map(|info| info.updated_unix_ms)
        .max()
        .unwrap();
    assert_eq!(journal.sweep_blobs(last).await.unwrap(), 0);
    assert_eq!(journal.sweep_blobs(last + HOUR_MS).await.unwrap(), 1);
    drop(unused);
    assert_eq!(journal.blob(digest).await.unwrap(), None);
    assert!(
        journal
            .blob(Digest::of_bytes(&used))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_content_with_a_damaged_reference_keeps_no_other_one() {
    let journal = Journal::new(Arc::new(Memory::new()));
    for text in ["one", "another", "a third"] {
        journal.put_blob(&bytes(text), None).await.unwrap();
    }
    let engine = journal.engine();
    let first = engine.sessions(None, 1).await.unwrap().remove(0);
    let epoch = engine.claim(first.session).await.unwrap().epoch;
    let damaged = vec![b"no reference".to_vec()];
    let append = Append::new(first.session, epoch, first.last_seq, damaged);
    engine.append(append).await.unwrap();
    assert_eq!(journal.sweep_blobs(u64::MAX).await.unwrap(), 2);
    assert_eq!(contents(&journal).await.0, 1);
}

#[tokio::test]
async fn other_bytes_are_never_returned() {
    // The journal of a content has other bytes: as if a disk had returned another block.
    let journal = Journal::new(Arc::new(Memory::new()));
    let content = bytes("right");
    let digest = journal.put_blob(&content, None).await.unwrap();
    let engine = journal.engine();
    let known = engine.sessions(None, 10).await.unwrap();
    let [info] = known[..] else {
        panic!("{known:?}")
    };
    engine
        .delete_session(unisono_store::Deletion::of_session(info.session))
        .await
        .unwrap();
    let claim = engine.claim(info.session).await.unwrap();
    let append = Append::new(info.session, claim.epoch, 0, vec![b"\x01wrong".to_vec()]);
    engine.append(append).await.unwrap();
    drop(content);
    let error = journal.blob(digest).await.unwrap_err().to_string();
    assert!(error.contains("another digest"), "{error}");
    let checkup = check(engine.as_ref()).await.unwrap();
    assert_eq!(checkup.findings.len(), 1);
    // Stored again, it is right again.
    journal
        .put_blob(&bytes("right"), Some(SessionId::from_u128(1)))
        .await
        .unwrap();
    let read = journal.blob(digest).await.unwrap();
    assert_eq!(read.as_deref(), Some(&b"right"[..]));
    assert!(check(engine.as_ref()).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn an_archive_has_the_contents_and_adds_to_those_that_are_there() {
    let directory = TempDir::new().unwrap();
    let (from, to) = (Memory::new(), Memory::new());
    let (from, to) = (Journal::new(Arc::new(from)), Journal::new(Arc::new(to)));
    let (both, alone) = (bytes("in both"), bytes("in one"));
    session(&from, 1, &both).await;
    session(&from, 2, &alone).await;
    let here = session(&to, 3, &both).await;
    let path = directory.path().join("archive");
    let moved = archive::export(from.engine().as_ref(), &path)
        .await
        .unwrap();
    assert_eq!(moved.sessions, 2);
    archive::import(to.engine().as_ref(), &path).await.unwrap();
    for content in [&both, &alone] {
        let digest = Digest::of_bytes(content);
        assert_eq!(
            to.blob(digest).await.unwrap().as_deref(),
            Some(&content[..])
        );
    }
    assert!(to.delete(here).await.unwrap());
    assert!(to.blob(Digest::of_bytes(&both)).await.unwrap().is_some());
    let named = to.blob_sessions(Digest::of_bytes(&both)).await.unwrap();
    assert_eq!(named, [SessionId::from_u128(1)]);
}

#[tokio::test]
async fn an_upload_without_a_session_is_its_owners() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let [ada, bob] = ["ada", "bob"].map(|owner| journal.of_owner(owner.into()));
    let content = bytes("of ada");
    let digest = ada.put_blob(&content, None).await.unwrap();
    assert!(ada.blob(digest).await.unwrap().is_some());
    assert!(bob.blob(digest).await.unwrap().is_none());
    assert!(journal.blob(digest).await.unwrap().is_some());
    assert_eq!(journal.blob_sessions(digest).await.unwrap(), []);
    // Whoever has the content can upload it too.
    assert_eq!(bob.put_blob(&content, None).await.unwrap(), digest);
    assert!(bob.blob(digest).await.unwrap().is_some());
    assert!(ada.blob(digest).await.unwrap().is_some());
    // Without an owner nobody else may read it.
    let other = bytes("of the daemon");
    let digest = journal.put_blob(&other, None).await.unwrap();
    assert!(ada.blob(digest).await.unwrap().is_none());
    // It goes with its last session, and after an hour without one.
    let made = session(&journal, 1, &content).await;
    let digest = Digest::of_bytes(&content);
    assert!(journal.delete(made).await.unwrap());
    drop(content);
    assert!(journal.blob(digest).await.unwrap().is_none());
    drop(other);
    assert_eq!(journal.sweep_blobs(u64::MAX).await.unwrap(), 1);
}

#[tokio::test]
async fn a_new_upload_outlives_the_session_that_had_its_content() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let ada = journal.of_owner("ada".into());
    for uploader in [&journal, &ada] {
        let content = bytes("a photo");
        let old = session(&journal, 1, &content).await;
        uploader.put_blob(&content, None).await.unwrap();
        assert!(journal.delete(old).await.unwrap());
        assert_eq!(contents(&journal).await.0, 1);
        // Named again, it goes with that session.
        let new = session(&journal, 2, &content).await;
        uploader.put_blob(&content, None).await.unwrap();
        journal.put_blob(&content, Some(new)).await.unwrap();
        assert!(journal.delete(new).await.unwrap());
        assert_eq!(contents(&journal).await, (0, 0));
    }
}

/// The sweep removes the marks of uploaders from contents that a session has.
#[tokio::test]
async fn the_end_of_an_upload_keeps_no_content() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let content = bytes("a photo");
    let ada = journal.of_owner("ada".into());
    ada.put_blob(&content, None).await.unwrap();
    let named = session(&journal, 1, &content).await;
    assert_eq!(journal.sweep_blobs(u64::MAX).await.unwrap(), 0);
    assert!(journal.delete(named).await.unwrap());
    assert_eq!(contents(&journal).await, (0, 0));
}

#[tokio::test]
async fn what_was_stored_for_a_session_can_be_removed_with_it() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let (own, shared) = (bytes("of one session"), bytes("of both sessions"));
    let deleted = session(&journal, 1, &own).await;
    let other = session(&journal, 2, &shared).await;
    // Those of messages that were refused.
    for content in [&bytes("refused"), &shared] {
        journal.put_blob(content, Some(deleted)).await.unwrap();
    }
    assert!(journal.delete(deleted).await.unwrap());
    assert_eq!(contents(&journal).await.0, 2);
    journal.forget_contents(deleted).await.unwrap();
    assert_eq!(contents(&journal).await.0, 1);
    let named = journal.blob_sessions(Digest::of_bytes(&shared)).await;
    assert_eq!(named.unwrap(), [other]);
}

#[tokio::test]
async fn the_references_of_a_content_that_is_stored_often_are_in_a_checkpoint() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let content = bytes("a logo");
    let first = session(&journal, 1, &content).await;
    for _ in 0..600 {
        journal.put_blob(&content, None).await.unwrap();
    }
    let engine = journal.engine();
    let stored = engine.newest_sessions(None, 1).await.unwrap().remove(0);
    let checkpoint = engine.latest_checkpoint(stored.session).await.unwrap();
    let covered = checkpoint.unwrap().seq;
    assert!(covered + 300 > stored.last_seq && stored.last_seq > 600);
    let second = session(&journal, 2, &content).await;
    let named = journal.blob_sessions(Digest::of_bytes(&content)).await;
    assert_eq!(named.unwrap(), [first, second]);
    for session in [first, second] {
        assert!(journal.delete(session).await.unwrap());
    }
    assert_eq!(contents(&journal).await, (0, 0));
}

#[tokio::test]
async fn an_id_of_the_stores_own_is_no_session() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let id = SessionId::from_u128(0xff_ffff << 104);
    let error = journal.claim(id).await.unwrap_err().to_string();
    assert!(error.contains("are internal to the store"), "{error}");
}

/// Sessions that come and go at once, all with the same content.
async fn is_there_for_whoever_stays(journal: &Journal) {
    let content = bytes("wanted by many");
    let mut sessions = tokio::task::JoinSet::new();
    for id in 1..=24_u128 {
        let (journal, content) = (journal.clone(), content.clone());
        sessions.spawn(async move {
            let made = session(&journal, id, &content).await;
            if id % 3 != 0 {
                assert!(journal.delete(made).await.unwrap());
            }
        });
    }
    sessions.join_all().await;
    let digest = Digest::of_bytes(&content);
    drop(content);
    let read = journal.blob(digest).await.unwrap();
    assert_eq!(read.as_deref(), Some(&b"wanted by many"[..]));
    drop(read);
    let named = journal.blob_sessions(digest).await.unwrap();
    let left: Vec<SessionId> = (1..=8_u128).map(|n| SessionId::from_u128(n * 3)).collect();
    assert_eq!(named, left);
    for session in left {
        assert!(journal.delete(session).await.unwrap());
    }
    assert_eq!(journal.blob(digest).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_is_there_for_whoever_stays() {
    is_there_for_whoever_stays(&Journal::new(Arc::new(Memory::new()))).await;
    let directory = TempDir::new().unwrap();
    is_there_for_whoever_stays(&disk(&directory)).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_database_keeps_contents_as_files_do() {
    let Some(engine) = crate::postgres::store("contents").await else {
        return;
    };
    let journal = Journal::new(Arc::new(engine));
    lives_as_long_as_a_session_names_it(&journal).await;
    is_there_for_whoever_stays(&journal).await;
    journal.close().await.unwrap();
}
