//! Sessions of the store.

mod conversations;
mod described;
mod files;
mod named;
mod selected;
mod sent;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::value::RawValue;
use unisono_api::service::{self, FileParts, Sessions};
use unisono_api::session::{
    ConversationImport, ExportQuery, FileConversation, ImportFile, ImportResult, NewSession,
    Session, SessionListItem, SessionQuery,
};
use unisono_api::store::LostEvents;
use unisono_api::{Code, Page};
use unisono_context::SessionId;
use unisono_interchange::transcript::{self, Format, LineError, Stamps};
use unisono_runtime::clock;
use unisono_session::machine::Import;
use unisono_session::{Event, Fact};
use unisono_store::{Loss, SessionInfo};
use uuid::Uuid;

use super::settings::of_new;
use super::store::lost_events;
use super::{cursor, id};
use crate::Local;
use crate::error::Error;
use crate::labels::Label;
use crate::values;
use crate::view::Inspect as _;

use described::describe;
pub(super) use described::{branch, ended_turn};
pub(super) use named::is_of_client;
pub use named::{find_only, is_meant};

#[async_trait]
impl Sessions for Local {
    async fn sessions(&self, query: &SessionQuery) -> service::Result<Page<SessionListItem>> {
        let limit = Page::<()>::size(query.limit);
        let with = query.label.as_deref().map(label).transpose()?;
        let is_open_with_label = query.open && with.is_some();
        if query.by_change || query.id.is_some() || is_open_with_label {
            return Ok(selected::sessions(self, query, limit, with.as_ref()).await?);
        }
        let before = cursor(query.cursor.as_deref())?;
        if let Some(label) = &with {
            return Ok(labelled(self, before, limit, label).await?);
        }
        if query.open {
            return Ok(unfinished(self, before, limit).await?);
        }
        // One more item shows whether there is a next page.
        let found = self.journal().newest_sessions(before, limit + 1).await;
        let found = found.map_err(Error::from)?;
        let found = Page::first(found, limit, |last| last.id().to_string());
        Ok(Page {
            items: list_items(self, found.items).await?,
            next: found.next,
        })
    }

    async fn session(&self, session: &str) -> service::Result<Session> {
        let session = self.view(id("session", session)?).await?;
        let id = session.id().to_string();
        let described = session.inspect(move |state| describe(&id, state)).await;
        Ok(Session {
            lost: lost(self, session.id()),
            ..described.map_err(Error::from)?
        })
    }

    async fn create_session(&self, new: NewSession) -> service::Result<Session> {
        let most = self.setup().loaded.config.server.import_messages;
        let session = self.import(import(new, most)?).await?;
        let id = session.id().to_string();
        let described = session.inspect(move |state| describe(&id, state)).await;
        Ok(described.map_err(Error::from)?)
    }

    async fn import_file(&self, file: ImportFile) -> service::Result<ImportResult> {
        let most = most_messages(self, &file);
        Ok(self.keep_file(file, most).await?)
    }

    async fn conversations(&self, file: ImportFile) -> service::Result<Vec<FileConversation>> {
        let most = most_messages(self, &file);
        Ok(self.listed(file, most).await?)
    }

    async fn import_conversations(
        &self,
        file: ImportFile,
        picks: &[String],
    ) -> service::Result<Vec<ConversationImport>> {
        let most = most_messages(self, &file);
        Ok(self.keep_conversations(file, picks, most).await?)
    }

    async fn export(&self, session: &str, query: &ExportQuery) -> service::Result<FileParts> {
        let session = self.view(id("session", session)?).await?;
        Ok(files::exported(self.journal(), &session, query).await?)
    }

    async fn delete_session(&self, session: &str, purge: bool) -> service::Result<()> {
        let session = self.view(id("session", session)?).await?;
        let busy = session.inspect(|state| state.open_turns().count()).await;
        let busy = busy.map_err(Error::from)?;
        if busy > 0 {
            let detail = format!("{busy} of its turns have not ended; cancel them first");
            return Err(service::Error::new(Code::Conflict, detail));
        }
        self.delete(session.id(), purge).await?;
        Ok(())
    }
}

