//! The store itself.

use std::sync::Arc;

use async_trait::async_trait;
use unisono_api::service::{Result, Store};
use unisono_api::store::{Acknowledged, Vacuumed};

use crate::Local;
use crate::error::Error;

#[async_trait]
impl Store for Local {
    async fn vacuum(&self) -> Result<Vacuumed> {
        let done = match self.runtime() {
            Ok(runtime) => runtime.purge().await.map_err(Error::from)?,
            Err(_) => self.journal().vacuum(None).await.map_err(Error::from)?,
        };
        Ok(Vacuumed {
            before_bytes: done.before_bytes,
            after_bytes: done.after_bytes,
            sessions: done.sessions,
            events: done.events,
        })
    }

    async fn acknowledge_losses(&self) -> Result<Acknowledged> {
        let losses = Local::acknowledge_losses(self).await;
        Ok(Acknowledged {
            losses: losses.map_err(Error::from)? as u64,
        })
    }

    async fn close(self: Arc<Self>) {
        match Arc::into_inner(self) {
            Some(local) => local.shutdown().await,
            None => tracing::warn!("something still uses the store; it closes with the process"),
        }
    }
}
