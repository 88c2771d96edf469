//! The end of a [`Local`]: by shutdown, or by being dropped.

use std::sync::Arc;
use std::time::Duration;

use unisono_store::Journal;

use super::{Local, Shared};

/// How long to wait for the hooks of ended turns.
const HOOKS_WITHIN: Duration = Duration::from_secs(5);

impl Local {
    /// Stops the runtime and closes the store. Open turns stay open and resume at the next start. The
    /// hooks of ended turns have up to five seconds. If a [`Local::for_caller`] of this one exists,
    /// nothing happens until that is dropped, too.
    pub async fn shutdown(self) {
        let Some(mut shared) = Arc::into_inner(self.shared) else {
            tracing::warn!("a caller is still there; the store closes when it is gone");
            return;
        };
        let runtime = shared.runtime.take();
        #[cfg(feature = "otel")]
        let traces = shared.traces.take();
        if let Some(runtime) = runtime {
            runtime.hooks_settled(HOOKS_WITHIN).await;
            runtime.shutdown().await;
        }
        // Of a program that only reads: the next one takes the index at once.
        if let Some(search) = shared.search.take() {
            search.close().await;
        }
        shared.learnt.keep();
        shared.audit.close().await;
        #[cfg(feature = "otel")]
        if let Some(traces) = traces {
            traces.close().await;
        }
        close(&shared.journal).await;
    }
}

/// A value that is dropped without [`Local::shutdown`] stops in the background and closes its
/// store, also if it is dropped outside of an async executor. If its own executor has ended, so have
/// its actors.
impl Drop for Shared {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let (learnt, journal) = (self.learnt.clone(), self.journal.clone());
        let executor = tokio::runtime::Handle::try_current().ok();
        if let Some(executor) = executor.or_else(|| self.executor.take()) {
            executor.spawn(async move {
                runtime.shutdown().await;
                learnt.keep();
                close(&journal).await;
            });
        }
    }
}

async fn close(journal: &Journal) {
    if let Err(error) = journal.close().await {
        tracing::warn!(%error, "the store did not close cleanly");
    }
}
