//! The audit log.

use async_trait::async_trait;

use super::Result;
use crate::Page;
use crate::audit::{AuditEntry, AuditQuery};

/// The audit log.
#[async_trait]
pub trait Audit {
    /// The entries of the audit log, the newest first. A page looks at a bounded number of
    /// entries: with `caller` it may have fewer than `limit` although there is a next one.
    ///
    /// # Errors
    /// `invalid_request`: `since` is no time, or the cursor belongs to another list; the store fails.
    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry>>;
}
