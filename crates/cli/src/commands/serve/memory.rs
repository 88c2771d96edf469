//! Gives freed memory back to the system while the daemon is idle.

use std::hint::black_box;
use std::time::Duration;

/// The allocator gives freed pages back a while after they were freed, but only when it frees others:
/// an idle daemon would keep what a load needed. Freeing a large block once in a while is enough.
const INTERVAL: Duration = Duration::from_secs(2);
/// Larger than the blocks that threads keep for themselves. It is not written to, so it takes no
/// memory.
const BLOCK_BYTES: usize = 4 << 20;

/// Runs until it is dropped.
pub(super) async fn give_back_freed() {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
    }
}
