//! The audit log.

use async_trait::async_trait;
use unisono_api::Page;
use unisono_api::audit::{AuditEntry, AuditQuery};
use unisono_api::service::{Audit, Result};

use crate::Client;

#[async_trait]
impl Audit for Client {
    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry>> {
        self.get_with("/v1/audit", query).await
    }
}
