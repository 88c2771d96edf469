//! Imports from files and exports to files.

use std::collections::BTreeSet;
use std::io::{Cursor, Read};

use unisono_api::session::{Content, ExportQuery, ImportFile, ImportLosses, ImportResult};
use unisono_api::{Code, Problem};
use unisono_context::Digest;
use unisono_context::attachment::Files;
use unisono_interchange::transcript::{self, Format, LineError, Options, Parsed};
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

pub(super) async fn written(
    journal: &Journal,
    session: &View,
    query: &ExportQuery,
) -> Result<String, Error> {
    let format = query.format.as_deref().map(format).transpose()?;
    let format = format.unwrap_or(Format::Unisono);
    let branch = query.branch.clone();
    let files = match format {
        Format::Unisono | Format::OpenAi | Format::Anthropic => contents(journal, session).await?,
        _ => Files::default(),
    };
    let write = move |state: &State| {
        let written = transcript::write(state, branch.as_deref(), format, &files);
        written.map_err(|error| error.to_string())
    };
    let written = session.inspect(write).await?;
    written.map_err(|why| Error::new(Code::Refused, why))
}

/// The contents of the attachments of a session; those that a repair of the store lost are left out.
async fn contents(journal: &Journal, session: &View) -> Result<Files, Error> {
    let look = |state: &State| {
        let placed = state.tree().iter().flat_map(|node| &node.message.parts);
        let branches = state.tree().branches();
        let waiting = branches.flat_map(|(branch, _)| state.waiting_messages(branch));
        let waiting = waiting.flat_map(|message| &message.parts);
        let named = placed.chain(waiting);
        let named = named.filter_map(|part| Some(part.content()?.digest));
        named.collect::<BTreeSet<Digest>>()
    };
    let mut files = Files::default();
    for digest in session.inspect(look).await? {
        let Some(bytes) = journal.blob(digest).await? else {
            let session = session.id();
            tracing::warn!(%session, %digest, "an export lacks an attachment: its content is lost");
            continue;
        };
        files.insert(digest, bytes);
    }
    Ok(files)
}

fn format(name: &str) -> Result<Format, Error> {
    let unknown = || Error::new(Code::InvalidRequest, format!("there is no format {name:?}"));
    Format::from_name(name).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use unisono_api::service::Sessions as _;
    use unisono_context::attachment::{Content, Extent};
    use unisono_context::message::NewMessage;
    use unisono_context::{MessageId, Part, Role, Timestamp};
    use unisono_session::machine::Import;
    use unisono_store::Deletion;

    use super::*;
    use crate::fixture;

    /// A conversation with an image.
    fn with_image() -> Import {
        let extent = Extent::Pixels {
            width: 1,
            height: 1,
        };
        let id = MessageId::from_u128(1);
        let mut message = NewMessage::text(id, Role::User, "See the plan.", Timestamp(0));
        message.parts.push(Part::Attachment {
            filename: "plan.gif".into(),
            mime: "image/gif".into(),
            size_bytes: 6,
            content: Some(Content::new((*b"GIF89a").into(), extent)),
        });
        Import {
            messages: vec![(None, message)],
            ..Import::default()
        }
    }

    #[tokio::test]
    async fn a_session_that_has_lost_an_attachment_is_exported_without_it() {
        let local = fixture::local([]).await;
        let session = local.import(with_image()).await.unwrap().id();
        let engine = local.journal().engine().clone();
        for journal in engine.sessions(None, 99).await.unwrap() {
            if journal.session != unisono_store::SessionId::from(session) {
                let deletion = Deletion::of_session(journal.session);
                engine.delete_session(deletion).await.unwrap();
            }
        }
        for format in ["unisono", "openai", "anthropic"] {
            let query = ExportQuery {
                format: Some(format.to_owned()),
                branch: None,
            };
            let text = local.export(&session.to_string(), &query).await.unwrap();
            assert!(text.contains("See the plan."), "{format}: {text}");
        }
        local.shutdown().await;
    }
}
