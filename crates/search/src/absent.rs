//! [`Search`] in a build without the search engine: every search fails and gives the reason.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use unisono_context::SessionId;
use unisono_store::Journal;

use crate::answer::{Answer, Condition, FoundMessage, RecallResult, Scope};
use crate::branch::Branch;
use crate::committed::CommittedMessages;
use crate::directory::remove;
use crate::error::{Error, Result};
use crate::query::Query;

/// Replaces the index of a journal in a build without it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Search {
    directory: Option<PathBuf>,
}

impl Search {
    /// The index in this directory, which is not read.
    pub fn on_disk(_journal: Journal, directory: PathBuf) -> Search {
        let directory = Some(directory);
        Search { directory }
    }

    /// An empty index in memory.
    pub fn in_memory(_journal: Journal) -> Search {
        Search { directory: None }
    }

    /// The same value: nothing is found in it.
    #[must_use]
    pub fn of_owner(&self, _owner: Arc<str>) -> Search {
        self.clone()
    }

    /// Whether it needs notices of commits: no.
    pub fn follows(&self) -> bool {
        false
    }

    /// Ignores a commit.
    pub fn committed(&self, _committed: CommittedMessages) {}

    /// Ignores that a session was deleted: [`Search::purge`] removes what another build indexed.
    pub fn removed(&self, _session: SessionId) {}

    /// Has nothing to wait for.
    pub async fn settle(&self, _session: Option<SessionId>) -> Result<()> {
        Ok(())
    }

    /// Removes an index that another build made: it cannot remove one session from it.
    pub async fn purge(&self) -> Result<()> {
        self.directory.as_deref().map_or(Ok(()), remove)
    }

    /// Finds nothing.
    ///
    /// # Errors
    /// Always [`Error::NotBuilt`].
    pub async fn find(&self, _: &Query, _: &[SessionId], _limit: usize) -> Result<Answer> {
        Err(Error::NotBuilt)
    }

    /// Finds nothing.
    ///
    /// # Errors
    /// Always [`Error::NotBuilt`].
    pub async fn recall(&self, _: &Branch, _text: &str, _limit: usize) -> Result<RecallResult> {
        Err(Error::NotBuilt)
    }

    /// Finds nothing.
    ///
    /// # Errors
    /// Always [`Error::NotBuilt`].
    pub async fn recall_in(
        &self,
        _: Scope,
        _text: &str,
        _limit: usize,
    ) -> Result<Vec<FoundMessage>> {
        Err(Error::NotBuilt)
    }

    /// Reports that the build has no index.
    ///
    /// # Errors
    /// Always [`Error::NotBuilt`].
    pub async fn condition(&self) -> Result<Condition> {
        Err(Error::NotBuilt)
    }

    /// Has nothing to close.
    pub async fn close(&self) {}
}

/// Does nothing: this build cannot read an index.
pub fn compact(_directory: &Path) -> Result<()> {
    Ok(())
}