impl Local {
    /// Deletes a session, even with open turns; returns whether it existed. Nothing is deleted if its
    /// bytes are to be removed and this program may not do that.
    async fn delete(&self, session: SessionId, purge: bool) -> Result<bool, Error> {
        if purge {
            self.check_purge().await?;
        }
        let deleted = match self.runtime() {
            Ok(_) => self.discard(session).await?,
            Err(_) => self.delete_stored(session, purge).await?,
        };
        if purge {
            self.journal().forget_contents(session).await?;
            self.purge().await?;
        }
        Ok(deleted)
    }

    /// Whether the bytes of deleted sessions may be removed.
    async fn check_purge(&self) -> Result<(), Error> {
        match self.journal().check_vacuum().await {
            Err(unisono_store::Error::Database { reason }) => {
                let detail = format!("nothing was deleted: {reason}; or delete without a purge");
                Err(Error::new(Code::Refused, detail))
            }
            checked => Ok(checked?),
        }
    }

    /// Deletes a session without a runtime: also from the search index on disk, if it is used.
    async fn delete_stored(&self, session: SessionId, purge: bool) -> Result<bool, Error> {
        let deleted = self.journal().delete(session).await?;
        let index = self.shared.search_index.as_deref();
        if index.is_some_and(Path::exists) {
            let search = self.search();
            search.removed(session);
            match purge {
                true => search.purge().await?,
                false => search.settle(None).await?,
            }
        }
        Ok(deleted)
    }
}

/// Maximum messages of a conversation in that file.
fn most_messages(local: &Local, file: &ImportFile) -> Option<usize> {
    let most = local.setup().loaded.config.server.import_messages;
    file.bounded
        .then(|| usize::try_from(most).unwrap_or(usize::MAX))
}

/// A page of the sessions that may have open turns, the newest first.
async fn unfinished(
    local: &Local,
    before: Option<SessionId>,
    limit: usize,
) -> Result<Page<SessionListItem>, Error> {
    let mut ids = local.unfinished().await?;
    ids.retain(|id| before.is_none_or(|before| *id < before));
    ids.sort_unstable_by_key(|id| Reverse(*id));
    let part = Page::first(ids, limit, ToString::to_string);
    // Without those that were deleted meanwhile.
    let found = local.journal().existing(&part.items).await?;
    Ok(Page {
        items: list_items(local, found).await?,
        next: part.next,
    })
}

/// Sessions whose first events are in memory at a time: they have the system texts.
const FIRSTS: usize = 64;

/// Maximum sessions that are examined for one page of a list with a label.
const LOOKED_AT: usize = 4_096;

fn label(text: &str) -> Result<Label, Error> {
    let label = text.parse::<Label>();
    label.map_err(|wrong| Error::new(Code::InvalidRequest, wrong))
}

/// A page of the sessions with a label: as many as requested, or those among the examined sessions.
async fn labelled(
    local: &Local,
    mut before: Option<SessionId>,
    limit: usize,
    label: &Label,
) -> Result<Page<SessionListItem>, Error> {
    let (mut items, mut looked_at) = (Vec::new(), 0);
    while looked_at < LOOKED_AT {
        let found = local.journal().newest_sessions(before, LOOKED_AT / 4);
        let found = found.await?;
        let Some(last) = found.last() else {
            return Ok(Page { items, next: None });
        };
        before = Some(last.id());
        looked_at += found.len();
        let fits = |session: &SessionListItem| label.is_of(&session.labels);
        items.extend(list_items(local, found).await?.into_iter().filter(fits));
        if items.len() > limit {
            return Ok(Page::first(items, limit, |last| last.session.clone()));
        }
    }
    let next = before.map(|before| before.to_string());
    Ok(Page { items, next })
}

