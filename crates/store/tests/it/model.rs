//! Compares the disk engine with the memory engine: any sequence of calls, with openings and
//! crashes in between, must give the same answers.

use proptest::prelude::*;
use unisono_store::{Append, Checkpoint, DELETED_USAGE, Deletion, Disk, Engine, Memory, SessionId};

use crate::child::payload;
use crate::power_cut::copy_dir;

#[derive(Debug, Clone)]
enum Call {
    Claim {
        session: u128,
    },
    /// With the epoch and the number that the session has, each changed by this much.
    Append {
        session: u128,
        count: u64,
        epoch_off: u64,
        seq_off: u64,
    },
    PutCheckpoint {
        session: u128,
        back: u64,
    },
    /// With an expected last event that is off by this much, and this much usage to keep.
    Delete {
        session: u128,
        seq_off: Option<u64>,
        left: Option<u64>,
    },
    Read {
        session: u128,
        from: u64,
        limit: usize,
    },
    Reopen,
    /// Continues with the files that a kill would leave at this moment.
    Crash,
}

fn call() -> impl Strategy<Value = Call> {
    let session = 1..4_u128;
    let off = prop_oneof![9 => Just(0), 1 => 1..3_u64];
    prop_oneof![
        3 => session.clone().prop_map(|session| Call::Claim { session }),
        12 => (session.clone(), 1..20_u64, off.clone(), off)
            .prop_map(|(session, count, epoch_off, seq_off)| Call::Append { session, count, epoch_off, seq_off }),
        2 => (session.clone(), 0..9_u64).prop_map(|(session, back)| Call::PutCheckpoint { session, back }),
        1 => (prop_oneof![9 => session.clone(), 1 => Just(DELETED_USAGE.0.as_u128())],
            proptest::option::of(0..2_u64), proptest::option::of(0..50_u64))
            .prop_map(|(session, seq_off, left)| Call::Delete { session, seq_off, left }),
        4 => (session, 0..60_u64, 0..40_usize).prop_map(|(session, from, limit)| Call::Read { session, from, limit }),
        1 => Just(Call::Reopen),
        2 => Just(Call::Crash),
    ]
}

/// The answer as text, so that errors can be compared as well.
async fn answer(engine: &dyn Engine, call: &Call) -> String {
    match *call {
        Call::Claim { session } => {
            format!("{:?}", engine.claim(SessionId::from_u128(session)).await)
        }
        Call::Append {
            session,
            count,
            epoch_off,
            seq_off,
        } => {
            let id = SessionId::from_u128(session);
            let info = engine.session(id).await.unwrap();
            let (epoch, last_seq) = info.map_or((0, 0), |info| (info.epoch, info.last_seq));
            let payloads = (0..count).map(|n| payload(session, last_seq + n)).collect();
            let append = Append {
                session: id,
                epoch: epoch.saturating_sub(epoch_off),
                expected_seq: last_seq + seq_off,
                payloads,
            };
            format!("{:?}", engine.append(append).await)
        }
        Call::PutCheckpoint { session, back } => {
            let id = SessionId::from_u128(session);
            let info = engine.session(id).await.unwrap();
            let (epoch, last_seq) = info.map_or((0, 0), |info| (info.epoch, info.last_seq));
            let checkpoint = Checkpoint {
                seq: (last_seq + 1).saturating_sub(back),
                state: payload(session, back * 37),
            };
            format!("{:?}", engine.put_checkpoint(id, epoch, checkpoint).await)
        }
        Call::Delete {
            session,
            seq_off,
            left,
        } => {
            let id = SessionId::from_u128(session);
            let info = engine.session(id).await.unwrap();
            let last_seq = info.map_or(0, |info| info.last_seq);
            let deletion = Deletion {
                session: id,
                expected_seq: seq_off.map(|off| last_seq + off),
                deleted_usage: left.map(|n| payload(session, n)),
            };
            format!("{:?}", engine.delete_session(deletion).await)
        }
        Call::Read {
            session,
            from,
            limit,
        } => {
            format!(
                "{:?}",
                engine
                    .read(SessionId::from_u128(session), from, limit)
                    .await
            )
        }
        Call::Reopen | Call::Crash => String::new(),
    }
}

/// The complete content of an engine, without times.
async fn state(engine: &dyn Engine) -> String {
    let mut newest = engine.newest_sessions(None, 100).await.unwrap();
    newest.reverse();
    assert_eq!(newest, engine.sessions(None, 100).await.unwrap());
    let mut state = String::new();
    for info in engine.sessions(None, 100).await.unwrap() {
        let events = engine.read(info.session, 1, usize::MAX).await;
        let checkpoint = engine.latest_checkpoint(info.session).await;
        let (last, bytes) = (info.last_seq, info.payload_bytes);
        state += &format!(
            "{} {last} {} {bytes} {events:?} {checkpoint:?}\n",
            info.session, info.epoch
        );
    }
    state
}

async fn compare(calls: Vec<Call>) -> Result<(), TestCaseError> {
    let mut dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let mut disk = Some(Disk::open(dir.path()).unwrap().disk);
    for call in calls {
        if let Call::Reopen | Call::Crash = call {
            let copy = tempfile::tempdir().unwrap();
            if let Call::Crash = call {
                copy_dir(dir.path(), copy.path());
            }
            drop(disk.take());
            if let Call::Crash = call {
                dir = copy;
            }
            let opened = Disk::open(dir.path()).unwrap();
            prop_assert_eq!(&opened.salvage, &None);
            disk = Some(opened.disk);
        }
        let disk = disk.as_ref().unwrap();
        let (one, other) = (answer(&memory, &call).await, answer(disk, &call).await);
        prop_assert!(one == other, "{call:?}: {one:.200} / {other:.200}");
    }
    let disk = disk.unwrap();
    prop_assert!(state(&memory).await == state(&disk).await);
    drop(disk);
    let checkup = unisono_store::doctor(dir.path()).unwrap();
    prop_assert!(
        checkup.findings.is_empty() && checkup.salvage.is_none(),
        "{checkup:?}"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disk_and_memory_agree(calls in proptest::collection::vec(call(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(compare(calls))?;
    }
}
