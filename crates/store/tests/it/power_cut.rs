//! Tests with a simulated power cut: the store is killed, and all data that was not synced is
//! dropped.

use std::path::Path;

use unisono_store::{Disk, Engine};

use crate::child::{self, Acked};
use crate::kill::{rounds, scramble};
use crate::shim;

/// Runs a child on the store in `life-N` until it is killed, and puts the synced data in
/// `life-N+1`.
fn cut(dir: &Path, life: u64, seed: u64, env: &[(&'static str, String)]) -> Acked {
    let store = dir.join(format!("life-{life}"));
    let shadow = dir.join(format!("shadow-{life}"));
    std::fs::create_dir_all(&store).unwrap();
    shim::seed(&store, &shadow);
    let env = [&shim::watch(&store, &shadow), env].concat();
    let acks = 20 + usize::try_from(scramble(seed * 31 + life) % 200).unwrap();
    let acked = child::kill_after(child::spawn(&store, 4, &env), acks);
    shim::restore(&shadow, &store, &dir.join(format!("life-{}", life + 1)));
    acked
}

/// Checks a copy of the remaining data, so that the next child opens exactly that.
async fn check(dir: &Path, life: u64, acked: &Acked) -> Result<u64, String> {
    let copy = dir.join(format!("copy-{life}"));
    copy_dir(&dir.join(format!("life-{life}")), &copy);
    let opened = Disk::open(&copy).map_err(|error| error.to_string())?;
    if let Some(salvage) = opened.salvage {
        return Err(salvage.to_string());
    }
    let verified = child::verify(&opened.disk, acked).await;
    opened.disk.close().await.unwrap();
    verified
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_event_survives_power_cuts() {
    for round in 0..rounds(8) {
        let dir = tempfile::tempdir().unwrap();
        let mut acked = Acked::new();
        for life in 0..3 {
            acked.extend(cut(dir.path(), life, round, &[]));
            let events = check(dir.path(), life + 1, &acked).await;
            assert!(
                events.as_ref().is_ok_and(|n| *n >= 20),
                "round {round}, life {life}: {events:?}"
            );
        }
    }
}

/// The control test: if the store's own sync of the log is ignored, the power cut must be detected.
/// If this fails, the test above proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_own_sync_a_power_cut_loses_events() {
    for round in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let acked = cut(dir.path(), 0, round, &[("SHIM_IGNORE_DATA", "1".into())]);
        let events = check(dir.path(), 1, &acked).await;
        assert!(events.is_err(), "round {round}: {events:?}");
    }
}
