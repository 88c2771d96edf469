//! Imports from files and exports to files.

use std::io::{Cursor, Read};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use unisono_api::service::{self, FileParts};
use unisono_api::session::{Content, ExportQuery, ImportFile, ImportLosses, ImportResult};
use unisono_api::{Code, Problem};
use unisono_context::SessionId;
use unisono_context::attachment::Files;
use unisono_interchange::transcript::{
    self, Export, Format, LineError, Options, Parsed, WriteError,
};
use unisono_session::State;
use unisono_store::Journal;

use super::{describe, too_many};
use crate::Local;
use crate::conversation::read_labelled;
use crate::error::Error;
use crate::local::off_thread;
use crate::spool::SpooledData;
use crate::view::{Inspect as _, View};

impl Local {
    /// Creates a session from a file, with at most `most` messages.
    ///
    /// # Errors
    /// The file cannot be read, it is refused, or the store fails.
    pub(super) async fn keep_file(
        &self,
        file: ImportFile,
        most: Option<usize>,
    ) -> Result<ImportResult, Error> {
        let copy = file.copy;
        // A large file takes a while to read.
        let parsed = off_thread(move || read(file, most)).await?;
        let losses = losses(&parsed);
        let mut import = parsed.import;
        if copy {
            import.session = None;
        }
        let session = self.import(import).await?;
        let id = session.id().to_string();
        let look = move |state: &State| describe(&id, state);
        Ok(ImportResult {
            session: session.inspect(look).await?,
            losses,
        })
    }
}

fn read(file: ImportFile, most: Option<usize>) -> Result<Parsed, Error> {
    let mut options = options(&file, most)?;
    let mut content = opened(file.content)?;
    if let Some(wanted) = &file.pick {
        let found = transcript::list(&mut content, &options);
        let mut found = found.map_err(not_read)?.into_iter();
        let found = found.find(|conversation| conversation.matches(wanted));
        let missing = format!("{} has no conversation {wanted:?}", file.name);
        let found = found.ok_or_else(|| Error::new(Code::Refused, missing))?;
        let text = found.text(&mut content).map_err(refused)?;
        content = SpooledData::Memory(Cursor::new(text.into()));
        options.begins = Some(found.place);
    }
    parse(content, &options)
}

/// The options of reading a file, with at most `most` messages.
pub(super) fn options(file: &ImportFile, most: Option<usize>) -> Result<Options, Error> {
    Ok(Options {
        name: file.name.clone(),
        format: file.format.as_deref().map(format).transpose()?,
        skip_bad: file.skip_bad,
        most,
        begins: None,
    })
}

/// The contents of a file, from its start.
pub(super) fn opened(content: Content) -> Result<SpooledData, Error> {
    match content {
        Content::Bytes(bytes) => Ok(SpooledData::Memory(Cursor::new(bytes))),
        Content::File(file) => SpooledData::file(file).map_err(refused),
    }
}

pub(super) fn refused(error: std::io::Error) -> Error {
    Error::new(Code::Refused, error.to_string())
}

/// A conversation, with a label for its origin.
pub(super) fn parse(content: impl Read, options: &Options) -> Result<Parsed, Error> {
    read_labelled(content, options, &options.name).map_err(not_read)
}

/// The maximum number of skipped lines, and of warnings, in the report of an import.
const LISTED: usize = 20;

/// The parts of a conversation that cannot be imported, or may have been misread.
pub(super) fn losses(parsed: &Parsed) -> ImportLosses {
    let first = |lines: &[LineError]| {
        lines
            .iter()
            .take(LISTED)
            .map(LineError::to_string)
            .collect()
    };
    ImportLosses {
        skipped_messages: (parsed.skipped.len() - parsed.skipped_parts) as u64,
        skipped_parts: parsed.skipped_parts as u64,
        skipped: first(&parsed.skipped),
        warnings: first(&parsed.warnings),
        dropped_content: parsed.dropped_content.clone(),
    }
}

pub(super) fn not_read(error: transcript::Error) -> Error {
    match error {
        transcript::Error::TooMany { .. } => too_many(&error),
        transcript::Error::Several {
            name,
            conversations,
        } => {
            let several = "conversations; `pick` says which, by number or id";
            let detail = format!("{name}: the file holds {conversations} {several}");
            Error::new(Code::Refused, detail)
        }
        transcript::Error::Bad { ref lines, .. } => Error::Problem(Box::new(Problem {
            bad_lines: Some(lines.len() as u64),
            ..Problem::new(Code::Refused, error.to_string())
        })),
        error => Error::new(Code::Refused, error.to_string()),
    }
}

/// Bytes of a part of a file, at least; only the last one is shorter.
const PART_BYTES: usize = 64 * 1024;

/// A session as a file. The first part is written when this returns.
pub(super) async fn exported(
    journal: &Journal,
    session: &View,
    query: &ExportQuery,
) -> Result<FileParts, Error> {
    let format = query.format.as_deref().map(format).transpose()?;
    let format = format.unwrap_or(Format::Unisono);
    let state = session.inspect(|state| Arc::new(state.clone())).await?;
    let export = Export::new(state, query.branch.as_deref(), format).map_err(unwritten)?;
    let mut file = ExportedFile {
        export,
        journal: journal.clone(),
        session: session.id(),
    };
    let first = file.next_part().await?;
    let rest = stream::try_unfold(file, |mut file| async move {
        match file.next_part().await {
            Ok(part) => Ok(part.map(|part| (part, file))),
            Err(error) => {
                tracing::warn!(session = %file.session, %error, "an export breaks off");
                Err(service::Error::from(error))
            }
        }
    });
    let first = stream::iter(first.map(Ok::<_, service::Error>));
    Ok(Box::pin(first.chain(rest)))
}

