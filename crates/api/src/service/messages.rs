//! Messages, branches, and the message tree.

use async_trait::async_trait;

use super::Result;
use crate::blob::{Blob, BlobContent};
use crate::message::{AppendedMessage, Message, MessageQuery, NewMessage};
use crate::session::{Branch, BranchSegment, NewBranch, TreeMessage, TreeQuery};
use crate::{Page, PageQuery};

/// Messages, branches, and the message tree.
#[async_trait]
pub trait Messages {
    /// The messages of a branch, the oldest first, including those that have left the context. The
    /// cursor is the number of the first message of the page.
    ///
    /// # Errors
    /// `not_found`: the session or its branch.
    async fn messages(&self, session: &str, query: &MessageQuery) -> Result<Page<Message>>;

    /// Appends a message without a turn. While a turn is open on the branch, the message waits for
    /// its end. A repeated request with the same key returns the same message.
    ///
    /// # Errors
    /// `invalid_request`, `refused`: it is not a valid message; `key_reused`; `not_found`.
    async fn append(
        &self,
        session: &str,
        new: &NewMessage,
        key: Option<&str>,
    ) -> Result<AppendedMessage>;

    /// Stores a file, which messages can name by its digest. If none does, it is removed after an
    /// hour. `mime` is the type that it is said to have.
    ///
    /// # Errors
    /// `invalid_request`: it is not a whole file of a known type; `too_large`.
    async fn put_blob(&self, bytes: Vec<u8>, mime: Option<&str>) -> Result<Blob>;

    /// The content of a stored file.
    ///
    /// # Errors
    /// `not_found`; `failed`: it is damaged.
    async fn blob(&self, digest: &str) -> Result<BlobContent>;

    /// The branches of a session, by name.
    ///
    /// # Errors
    /// `not_found`.
    async fn branches(&self, session: &str, query: &PageQuery) -> Result<Page<Branch>>;

    /// Creates a branch at a message, or moves it there. Nothing is copied.
    ///
    /// # Errors
    /// `not_found`: the session or the message; `conflict`: a turn of the branch is open.
    async fn fork(&self, session: &str, new: &NewBranch) -> Result<Branch>;

    /// The message tree of a session: stretches between forks, in drawing order.
    ///
    /// # Errors
    /// `not_found`.
    async fn tree(&self, session: &str, query: &TreeQuery) -> Result<Page<BranchSegment>>;

    /// All messages of a session, on any branch, in order of arrival.
    ///
    /// # Errors
    /// `not_found`.
    async fn tree_messages(&self, session: &str, query: &PageQuery) -> Result<Page<TreeMessage>>;
}
