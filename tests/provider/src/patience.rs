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

/// Runs a wait of this crate to its end on the calling thread, for tests that are not async.
///
/// # Panics
/// It does, or there is no runtime to be had.
pub fn block_on<T>(wait: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(wait)
}
