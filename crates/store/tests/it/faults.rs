//! Tests with a full disk and with a disk that fails to sync.

use unisono_store::{Disk, Engine, Health};

use crate::child::{self, Acked};
use crate::shim;

/// Runs a child until its store becomes read-only; checks its output and the store.
async fn fail(env: &[(&'static str, String)], expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (store, shadow) = (dir.path().join("store"), dir.path().join("shadow"));
    std::fs::create_dir_all(&store).unwrap();
    // Sessions to which the failing process has not written, and which it does not have in memory.
    let mut acked = child::kill_after(child::spawn(&store, 12, &[]), 600);
    let env = [&shim::watch(&store, &shadow), env].concat();
    let (acked_now, said) = child::finish(child::spawn(&store, 4, &env));
    assert!(acked_now.values().sum::<u64>() > 10, "{said:?}");
    acked.extend(acked_now);
    let errors: Vec<_> = said
        .iter()
        .filter(|line| line.starts_with("error "))
        .collect();
    assert_eq!(errors.len(), 4, "every writer ends with an error: {said:?}");
    for error in errors {
        assert!(
            error.contains("the store is read-only since") && error.contains(expected),
            "{error}"
        );
    }
    assert!(
        said.iter().any(|line| line.starts_with("health ReadOnly")),
        "{said:?}"
    );
    check_reads(&acked, &said);
    let opened = Disk::open(&store).unwrap();
    assert_eq!(opened.salvage, None);
    assert_eq!(opened.disk.health(), Health::Ok);
    child::verify(&opened.disk, &acked).await.unwrap();
}

/// The child read its store again after it had become read-only: all acknowledged events are
/// readable.
fn check_reads(acked: &Acked, said: &[String]) {
    for (session, seq) in acked {
        let prefix = format!("read {session} ");
        let line = said.iter().find_map(|line| line.strip_prefix(&prefix));
        let line = line.and_then(|rest| rest.split_once(' '));
        // A killed child has acknowledged at least as much as it printed.
        assert!(
            line.is_some_and(|(n, good)| n.parse::<u64>().unwrap() >= *seq && good == "true"),
            "{prefix}{seq}: {said:?}"
        );
    }
}

/// A disk that fails when the store is opened is reported as such: it is not considered damage, and
/// nothing is repaired.
#[test]
fn a_disk_that_fails_at_the_start_is_an_error_and_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (store, shadow) = (dir.path().join("store"), dir.path().join("shadow"));
    std::fs::create_dir_all(&store).unwrap();
    drop(child::kill_after(child::spawn(&store, 4, &[]), 100));
    let mut env = shim::watch(&store, &shadow);
    env.push(("SHIM_FAIL_ALL", "1".into()));
    for _ in 0..2 {
        let (acked, said) = child::finish(child::spawn(&store, 4, &env));
        assert!(acked.is_empty());
        let reply = said
            .iter()
            .find_map(|line| line.split_once("cannot open: "));
        let reply = reply.unwrap_or_else(|| panic!("{said:?}")).1;
        assert!(reply.contains("Input/output error"), "{reply}");
        assert!(!store.join("quarantine").exists(), "{reply}");
    }
    let opened = Disk::open(&store).unwrap();
    assert_eq!(opened.salvage, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_is_final_and_loses_nothing() {
    fail(
        &[("SHIM_FAIL_SYNC", "40".into())],
        "a sync of the log failed",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_read_only_and_loses_nothing() {
    fail(
        &[("SHIM_FULL", (32 << 20).to_string())],
        "No space left on device",
    )
    .await;
}
