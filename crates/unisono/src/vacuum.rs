//! The automatic vacuum of the daemon: when, and how fast.

use std::sync::Arc;
use std::time::Duration;

use unisono_store::Space;

use crate::Local;
use unisono_config::settings::Vacuum;

const MIB: u64 = 1 << 20;

/// The log grows by segments of this size, and has at least one.
const SEGMENT: u64 = 8 * MIB;

/// Maximum number of skipped checks after vacuums that saved little.
const LONGEST_PAUSE: u32 = 64;

/// Whether a vacuum is due: the log exceeds twice its live data and the preallocated segment by
/// more than this number of bytes.
fn is_due(space: Space, least_bytes: u64) -> bool {
    let fair = (2 * space.live_bytes).saturating_add(SEGMENT);
    space.disk_bytes > fair.saturating_add(least_bytes)
}

/// Number of skipped checks after a vacuum: none if it saved a tenth or more, otherwise twice as
/// many as after the previous one.
fn pause_after(before_bytes: u64, after_bytes: u64, last: u32) -> u32 {
    let saved = before_bytes.saturating_sub(after_bytes);
    match saved >= before_bytes / 10 {
        true => 0,
        false => (last * 2).clamp(1, LONGEST_PAUSE),
    }
}

/// Checks at the configured interval, and vacuums if it is due. Never returns.
pub async fn follow(local: Arc<Local>) {
    let (mut pause, mut left) = (0, 0);
    loop {
        let store = local.setup().loaded.config.store.clone();
        if store.vacuum == Vacuum::Off {
            return;
        }
        tokio::time::sleep(Duration::from_secs(store.vacuum_every_seconds.max(1))).await;
        let journal = local.journal();
        let space = match journal.space().await {
            Ok(space) => space,
            Err(error) => {
                tracing::warn!(%error, "how much room the store takes cannot be found out");
                continue;
            }
        };
        if left > 0 {
            left -= 1;
            continue;
        }
        if !is_due(space, store.vacuum_over_mib.saturating_mul(MIB)) {
            continue;
        }
        let pace = store.vacuum_mib_per_second.saturating_mul(MIB);
        match journal.vacuum(Some(pace.max(MIB))).await {
            Ok(done) => {
                if let Err(error) = local.purge_index().await {
                    tracing::warn!(%error, "the search index was not vacuumed with the store");
                }
                let (before, after) = (done.before_bytes, done.after_bytes);
                pause = pause_after(before, after, pause);
                left = pause;
                tracing::info!(
                    before_bytes = before,
                    after_bytes = after,
                    "the store was vacuumed"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "the store was not vacuumed; it is tried again later")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vacuum_is_due_where_half_of_a_large_log_is_not_live() {
        for (disk, live, due) in [
            (100, 0, true),
            (72, 0, false),
            (200, 100, false),
            (272, 100, false),
            (273, 100, true),
        ] {
            let space = Space {
                disk_bytes: disk * MIB,
                live_bytes: live * MIB,
            };
            assert_eq!(is_due(space, 64 * MIB), due, "{disk} {live}");
        }
    }

    #[test]
    fn vacuums_that_save_little_are_tried_less_and_less_often() {
        let mut pause = 0;
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            pause = pause_after(100, 99, pause);
            assert_eq!(pause, expected);
        }
        assert_eq!(pause_after(100, 100, 0), 1);
        assert_eq!(pause_after(100, 120, 0), 1);
        assert_eq!(pause_after(100, 90, pause), 0);
    }
}
