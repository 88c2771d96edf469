//! The store itself.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::{Method, Response};
use unisono_api::service::{Result, Store};
use unisono_api::store::{
    ARCHIVED, AcknowledgedLosses, ArchiveCounts, HealthCheck, Loss, LossQuery, VacuumResult,
};
use unisono_api::{Code, Page};

use crate::{Client, Error};

#[async_trait]
impl Store for Client {
    async fn vacuum(&self) -> Result<VacuumResult> {
        self.json(self.request(Method::POST, "/v1/vacuum")).await
    }

    async fn losses(&self, query: &LossQuery) -> Result<Page<Loss>> {
        self.get_with("/v1/losses", query).await
    }

    async fn acknowledge_losses(&self) -> Result<AcknowledgedLosses> {
        let request = self.request(Method::POST, "/v1/losses/acknowledge");
        self.json(request).await
    }

    async fn health(&self) -> Result<Vec<HealthCheck>> {
        self.get("/v1/health").await
    }

    async fn archive(&self, file: &Path) -> Result<ArchiveCounts> {
        let response = self.send(self.request(Method::GET, "/v1/archive")).await?;
        let [sessions, events, checkpoints] = ARCHIVED.map(|name| {
            let value = response.headers().get(name);
            let text = value.and_then(|value| value.to_str().ok());
            text.and_then(|text| text.parse().ok()).unwrap_or_default()
        });
        let unwritten = |error: io::Error| {
            let detail = format!("cannot write {}: {error}", file.display());
            Error::new(Code::Failed, detail)
        };
        let mut options = OpenOptions::new();
        // Only the owner can read the archive, like the store.
        let new = options.write(true).create_new(true).mode(0o600).open(file);
        let written = self.write_body(response, new.map_err(unwritten)?).await;
        if !matches!(written, Ok(Ok(()))) {
            // An incomplete file would not be an archive.
            let _ = std::fs::remove_file(file);
        }
        written?.map_err(unwritten)?;
        Ok(ArchiveCounts {
            sessions,
            events,
            checkpoints,
        })
    }

    async fn close(self: Arc<Self>) {}
}

impl Client {
    async fn write_body(&self, mut body: Response, mut file: File) -> Result<io::Result<()>> {
        while let Some(part) = body.chunk().await.map_err(|error| self.broken(&error))? {
            if let Err(error) = file.write_all(&part) {
                return Ok(Err(error));
            }
        }
        Ok(file.sync_all())
    }
}
