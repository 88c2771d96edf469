//! A full disk and a disk that fails to sync.

use unisono_store::{Disk, Engine, Health};

use crate::child::{self, Acked};
use crate::shim;

/// Runs a child until its store turns read-only; checks what it said and what it left.
async fn fail(env: &[(&'static str, String)], expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (store, shadow) = (dir.path().join("store"), dir.path().join("shadow"));
    std::fs::create_dir_all(&store).unwrap();
    let env = [&shim::watch(&store, &shadow), env].concat();
    let (acked, said) = child::finish(child::spawn(&store, 4, &env));
    assert!(acked.values().sum::<u64>() > 10, "{said:?}");
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

/// The child read its store again when it had become read-only: exactly what was acknowledged.
fn check_reads(acked: &Acked, said: &[String]) {
    for (session, seq) in acked {
        let expected = format!("read {session} {seq} true");
        assert!(said.contains(&expected), "{expected}: {said:?}");
    }
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
        &[("SHIM_FULL", (4 << 20).to_string())],
        "No space left on device",
    )
    .await;
}
