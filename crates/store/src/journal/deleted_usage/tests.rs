//! Tests that the usage of a deleted session is kept exactly once, with concurrent writers and
//! whenever the process ends.

use std::sync::Arc;

use unisono_context::cost::Cost;
use unisono_context::{AgentId, Digest, RunId, Timestamp, Tokens, TurnId};
use unisono_session::event::{OpenedRun, RunRole};
use unisono_session::run::Ending;
use unisono_session::{Event, Fact};

use super::*;
use crate::disk::{Disk, vacuum};
use crate::memory::Memory;

fn event(fact: Fact) -> Event {
    let at = Timestamp(0);
    Event { at, fact }
}

/// A run of an agent that used this many tokens.
fn run(n: u128, agent: &str, tokens: u64) -> [Event; 2] {
    let run = OpenedRun {
        id: RunId::from_u128(n),
        turn: TurnId::from_u128(1),
        role: RunRole::Lead,
        agent: AgentId::new(agent),
        definition: Digest::of_bytes(b"unknown"),
        snapshot: None,
        prefix: Digest::of_bytes(b"prefix"),
    };
    let ending = Ending::Finished {
        text: "done".into(),
        calls: Vec::new(),
        partial: None,
        usage: unisono_context::call::Usage {
            cost: Some(Cost::from_micro_dollars(tokens)),
            ..unisono_context::call::Usage::free(Tokens(tokens), Tokens(1))
        },
        duration_ms: 1,
        attempt_times: unisono_session::run::AttemptTimes::default(),
    };
    let ended = Fact::RunEnded {
        run: run.id,
        ending: Arc::new(ending),
    };
    [event(Fact::RunOpened { run }), event(ended)]
}

async fn write(journal: &Journal, session: SessionId, events: &[Event]) {
    let claim = journal.claim(session).await.unwrap();
    let written = journal.append(session, claim.epoch, claim.last_seq, events, 0);
    written.await.unwrap();
}

/// Creates sessions with these numbers, each with one run of as many tokens as its number, and
/// deletes them.
async fn come_and_go(journal: &Journal, numbers: impl Iterator<Item = u64>) {
    for n in numbers {
        let session = SessionId::from_u128(u128::from(n));
        write(journal, session, &run(1, "risks", n)).await;
        assert!(journal.delete(session).await.unwrap());
    }
}

async fn totals(journal: &Journal) -> (u64, u64, u64) {
    let deleted = journal.deleted().await.unwrap();
    let total = deleted.ledger.total();
    assert_eq!(total.cost, Some(Cost::from_micro_dollars(total.input.0)));
    (deleted.sessions, deleted.ledger.jobs(), total.input.0)
}

#[tokio::test]
async fn what_sessions_used_outlives_them_and_the_process_and_a_vacuum() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    for round in 0..3 {
        let disk = Disk::open(&path).unwrap().disk;
        let journal = Journal::new(Arc::new(disk));
        assert_eq!(totals(&journal).await, (4 * round, 4 * round, 10 * round));
        come_and_go(&journal, 1..=4).await;
        assert_eq!(journal.sessions(None, 10).await.unwrap(), []);
        assert_eq!(journal.unfinished().await.unwrap(), []);
        assert!(!journal.exists(DELETED_USAGE.into()).await.unwrap());
        journal.close().await.unwrap();
        if round == 1 {
            vacuum(&path).unwrap();
        }
    }
}

#[tokio::test]
async fn a_session_that_used_nothing_leaves_nothing() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let session = SessionId::from_u128(1);
    journal.claim(session).await.unwrap();
    assert!(journal.delete(session).await.unwrap());
    assert!(!journal.delete(session).await.unwrap());
    assert_eq!(journal.engine().session(DELETED_USAGE).await.unwrap(), None);
}

#[tokio::test]
async fn the_sum_takes_the_place_of_many_entries() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let many = SUM_AFTER * 2 + 7;
    come_and_go(&journal, 1..=many).await;
    assert_eq!(totals(&journal).await, (many, many, many * (many + 1) / 2));
    let kept = journal
        .engine()
        .session(DELETED_USAGE)
        .await
        .unwrap()
        .unwrap();
    assert!(kept.last_seq < SUM_AFTER, "{}", kept.last_seq);
}

#[tokio::test]
async fn all_at_once_none_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::open(directory.path().join("store")).unwrap().disk;
    let journal = Journal::new(Arc::new(disk));
    let many = SUM_AFTER + 200;
    for n in 1..=many {
        let session = SessionId::from_u128(u128::from(n));
        write(&journal, session, &run(1, "risks", n)).await;
    }
    let mut deleting = tokio::task::JoinSet::new();
    for n in 1..=many {
        let journal = journal.clone();
        let session = SessionId::from_u128(u128::from(n));
        deleting.spawn(async move { journal.delete(session).await.unwrap() });
    }
    assert!(deleting.join_all().await.into_iter().all(|deleted| deleted));
    assert_eq!(totals(&journal).await, (many, many, many * (many + 1) / 2));
    journal.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_while_a_session_is_deleted_is_counted_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::open(directory.path().join("store")).unwrap().disk;
    let journal = Journal::new(Arc::new(disk));
    let session = SessionId::from_u128(1);
    let claim = journal.claim(session).await.unwrap();
    let writing = {
        let journal = journal.clone();
        tokio::spawn(async move {
            let mut written = 0;
            loop {
                let events = run(u128::from(written), "risks", 1);
                let append = journal.append(session, claim.epoch, written * 2, &events, 0);
                match append.await {
                    Ok(_) => written += 1,
                    Err(Error::Fenced { .. }) => return written,
                    Err(error) => panic!("{error}"),
                }
            }
        })
    };
    while journal
        .engine()
        .session(session.into())
        .await
        .unwrap()
        .unwrap()
        .last_seq
        < 20
    {
        tokio::task::yield_now().await;
    }
    assert!(journal.delete(session).await.unwrap());
    let written = writing.await.unwrap();
    assert_eq!(totals(&journal).await, (1, written, written));
    journal.close().await.unwrap();
}

#[tokio::test]
async fn an_entry_as_it_is_written_is_read_for_ever() {
    let journal = Journal::new(Arc::new(Memory::new()));
    come_and_go(&journal, 7..=7).await;
    let [entry] = &journal.engine().read(DELETED_USAGE, 1, 9).await.unwrap()[..] else {
        panic!("one session was deleted");
    };
    let hex: Vec<String> = entry
        .payload
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let lines: Vec<String> = hex.chunks(32).map(|line| line.concat()).collect();
    assert_eq!(
        lines,
        [
            "7501010000000000000001000000000000000005000000000000007269736b73",
            "0001000000000000003f01000000000000000700000000000000010000000000",
            "000000000000000000000000000000000000000000000000000001c0cf6a0000",
            "0000000000000000000000000000",
        ]
    );
}
