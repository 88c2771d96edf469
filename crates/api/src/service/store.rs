//! The store itself.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::store::{AcknowledgedLosses, ArchiveCounts, HealthCheck, Loss, LossQuery, VacuumResult};

/// The store itself.
#[async_trait]
pub trait Store {
    /// Frees the disk space of deleted and replaced data: none of it is on disk when this returns.
    ///
    /// # Errors
    /// `failed`: there is no space for a second copy of the live data.
    async fn vacuum(&self) -> Result<VacuumResult>;

    /// The unacknowledged losses of repairs, the most recently found first.
    ///
    /// # Errors
    /// `invalid_request`: the cursor does not belong to this list.
    async fn losses(&self, query: &LossQuery) -> Result<Page<Loss>>;

    /// Acknowledges all losses: sessions no longer report them.
    ///
    /// # Errors
    /// `failed`: the store cannot be written.
    async fn acknowledge_losses(&self) -> Result<AcknowledgedLosses>;

    /// The condition of providers, models, settings, tool servers and of the store, as far as it is
    /// known without reading every record.
    async fn health(&self) -> Result<Vec<HealthCheck>>;

    /// Writes all sessions with their journals to a new file, for a store of this version or a
    /// later one.
    ///
    /// # Errors
    /// `failed`: the file exists, or cannot be written.
    async fn archive(&self, file: &Path) -> Result<ArchiveCounts>;

    /// Stops the work of this process and closes its store; a daemon continues. Open turns stay
    /// open.
    async fn close(self: Arc<Self>);
}
