//! Contents of attachments on their way between messages and the store: a content is on disk before
//! the message that names it is taken, and is loaded once for all agents of a turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::attachment::{Content, DocumentText, Extent, Files};
use unisono_context::{Digest, SessionId, Snapshot};
use unisono_session::run::calls::CallOutput;
use unisono_session::{Input, Replay};
use unisono_store::Journal;

use crate::documents;
use crate::mcp::output::truncate_middle;

/// The limits of stored contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachmentLimits {
    /// Maximum bytes of one content.
    pub each: u64,
    /// Maximum bytes of all attachments of a session.
    pub session: u64,
    /// Maximum bytes of all contents of the store.
    pub store: u64,
}

impl Default for AttachmentLimits {
    fn default() -> AttachmentLimits {
        AttachmentLimits {
            each: 20 << 20,
            session: 256 << 20,
            store: 16 << 30,
        }
    }
}

/// Why attachments are not stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A limit is exceeded.
    #[error("{what} would have {bytes} bytes, but the limit is {most} (`[attachments]`)")]
    TooMuch {
        /// The object that would be too large.
        what: &'static str,
        /// Its size with the new contents.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// A message names a content that the store does not have.
    #[error("the store has no attachment with the digest {0}: upload it first")]
    Missing(Digest),
    /// The store failed.
    #[error("{0}")]
    Store(Arc<unisono_store::Error>),
}

impl From<unisono_store::Error> for Error {
    fn from(error: unisono_store::Error) -> Error {
        Error::Store(Arc::new(error))
    }
}

impl AttachmentLimits {
    /// Whether contents of these sizes fit beside what a session has. The store has `stored` bytes with
    /// them.
    fn check(&self, sizes: &[u64], attached: u64, stored: u64) -> Result<(), Error> {
        let new = sizes
            .iter()
            .fold(0, |sum: u64, size| sum.saturating_add(*size));
        let largest = sizes.iter().copied().max().unwrap_or_default();
        let rows = [
            ("the attachment", largest, self.each),
            (
                "the session with its attachments",
                attached.saturating_add(new),
                self.session,
            ),
            ("the store with its attachments", stored, self.store),
        ];
        match rows.into_iter().find(|(_, bytes, most)| bytes > most) {
            Some((what, bytes, most)) => Err(Error::TooMuch { what, bytes, most }),
            None => Ok(()),
        }
    }
}

/// Stores the contents that an input brings, for a session that has `attached` bytes of them
/// already, and takes their bytes out of it.
///
/// # Errors
/// They are too large, one has no bytes here and is not in the store, or the store failed.
pub(crate) async fn store(
    journal: &Journal,
    session: SessionId,
    limits: AttachmentLimits,
    input: &mut Input,
    attached: u64,
) -> Result<(), Error> {
    let contents = input.contents_mut();
    let bytes = store_contents(journal, session, limits, contents, attached).await?;
    for (content, bytes) in input.contents_mut().into_iter().zip(bytes) {
        content.text = match content.extent {
            Extent::Pages(_) => store_text(journal, session, content.digest, bytes).await?,
            Extent::Pixels { .. } => None,
        };
    }
    Ok(())
}

/// Stores the text of a document, or the note in its place: a later reading may give another one.
async fn store_text(
    journal: &Journal,
    session: SessionId,
    document: Digest,
    bytes: Arc<[u8]>,
) -> Result<Option<DocumentText>, Error> {
    let Some(text) = documents::text(document, bytes).await else {
        return Ok(None);
    };
    let content: Arc<[u8]> = text.as_bytes().into();
    let digest = journal.put_blob(&content, Some(session)).await?;
    let tokens = documents::tokens(text).await;
    Ok(Some(DocumentText { digest, tokens }))
}

/// Stores the files of a tool's result, takes their bytes out of it, and adds the texts of documents.
/// The result and these texts have at most `max_chars` characters; the rest is cut. If the files cannot
/// be stored, the result is its text with the reason.
pub(crate) async fn keep(
    journal: &Journal,
    session: SessionId,
    limits: AttachmentLimits,
    mut output: CallOutput,
    attached: u64,
    max_chars: usize,
) -> CallOutput {
    let contents = output.files.iter_mut().map(|file| &mut file.content);
    let contents = contents.collect();
    match store_contents(journal, session, limits, contents, attached).await {
        Ok(bytes) => {
            add_texts(&mut output, bytes, max_chars).await;
            output
        }
        Err(error) => without_files(output, &error),
    }
}

