//! The store itself.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::store::{Acknowledged, Archived, Loss, LossQuery, Vacuumed};

/// The store itself.
#[async_trait]
pub trait Store {
    /// Gives back the room of what was deleted or replaced: nothing of it is on disk when this
    /// returns.
    ///
    /// # Errors
    /// `failed`: there is no room for a second copy of what is live.
    async fn vacuum(&self) -> Result<Vacuumed>;

    /// What repairs have lost and nobody has acknowledged, what was found last first.
    ///
    /// # Errors
    /// `invalid_request`: the cursor is none of this list.
    async fn losses(&self, query: &LossQuery) -> Result<Page<Loss>>;

    /// Acknowledges what repairs have lost: sessions do not tell of it any more.
    ///
    /// # Errors
    /// `failed`: the store cannot be written.
    async fn acknowledge_losses(&self) -> Result<Acknowledged>;

    /// Writes all sessions with their journals into a new file, for a store of this version or a
    /// later one.
    ///
    /// # Errors
    /// `failed`: the file exists, or cannot be written.
    async fn archive(&self, file: &Path) -> Result<Archived>;

    /// Ends what this process works on and closes its store; a daemon goes on. Open turns stay open.
    async fn close(self: Arc<Self>);
}
