//! The conversations in a file: a list of them, and the import of some.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Seek as _};

use unisono_api::Code;
use unisono_api::session::{ConversationImport, FileConversation, ImportFile, ImportLosses};
use unisono_context::SessionId;
use unisono_interchange::transcript::{self, Conversation, Options, Parsed, SOURCE_DIGEST};

use super::files::{losses, not_read, opened, options, parse, refused};
use super::{label, labelled};
use crate::Local;
use crate::conversation::picked;
use crate::error::Error;
use crate::local::off_thread;
use crate::spool::SpooledData;
use crate::values;

/// Sessions of a page while the known conversations are looked for.
const PAGE: usize = 500;

/// A file whose conversations are known.
struct Listed {
    content: SpooledData,
    options: Options,
    conversations: Vec<Entry>,
}

/// A conversation with the digest of its text.
struct Entry {
    conversation: FileConversation,
    digest: String,
    /// Its place in a file of several; `None`: it is the whole file.
    part: Option<Conversation>,
}

impl Entry {
    /// Whether `wanted` is its number or id.
    fn matches(&self, wanted: &str) -> bool {
        match &self.part {
            Some(part) => part.matches(wanted),
            None => wanted == "1",
        }
    }
}

impl Local {
    /// The conversations in a file, with the sessions that were made of them.
    ///
    /// # Errors
    /// The file is refused, or the store fails.
    pub(super) async fn listed(
        &self,
        file: ImportFile,
        most: Option<usize>,
    ) -> Result<Vec<FileConversation>, Error> {
        let mut listed = off_thread(move || list(file, most)).await?;
        self.mark_known(&mut listed.conversations).await?;
        let entries = listed.conversations.into_iter();
        Ok(entries.map(|entry| entry.conversation).collect())
    }

    /// Imports these conversations of a file, all if `picks` is empty.
    ///
    /// # Errors
    /// The file is refused, it has no such conversation, or the store fails.
    pub(super) async fn keep_conversations(
        &self,
        file: ImportFile,
        picks: &[String],
        most: Option<usize>,
    ) -> Result<Vec<ConversationImport>, Error> {
        let (copy, name) = (file.copy, file.name.clone());
        let mut listed = off_thread(move || list(file, most)).await?;
        let known = std::mem::take(&mut listed.conversations);
        listed.conversations = picked(known, picks, Entry::matches).map_err(|unknown| {
            let detail = format!("{name} has no conversation {unknown:?}");
            Error::new(Code::Refused, detail)
        })?;
        if !copy {
            self.mark_known(&mut listed.conversations).await?;
        }
        let (mut content, mut done) = (listed.content, Vec::new());
        for entry in listed.conversations {
            if entry.conversation.session.is_some() {
                done.push(ConversationImport::known(entry.conversation));
                continue;
            }
            let (part, options) = (entry.part, listed.options.clone());
            let read = off_thread(move || {
                let parsed = read_part(&mut content, part.as_ref(), options);
                (content, parsed)
            });
            let (back, parsed) = read.await;
            content = back;
            done.push(self.keep_one(entry.conversation, parsed, copy).await?);
        }
        Ok(done)
    }

    /// Creates the session of a conversation, or says why there is none.
    async fn keep_one(
        &self,
        mut conversation: FileConversation,
        parsed: Result<Parsed, Error>,
        copy: bool,
    ) -> Result<ConversationImport, Error> {
        let made = match parsed {
            Ok(parsed) => {
                let losses = losses(&parsed);
                let mut import = parsed.import;
                if copy {
                    import.session = None;
                }
                self.import(import).await.map(|session| (session, losses))
            }
            Err(error) => Err(error),
        };
        let (losses, error) = match made {
            Ok((session, losses)) => {
                conversation.session = Some(session.id().to_string());
                (losses, None)
            }
            Err(error) if matches!(error.code(), Code::Refused | Code::Conflict) => {
                (ImportLosses::default(), Some(error))
            }
            Err(error) => return Err(error),
        };
        let bad_lines = match &error {
            Some(Error::Problem(problem)) => problem.bad_lines,
            _ => None,
        };
        Ok(ConversationImport {
            conversation,
            known: false,
            losses,
            error: error.map(|error| error.to_string()),
            bad_lines,
        })
    }

    /// Gives the conversations that were imported before their sessions.
    async fn mark_known(&self, entries: &mut [Entry]) -> Result<(), Error> {
        let mut wanted: BTreeSet<String> =
            entries.iter().map(|entry| entry.digest.clone()).collect();
        let mut known = BTreeMap::new();
        let of_files = label(SOURCE_DIGEST)?;
        let mut before: Option<SessionId> = None;
        while !wanted.is_empty() {
            let page = labelled(self, before, PAGE, &of_files).await?;
            for session in page.items {
                let Some(digest) = session.labels.get(SOURCE_DIGEST) else {
                    continue;
                };
                if wanted.remove(digest) {
                    known.insert(digest.clone(), session.session);
                }
            }
            let next = page.next.and_then(|next| next.parse().ok());
            if next.is_none() {
                break;
            }
            before = next;
        }
        for entry in entries {
            entry.conversation.session = known.get(&entry.digest).cloned();
        }
        Ok(())
    }
}

fn list(file: ImportFile, most: Option<usize>) -> Result<Listed, Error> {
    let options = options(&file, most)?;
    let mut content = opened(file.content)?;
    let found = transcript::list(&mut content, &options).map_err(not_read)?;
    content.rewind().map_err(refused)?;
    let conversations = match found.is_empty() {
        true => vec![whole(&mut content, &options)?],
        false => found.into_iter().map(part).collect(),
    };
    Ok(Listed {
        content,
        options,
        conversations,
    })
}

fn whole(content: &mut SpooledData, options: &Options) -> Result<Entry, Error> {
    let parsed = parse(content, options)?;
    let first = parsed.import.messages.first();
    let at = first.map(|(_, message)| message.at);
    let digest = parsed.import.labels.get(SOURCE_DIGEST);
    Ok(Entry {
        digest: digest.map(ToString::to_string).unwrap_or_default(),
        conversation: FileConversation {
            number: 1,
            id: None,
            title: parsed.import.title.to_string(),
            at: at.and_then(values::known_instant),
            messages: parsed.import.messages.len() as u64,
            session: None,
        },
        part: None,
    })
}

/// One of several conversations of a file.
fn part(found: Conversation) -> Entry {
    Entry {
        digest: found.digest.to_string(),
        conversation: FileConversation {
            number: found.number as u64,
            id: found.id.clone(),
            title: found.title.clone(),
            at: found.at.map(values::instant),
            messages: found.messages as u64,
            session: None,
        },
        part: Some(found),
    }
}

/// Reads a conversation of a file; without a part the whole file.
fn read_part(
    content: &mut SpooledData,
    part: Option<&Conversation>,
    mut options: Options,
) -> Result<Parsed, Error> {
    let Some(part) = part else {
        content.rewind().map_err(refused)?;
        return parse(content, &options);
    };
    let text = part.text(content).map_err(refused)?;
    options.begins = Some(part.place);
    parse(Cursor::new(text), &options)
}
