//! The bound of every wait.

use std::time::Duration;

/// How long a test waits for something before it fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The outcome of `future`.
///
/// # Panics
/// There is none within [`PATIENCE`]; `what` says what was waited for.
pub(crate) async fn patiently<T>(
    what: impl FnOnce() -> String,
    future: impl Future<Output = T>,
) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("waited {} s for {}", PATIENCE.as_secs(), what()),
    }
}
