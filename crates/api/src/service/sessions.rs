//! Sessions.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;

use super::Result;
use crate::Page;
use crate::session::{
    ConversationImport, ExportQuery, FileConversation, ImportFile, ImportResult, NewSession,
    Session, SessionListItem, SessionQuery,
};

/// A file, part by part. After an error it has no further part and is incomplete.
pub type FileParts = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Sessions.
#[async_trait]
pub trait Sessions {
    /// Sessions, the newest first, or the one that changed last.
    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionListItem>>;

    /// One session.
    ///
    /// # Errors
    /// `not_found`.
    async fn session(&self, session: &str) -> Result<Session>;

    /// Creates a session from a conversation. It is on disk when this returns.
    ///
    /// # Errors
    /// `refused`: a message or a setting is wrong.
    async fn create_session(&self, new: NewSession) -> Result<Session>;

    /// Creates a session from a file. It is on disk when this returns.
    ///
    /// # Errors
    /// `refused`: the file cannot be read; `conflict`: the session that it names exists.
    async fn import_file(&self, file: ImportFile) -> Result<ImportResult>;

    /// The conversations in a file, in its order, without importing them. `pick` does not matter.
    ///
    /// # Errors
    /// `refused`: the file cannot be read.
    async fn conversations(&self, file: ImportFile) -> Result<Vec<FileConversation>>;

    /// Creates a session from each of these conversations in a file, by number or id; from all if
    /// `picks` is empty. A conversation that was imported before is not imported again, unless
    /// `copy` is set. If one cannot be read, the others are imported.
    ///
    /// # Errors
    /// `refused`: the file cannot be read, or has no such conversation.
    async fn import_conversations(
        &self,
        file: ImportFile,
        picks: &[String],
    ) -> Result<Vec<ConversationImport>>;

    /// A session in a file format that can be imported, as it is now. The file is written while it is
    /// read: the contents of its attachments are not in memory together.
    ///
    /// # Errors
    /// `not_found`: the session; `refused`: there is no such branch or format.
    async fn export(&self, session: &str, query: &ExportQuery) -> Result<FileParts>;

    /// Deletes a session permanently. With `purge`, none of its bytes are on disk when this
    /// returns; otherwise the next vacuum removes them from the disk.
    ///
    /// # Errors
    /// `not_found`; `conflict`: a turn of it is open.
    async fn delete_session(&self, session: &str, purge: bool) -> Result<()>;
}
