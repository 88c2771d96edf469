//! A client beside the server that does not use HTTP.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};
use unisono::Service;

/// A client that does not use HTTP. The program waits for it when it stops.
#[derive(Debug)]
pub struct AttachedClient {
    /// The service for its requests.
    pub service: Arc<dyn Service>,
    stopping: watch::Receiver<bool>,
    drain: Duration,
    _place: OwnedSemaphorePermit,
}

impl AttachedClient {
    pub(super) fn new(
        service: Arc<dyn Service>,
        stopping: watch::Receiver<bool>,
        drain: Duration,
        place: OwnedSemaphorePermit,
    ) -> AttachedClient {
        AttachedClient {
            service,
            stopping,
            drain,
            _place: place,
        }
    }

    /// Waits until the program stops, and returns the time that the client has to end.
    pub async fn stopped(&self) -> Duration {
        // A closed channel also means that the program stops.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
        self.drain
    }
}