/// The list items of sessions, except sessions whose first event is not their creation.
pub(super) async fn list_items(
    local: &Local,
    found: Vec<SessionInfo>,
) -> Result<Vec<SessionListItem>, Error> {
    let losses = local.losses();
    let mut items = Vec::with_capacity(found.len());
    for part in found.chunks(FIRSTS) {
        let ids: Vec<SessionId> = part.iter().map(SessionInfo::id).collect();
        let firsts = local.journal().first_events(&ids).await?;
        let each = part.iter().zip(firsts);
        items.extend(each.filter_map(|(found, first)| list_item(found, first?, &losses)));
    }
    Ok(items)
}

fn list_item(found: &SessionInfo, first: Event, losses: &[Loss]) -> Option<SessionListItem> {
    let Fact::Created { title, labels, .. } = first.fact else {
        return None;
    };
    Some(SessionListItem {
        session: found.id().to_string(),
        title: title.to_string(),
        labels: plain(&labels),
        events: found.last_seq,
        bytes: found.payload_bytes,
        created_at: values::unix_ms(found.created_unix_ms),
        updated_at: values::unix_ms(found.updated_unix_ms),
        lost: lost_of(losses, found.id()),
    })
}

fn plain(labels: &BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<String, String> {
    let each = labels.iter();
    each.map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

/// The title of a session without a title and without text.
const UNTITLED: &str = "untitled";
/// Maximum number of listed problems of a conversation; the others are counted.
const LISTED_PROBLEMS: usize = 10;

/// The conversation of a request, with at most `most` messages.
pub fn import(new: NewSession, most: u32) -> Result<Import, Error> {
    let title = new.title.filter(|title| !title.trim().is_empty());
    let mut import = if new.messages.is_empty() {
        Import::default()
    } else {
        sent::check(&new.messages)?;
        conversation(new.messages, most)?
    };
    if let Some(title) = title.or_else(|| import.title.is_empty().then(|| UNTITLED.to_owned())) {
        import.title = title.into();
    }
    if let Some(system) = new.system {
        import.system = system.into();
    }
    let labels = new.labels.into_iter();
    import
        .labels
        .extend(labels.map(|(key, value)| (key.into(), value.into())));
    import.settings = of_new(&new.settings)?;
    Ok(import)
}

/// OpenAI's chat messages as a conversation.
fn conversation(messages: Vec<Box<RawValue>>, most: u32) -> Result<Import, Error> {
    let (text, first_lines) = around(messages);
    let options = transcript::Options {
        name: UNTITLED.to_owned(),
        format: Some(Format::OpenAi),
        skip_bad: false,
        most: usize::try_from(most).ok(),
        begins: None,
    };
    let mut ids = || Uuid::now_v7().as_u128();
    let stamps = Stamps {
        ids: &mut ids,
        now: Some(clock::now()),
    };
    match transcript::read(text.as_bytes(), &options, stamps) {
        Ok(parsed) => Ok(parsed.import),
        Err(error @ transcript::Error::TooMany { .. }) => Err(too_many(&error)),
        Err(transcript::Error::Bad { lines, .. }) => {
            Err(Error::new(Code::Refused, problems(&lines, &first_lines)))
        }
        Err(transcript::Error::NoMessage { .. }) => {
            let detail = "messages: system text and reasoning alone are no conversation";
            Err(Error::new(Code::Refused, detail))
        }
        Err(error) => Err(Error::new(Code::Refused, error.to_string())),
    }
}

/// The text of an object around messages, and the line at which each message begins. The messages
/// are freed one after the other.
fn around(messages: Vec<Box<RawValue>>) -> (String, Vec<u32>) {
    let (mut text, mut line) = (String::from(r#"{"messages":["#), 1_u32);
    let mut first_lines = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        text.push_str(if index > 0 { ",\n" } else { "\n" });
        line = line.saturating_add(1);
        first_lines.push(line);
        text.push_str(message.get());
        let more = message.get().bytes().filter(|byte| *byte == b'\n').count();
        line = line.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
    }
    text.push_str("]}");
    (text, first_lines)
}

/// The problems of a conversation, each with the number of its message.
fn problems(lines: &[LineError], first_lines: &[u32]) -> String {
    let problem = |line: &LineError| {
        let number = first_lines.partition_point(|first| *first <= line.line);
        format!("message {number}: {}", line.reason)
    };
    let mut listed: Vec<String> = lines.iter().take(LISTED_PROBLEMS).map(problem).collect();
    if let Some(more @ 1..) = lines.len().checked_sub(LISTED_PROBLEMS) {
        listed.push(format!("and {more} more"));
    }
    format!("messages: {}", listed.join("; "))
}

/// The error for a conversation with too many messages, with the setting of the limit.
pub fn too_many(error: &transcript::Error) -> Error {
    let detail = format!("{error}; the setting `server.import_messages` is the limit");
    Error::new(Code::Refused, detail)
}

/// The loss of a session in repairs.
fn lost(local: &Local, session: SessionId) -> Option<LostEvents> {
    lost_of(&local.losses(), session)
}

/// The newest of these losses that concerns a session.
fn lost_of(losses: &[Loss], session: SessionId) -> Option<LostEvents> {
    let of = |loss: &&Loss| SessionId::from(loss.session) == session;
    losses.iter().rev().find(of).map(lost_events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Counting;

    fn said(messages: &[&str]) -> NewSession {
        let messages = messages.iter().map(|text| (*text).to_owned());
        let messages = messages.map(|text| RawValue::from_string(text).unwrap());
        NewSession {
            messages: messages.collect(),
            ..NewSession::default()
        }
    }

    #[tokio::test]
    async fn a_program_that_only_reads_shows_no_session_that_it_has_deleted() {
        let (_, local) = Counting::with_three_sessions().await;
        let id = SessionId::from_u128(2).to_string();
        local.session(&id).await.unwrap();
        local.delete_session(&id, false).await.unwrap();
        let error = local.session(&id).await.unwrap_err();
        assert_eq!(error.code(), Code::NotFound);
    }

    #[tokio::test]
    async fn a_purge_removes_what_was_stored_for_a_message_that_was_refused() {
        let local = crate::fixture::local([]).await;
        let session = local.import(Import::default()).await.unwrap().id();
        let content: Arc<[u8]> = (*b"GIF89a").into();
        let stored = local.journal().put_blob(&content, Some(session)).await;
        stored.unwrap();
        let name = session.to_string();
        local.delete_session(&name, true).await.unwrap();
        let left = local.journal().stored_blobs().await.unwrap();
        assert_eq!(left.contents, 0);
        local.shutdown().await;
    }

    #[test]
    fn a_message_that_is_not_taken_is_named_by_its_number() {
        let user = "{\n  \"role\": \"user\",\n  \"content\": \"Which day?\"\n}";
        let empty = r#"{"role": "assistant", "content": null}"#;
        let unknown = "{\n\"role\": \"clerk\", \"content\": \"So.\"}";
        let system = r#"{"role": "system", "content": "Be brief."}"#;
        let thought = r#"{"role": "assistant", "content": null, "reasoning": "Hm."}"#;
        for (messages, told) in rows! {
            (vec![user, empty], "messages: message 2: the message has no content"),
            (vec![empty, user], "messages: message 1: the message has no content"),
            (vec![user, user, unknown], "messages: message 3: unknown role \"clerk\""),
            (vec![system], "messages: system text and reasoning alone are no conversation"),
            (vec![thought], "messages: system text and reasoning alone are no conversation"),
        } {
            let error = import(said(&messages), 100).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
        let error = import(said(&[empty; 12]), 100).unwrap_err().to_string();
        assert!(
            error.contains("; message 10: ") && error.ends_with("; and 2 more"),
            "{error}"
        );
    }

    #[test]
    fn a_session_is_meant_by_a_beginning_or_an_end_of_its_id() {
        let id = SessionId::from_u128(0x0192_1111_0000_7000_8000_0000_0000_0002);
        for name in ["01921", "01921111-00", "0192111100", "0002"] {
            assert!(is_meant(name, &id), "{name}");
        }
        // Too little of an end, something else, nothing.
        for name in ["002", "ff", ""] {
            assert!(!is_meant(name, &id), "{name}");
        }
    }
}
