//! Messages, branches, and the tree that they make.

use async_trait::async_trait;

use super::Result;
use crate::message::{Appended, Message, MessageQuery, NewMessage};
use crate::session::{Branch, NewBranch, Stretch, TreeMessage, TreeQuery};
use crate::{Page, PageQuery};

/// Messages, branches, and the tree that they make.
#[async_trait]
pub trait Messages {
    /// The messages of a branch, the oldest first, also those that have left the context. The
    /// cursor is the number of the first one.
    ///
    /// # Errors
    /// `not_found`: the session or its branch.
    async fn messages(&self, session: &str, query: &MessageQuery) -> Result<Page<Message>>;

    /// Appends a message without a turn. While a turn is open on the branch, the message waits for
    /// its end. Under a key, the same request gives the same message again.
    ///
    /// # Errors
    /// `invalid_request`, `refused`: it makes no message; `key_reused`; `not_found`.
    async fn append(&self, session: &str, new: &NewMessage, key: Option<&str>) -> Result<Appended>;

    /// The branches of a session, by name.
    ///
    /// # Errors
    /// `not_found`.
    async fn branches(&self, session: &str, query: &PageQuery) -> Result<Page<Branch>>;

    /// Starts a branch at a message, or moves it there. Nothing is copied.
    ///
    /// # Errors
    /// `not_found`: the session or the message; `conflict`: a turn of the branch is open.
    async fn fork(&self, session: &str, new: &NewBranch) -> Result<Branch>;

    /// The tree of a session's messages: stretches between forks, in the order in which they are
    /// drawn.
    ///
    /// # Errors
    /// `not_found`.
    async fn tree(&self, session: &str, query: &TreeQuery) -> Result<Page<Stretch>>;

    /// All messages of a session, whichever branches have them, in the order in which they came.
    ///
    /// # Errors
    /// `not_found`.
    async fn tree_messages(&self, session: &str, query: &PageQuery) -> Result<Page<TreeMessage>>;
}
