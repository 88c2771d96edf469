//! A power cut: the store is killed, and everything that was not truly synced is dropped.

use std::path::Path;

use unisono_store::{Disk, Engine};

use crate::kill::{rounds, scramble};
use crate::{child, shim};

/// Runs a child until it is killed, drops what was not synced, and checks what is left.
async fn cut(dir: &Path, round: u64, env: &[(&'static str, String)]) -> Result<u64, String> {
    let (store, shadow, left) = (dir.join("store"), dir.join("shadow"), dir.join("left"));
    std::fs::create_dir_all(&store).unwrap();
    let env = [&shim::watch(&store, &shadow), env].concat();
    let acks = 20 + usize::try_from(scramble(round) % 200).unwrap();
    let acked = child::kill_after(child::spawn(&store, 4, &env), acks);
    shim::restore(&shadow, &store, &left);
    let opened = Disk::open(&left).map_err(|error| error.to_string())?;
    if let Some(salvage) = opened.salvage {
        return Err(salvage.to_string());
    }
    let verified = child::verify(&opened.disk, &acked).await;
    opened.disk.close().await.unwrap();
    verified
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_event_survives_a_power_cut() {
    for round in 0..rounds(12) {
        let dir = tempfile::tempdir().unwrap();
        let events = cut(dir.path(), round, &[]).await;
        assert!(
            events.as_ref().is_ok_and(|events| *events >= 20),
            "round {round}: {events:?}"
        );
    }
}

/// The control: where the own sync of the log is not believed, the cut is noticed. If this fails, the
/// test above proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_own_sync_a_power_cut_loses_events() {
    for round in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let events = cut(dir.path(), round, &[("SHIM_IGNORE_DATA", "1".into())]).await;
        assert!(events.is_err(), "round {round}: {events:?}");
    }
}
