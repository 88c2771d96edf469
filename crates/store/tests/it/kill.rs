//! Tests with a real process that is ended by SIGKILL during its writes.

use unisono_store::{Append, Disk, Engine, SessionId};

use crate::child::{self, Acked};
use crate::power_cut::copy_dir;

/// A small deterministic random generator (splitmix64), so that a failing round can be repeated.
pub(crate) fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Number of repetitions of random tests: more in a soak test.
pub(crate) fn rounds(ordinary: u64) -> u64 {
    std::env::var("UNISONO_SOAK_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(ordinary)
}

/// Makes enough single writes for the writer to settle in between. The store is complete after a
/// kill, and a session that is no longer written to is not forgotten after the mark.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_behind_a_settling_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path().join("store")).unwrap().disk;
    let mut acked = Acked::new();
    let mut epochs = Vec::new();
    for session in 0..3 {
        let claim = disk.claim(SessionId::from_u128(session)).await.unwrap();
        epochs.push(claim.epoch);
    }
    for round in 0..1100_u64 {
        let session = if round < 9 { u128::from(round % 3) } else { 2 };
        let seq = acked.get(&session).map_or(0, |seq| *seq);
        let append = Append {
            session: SessionId::from_u128(session),
            epoch: epochs[usize::try_from(session).unwrap()],
            expected_seq: seq,
            payloads: vec![child::payload(session, seq + 1)],
        };
        acked.insert(session, disk.append(append).await.unwrap());
    }
    copy_dir(&dir.path().join("store"), &dir.path().join("left"));
    let opened = Disk::open(dir.path().join("left")).unwrap();
    assert_eq!(opened.salvage, None);
    assert_eq!(child::verify(&opened.disk, &acked).await, Ok(1100));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_event_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut acked = Acked::new();
    for round in 0..rounds(50) {
        // A store that is killed repeatedly, and now and then a new one.
        let store = dir.path().join((round / 10).to_string());
        if round % 10 == 0 {
            acked.clear();
        }
        let acks = 1 + usize::try_from(scramble(round) % 60).unwrap();
        acked.extend(child::kill_after(child::spawn(&store, 4, &[]), acks));
        let opened = Disk::open(&store).unwrap();
        assert_eq!(opened.salvage, None, "round {round}");
        child::verify(&opened.disk, &acked)
            .await
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        opened.disk.close().await.unwrap();
    }
}