/// A file that is being written.
struct ExportedFile {
    export: Export,
    journal: Journal,
    session: SessionId,
}

impl ExportedFile {
    /// The next part; none at the end.
    async fn next_part(&mut self) -> Result<Option<Bytes>, Error> {
        let mut text = String::new();
        while text.len() < PART_BYTES {
            let files = self.contents().await?;
            match self.export.next_part(&files) {
                Some(part) => text.push_str(&part.map_err(unwritten)?),
                None => break,
            }
        }
        Ok((!text.is_empty()).then(|| text.into()))
    }

    /// The contents of the attachments in the next part; those that a repair of the store lost are left
    /// out. The contents of a session that was deleted meanwhile are gone, and the file would lack them.
    async fn contents(&self) -> Result<Files, Error> {
        let mut files = Files::default();
        for digest in self.export.wanted() {
            let Some(bytes) = self.journal.blob(digest).await? else {
                let session = self.session;
                if self.journal.session(session).await?.is_none() {
                    return Err(Error::not_found("session", session));
                }
                tracing::warn!(%session, %digest, "an export lacks an attachment: its content is lost");
                continue;
            };
            files.insert(digest, bytes);
        }
        Ok(files)
    }
}

fn unwritten(error: WriteError) -> Error {
    Error::new(Code::Refused, error.to_string())
}

fn format(name: &str) -> Result<Format, Error> {
    let unknown = || Error::new(Code::InvalidRequest, format!("there is no format {name:?}"));
    Format::from_name(name).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;
    use unisono_api::service::Sessions as _;
    use unisono_context::attachment::{Content, Extent};
    use unisono_context::message::NewMessage;
    use unisono_context::{MessageId, Part, Role, Timestamp};
    use unisono_session::machine::Import;
    use unisono_store::Deletion;

    use super::*;
    use crate::fixture;

    fn with_images(messages: u128, image: &[u8]) -> Import {
        let extent = Extent::Pixels {
            width: 1,
            height: 1,
        };
        let message = |n| {
            let id = MessageId::from_u128(n);
            let mut message = NewMessage::text(id, Role::User, "See the plan.", Timestamp(0));
            message.parts.push(Part::Attachment {
                filename: "plan.gif".into(),
                mime: "image/gif".into(),
                size_bytes: image.len() as u64,
                content: Some(Content::new(image.into(), extent)),
            });
            let parent = (n > 1).then(|| MessageId::from_u128(n - 1));
            (parent, message)
        };
        Import {
            messages: (1..=messages).map(message).collect(),
            ..Import::default()
        }
    }

    async fn export(local: &Local, session: SessionId, format: &str) -> Vec<Bytes> {
        let query = ExportQuery {
            format: Some(format.to_owned()),
            branch: None,
        };
        let parts = local.export(&session.to_string(), &query).await.unwrap();
        parts.try_collect().await.unwrap()
    }

    #[tokio::test]
    async fn a_file_is_written_message_by_message() {
        const IMAGE: usize = 100_000;
        let local = fixture::local([]).await;
        let import = with_images(20, &[b"GIF89a".as_slice(), &[7; IMAGE]].concat());
        let session = local.import(import).await.unwrap().id();
        for (format, values) in [("unisono", 22), ("openai", 20), ("anthropic", 1)] {
            let parts = export(&local, session, format).await;
            assert!(parts.len() >= 20, "{format}: {}", parts.len());
            assert!(parts.iter().all(|part| part.len() < 2 * IMAGE), "{format}");
            let whole = parts.concat();
            let whole = serde_json::Deserializer::from_slice(&whole);
            let whole = whole.into_iter::<serde_json::Value>();
            let whole: Vec<_> = whole.collect::<Result<_, _>>().unwrap();
            assert_eq!(whole.len(), values, "{format}");
        }
        local.shutdown().await;
    }

    #[tokio::test]
    async fn an_export_of_a_session_that_is_deleted_meanwhile_breaks_off() {
        let local = fixture::local([]).await;
        let import = with_images(3, &[b"GIF89a".as_slice(), &[7; PART_BYTES]].concat());
        let session = local.import(import).await.unwrap().id().to_string();
        let query = ExportQuery::default();
        let mut parts = local.export(&session, &query).await.unwrap();
        assert!(parts.try_next().await.unwrap().is_some());
        local.delete_session(&session, false).await.unwrap();
        assert!(parts.try_collect::<Vec<_>>().await.is_err());
        local.shutdown().await;
    }

    #[tokio::test]
    async fn a_session_that_has_lost_an_attachment_is_exported_without_it() {
        let local = fixture::local([]).await;
        let import = with_images(1, b"GIF89a");
        let session = local.import(import).await.unwrap().id();
        let engine = local.journal().engine().clone();
        for journal in engine.sessions(None, 99).await.unwrap() {
            if journal.session != unisono_store::SessionId::from(session) {
                let deletion = Deletion::of_session(journal.session);
                engine.delete_session(deletion).await.unwrap();
            }
        }
        for format in ["unisono", "openai", "anthropic"] {
            let file = export(&local, session, format).await.concat();
            let text = String::from_utf8(file).unwrap();
            assert!(text.contains("See the plan."), "{format}: {text}");
        }
        local.shutdown().await;
    }
}
