//! When the store is vacuumed while the daemon runs, and how fast.

use std::sync::Arc;
use std::time::Duration;

use unisono_store::Space;

use crate::Local;
use unisono_config::settings::Vacuum;

const MIB: u64 = 1 << 20;

/// The log grows by segments of this size, and has one at least.
const SEGMENT: u64 = 8 * MIB;

/// Whether a vacuum is worth its work: the log is larger by that many bytes than twice what is live
/// in it and what no vacuum saves.
fn is_due(space: Space, unsaved_bytes: u64, least_bytes: u64) -> bool {
    let fair = (2 * space.live_bytes).saturating_add(unsaved_bytes);
    space.disk_bytes > fair.saturating_add(least_bytes)
}

/// What a vacuum that has just ended did not save.
fn unsaved(space: Space) -> u64 {
    let unsaved = space.disk_bytes.saturating_sub(2 * space.live_bytes);
    unsaved.max(SEGMENT)
}

/// Looks as often as it is set, and vacuums where it is worth it; for ever.
pub async fn follow(local: Arc<Local>) {
    let mut unsaved_bytes = SEGMENT;
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
        if !is_due(
            space,
            unsaved_bytes,
            store.vacuum_over_mib.saturating_mul(MIB),
        ) {
            continue;
        }
        let pace = store.vacuum_mib_per_second.saturating_mul(MIB);
        match journal.vacuum(Some(pace.max(MIB))).await {
            Ok(done) => {
                let (before, after) = (done.before_bytes, done.after_bytes);
                // By what was live before it began: what was deleted meanwhile can be saved next time.
                unsaved_bytes = unsaved(Space {
                    disk_bytes: after,
                    live_bytes: space.live_bytes,
                });
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
        for (disk, live, unsaved, due) in [
            (100, 0, 0, true),
            (64, 0, 0, false),
            (200, 100, 0, false),
            (265, 100, 0, true),
            // What a vacuum could not make smaller is not tried for ever.
            (265, 10, 200, false),
            (400, 10, 200, true),
        ] {
            let space = Space {
                disk_bytes: disk,
                live_bytes: live,
            };
            assert_eq!(is_due(space, unsaved, 64), due, "{disk} {live}");
        }
    }
}