/// Removes the files of a result for which a session has no room any more: calls at the same time are
/// stored beside each other, so each fitted alone.
pub(crate) fn drop_excess(limits: AttachmentLimits, output: &mut CallOutput, attached: u64) {
    let sizes: Vec<u64> = output.files.iter().map(|file| file.size_bytes).collect();
    if let Err(error) = limits.check(&sizes, attached, 0)
        && !sizes.is_empty()
    {
        *output = without_files(std::mem::take(output), &error);
    }
}

/// The text of a result, with the reason why its files are not kept.
fn without_files(output: CallOutput, error: &Error) -> CallOutput {
    let text = &output.content;
    CallOutput {
        content: format!("{text}\n[its attachments are not kept: {error}]").into(),
        files: Vec::new(),
        is_error: output.is_error,
    }
}

/// Adds the texts of the documents among these files, which are journaled with the result: the
/// requests that show it have the same text whenever they are built.
async fn add_texts(output: &mut CallOutput, files: Vec<Arc<[u8]>>, max_chars: usize) {
    let mut left = max_chars.saturating_sub(output.content.chars().count());
    for (file, bytes) in output.files.iter_mut().zip(files) {
        if !matches!(file.content.extent, Extent::Pages(_)) {
            continue;
        }
        if let Some(text) = documents::text(file.content.digest, bytes).await {
            let text = truncate_middle(&text, left);
            left = left.saturating_sub(text.chars().count());
            file.text = Some(text);
        }
    }
}

/// Stores contents, takes their bytes out of them, and returns these.
async fn store_contents(
    journal: &Journal,
    session: SessionId,
    limits: AttachmentLimits,
    mut contents: Vec<&mut Content>,
    attached: u64,
) -> Result<Vec<Arc<[u8]>>, Error> {
    if contents.is_empty() {
        return Ok(Vec::new());
    }
    let mut held = Vec::with_capacity(contents.len());
    for content in &contents {
        let bytes = match &content.loaded.0 {
            Some(bytes) => Some(bytes.clone()),
            None => journal.blob(content.digest).await?,
        };
        held.push(bytes.ok_or(Error::Missing(content.digest))?);
    }
    let sizes: Vec<u64> = held.iter().map(|bytes| bytes.len() as u64).collect();
    let stored = journal.stored_blobs().await?.bytes;
    let most = sizes
        .iter()
        .fold(stored, |sum, size| sum.saturating_add(*size));
    if limits.check(&sizes, attached, most).is_err() {
        let new = new_bytes(journal, &held).await?;
        limits.check(&sizes, attached, stored.saturating_add(new))?;
    }
    for (content, bytes) in contents.iter_mut().zip(&held) {
        content.digest = journal.put_blob(bytes, Some(session)).await?;
        content.loaded.0 = None;
    }
    Ok(held)
}

/// The bytes of the contents that the store does not have, each once.
async fn new_bytes(journal: &Journal, contents: &[Arc<[u8]>]) -> Result<u64, Error> {
    let (mut new, mut seen) = (0_u64, BTreeSet::new());
    for content in contents {
        let digest = Digest::of_bytes(content);
        if seen.insert(digest) && journal.blob(digest).await?.is_none() {
            new = new.saturating_add(content.len() as u64);
        }
    }
    Ok(new)
}

/// The files in the results of tools of a turn's runs, by digest.
pub async fn of_runs(journal: &Journal, replay: &Replay) -> Result<Files, String> {
    let mut files = Files::default();
    for run in replay.runs() {
        for step in &run.steps {
            for file in step.files() {
                let digest = file.content.digest;
                if files.get(&digest).is_none() {
                    files.insert(digest, read(journal, digest).await?);
                }
            }
        }
    }
    Ok(files)
}

/// Reads a content that the store must have.
pub(crate) async fn read(journal: &Journal, digest: Digest) -> Result<Arc<[u8]>, String> {
    let read = journal.blob(digest).await;
    let found = read.map_err(|error| format!("an attachment cannot be read: {error}"))?;
    found.ok_or_else(|| format!("the content {digest} of an attachment is lost"))
}

