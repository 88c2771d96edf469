//! Conversations.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::session::{
    ExportQuery, ImportFile, Imported, Listed, NewSession, Session, SessionQuery,
};

/// Conversations.
#[async_trait]
pub trait Sessions {
    /// Sessions, the newest first, or the one that changed last.
    async fn sessions(&self, query: &SessionQuery) -> Result<Page<Listed>>;

    /// One session.
    ///
    /// # Errors
    /// `not_found`.
    async fn session(&self, session: &str) -> Result<Session>;

    /// Keeps a conversation. On disk when it returns.
    ///
    /// # Errors
    /// `refused`: a message or a setting is wrong.
    async fn create_session(&self, new: NewSession) -> Result<Session>;

    /// Keeps a conversation as it stands in a file. On disk when it returns.
    ///
    /// # Errors
    /// `refused`: it cannot be read; `conflict`: the session it says it is exists.
    async fn import_file(&self, file: ImportFile) -> Result<Imported>;

    /// A session as it stands in a file that can be imported.
    ///
    /// # Errors
    /// `not_found`: the session; `refused`: there is no such branch or format.
    async fn export(&self, session: &str, query: &ExportQuery) -> Result<String>;

    /// Deletes a session for good. With `purge`, none of its bytes are on disk when this returns;
    /// otherwise they leave the disk with the next vacuum.
    ///
    /// # Errors
    /// `not_found`; `conflict`: a turn of it is open.
    async fn delete_session(&self, session: &str, purge: bool) -> Result<()>;
}