/// Loads the contents that a snapshot shows, and the texts of its documents, into it.
///
/// # Errors
/// One is missing or damaged, or the store failed: the text says which.
pub async fn load(journal: &Journal, snapshot: &Snapshot) -> Result<(), String> {
    if snapshot.is_loaded() {
        return Ok(());
    }
    let mut files = Files::default();
    for digest in snapshot.contents() {
        files.insert(digest, read(journal, digest).await?);
    }
    for digest in snapshot.texts() {
        let bytes = read(journal, digest).await?;
        files.insert_text(digest, String::from_utf8_lossy(&bytes).into());
    }
    if !files.is_empty() {
        snapshot.load(files);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Texts of documents that snapshots show, and the room of contents in the store.

    use unisono_context::alteration::Alterations;
    use unisono_context::attachment::{AttachedFile, LoadedBytes};
    use unisono_context::checkpoint::Checkpoints;
    use unisono_context::message::{NewMessage, Part, Role};
    use unisono_context::snapshot::Preamble;
    use unisono_context::view::View;
    use unisono_context::{MessageId, Timestamp, Tokens, Tree};
    use unisono_store::Memory;

    use super::*;

    fn snapshot(content: &Content) -> Snapshot {
        let id = MessageId::from_u128(1);
        let part = Part::attachment("plan.pdf", "application/pdf", 8, Some(content.clone()));
        let message = NewMessage::new(id, Role::User, vec![part], Timestamp(1));
        let mut tree = Tree::default();
        tree.append(None, message).unwrap();
        let (checkpoints, alterations) = (Checkpoints::default(), Alterations::default());
        let pinned = BTreeSet::new();
        let view = View::new(&tree, &checkpoints, &alterations, &pinned, id, true);
        Snapshot::freeze(&view.unwrap(), Preamble::new("", Vec::new()))
    }

    #[tokio::test]
    async fn a_snapshot_has_the_text_that_was_stored_with_its_message() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let session = SessionId::from_u128(1);
        let put = async |text: &str| {
            let bytes: Arc<[u8]> = text.as_bytes().into();
            journal.put_blob(&bytes, Some(session)).await.unwrap()
        };
        let document = Content {
            digest: put("%PDF-1.7").await,
            extent: Extent::Pages(1),
            loaded: LoadedBytes::default(),
            text: None,
        };
        let mut ids = BTreeSet::new();
        for text in [None, Some("[left out: it was busy]"), Some("[page 1]")] {
            let stored = match text {
                Some(text) => Some(DocumentText {
                    digest: put(text).await,
                    tokens: Tokens(3),
                }),
                None => None,
            };
            let content = Content {
                text: stored,
                ..document.clone()
            };
            let snapshot = snapshot(&content);
            load(&journal, &snapshot).await.unwrap();
            assert_eq!(snapshot.file_text(&content).map(|text| &**text), text);
            assert!(snapshot.file(&content.digest).is_some());
            ids.insert(snapshot.id().to_string());
        }
        assert_eq!(ids.len(), 3, "another text is another snapshot");
    }

    #[test]
    fn the_files_of_calls_at_the_same_time_stay_within_the_limit() {
        let limits = AttachmentLimits {
            session: 1_500,
            ..AttachmentLimits::default()
        };
        let file = AttachedFile {
            filename: "plan.pdf".into(),
            mime: "application/pdf".into(),
            size_bytes: 1_000,
            content: Content {
                digest: Digest::of_bytes(b"%PDF-1.7"),
                extent: Extent::Pages(1),
                loaded: LoadedBytes::default(),
                text: None,
            },
            text: None,
        };
        let mut attached = 0;
        for kept in [1, 0] {
            let mut output = CallOutput {
                files: vec![file.clone()],
                ..CallOutput::text("Here it is.", false)
            };
            drop_excess(limits, &mut output, attached);
            attached += output.attached_bytes();
            assert_eq!(output.files.len(), kept);
            assert_eq!(output.content.contains("not kept: the session"), kept == 0);
        }
        let mut text = CallOutput::text("Nothing to see.", false);
        drop_excess(limits, &mut text, 9_000);
        assert_eq!(&*text.content, "Nothing to see.");
    }

    #[tokio::test]
    async fn a_content_that_the_store_has_takes_no_more_room() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let limits = AttachmentLimits {
            store: 1_500,
            ..AttachmentLimits::default()
        };
        let keep = async |contents: &[u8]| {
            let content = |byte: &u8| {
                let bytes: Arc<[u8]> = vec![*byte; 1_000].into();
                Content {
                    digest: Digest::of_bytes(&bytes),
                    extent: Extent::Pages(1),
                    loaded: LoadedBytes(Some(bytes)),
                    text: None,
                }
            };
            let mut contents: Vec<Content> = contents.iter().map(content).collect();
            let contents = contents.iter_mut().collect();
            let session = SessionId::from_u128(1);
            store_contents(&journal, session, limits, contents, 0).await
        };
        // The same file twice, then once more.
        keep(&[7, 7]).await.unwrap();
        keep(&[7]).await.unwrap();
        for contents in [&[8][..], &[7, 8]] {
            let refused = keep(contents).await.unwrap_err();
            assert!(matches!(refused, Error::TooMuch { .. }), "{refused}");
        }
    }
}
