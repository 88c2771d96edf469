//! Tests of the journal on both engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use unisono_context::{SessionId, Timestamp, TurnId};
use unisono_session::{Event, Fact};

use super::*;
use crate::disk::Disk;
use crate::engine::EngineFuture;
use crate::error::Fault;
use crate::memory::Memory;

const A: SessionId = SessionId::from_u128(0xA);
const B: SessionId = SessionId::from_u128(0xB);

/// A journal under test; its directory exists as long as it does.
struct Subject {
    journal: Journal,
    _dir: Option<tempfile::TempDir>,
}

impl Subject {
    /// Appends to the session A; one turn is open.
    async fn put(&self, epoch: u64, seq: u64, events: &[Event]) -> u64 {
        self.append(A, epoch, seq, events, 1).await.unwrap()
    }
}

impl std::ops::Deref for Subject {
    type Target = Journal;
    fn deref(&self) -> &Journal {
        &self.journal
    }
}

fn memory() -> Subject {
    Subject {
        journal: Journal::new(Arc::new(Memory::new())),
        _dir: None,
    }
}

fn disk() -> Subject {
    let dir = tempfile::tempdir().unwrap();
    let opened = Disk::open(dir.path().join("store")).unwrap();
    Subject {
        journal: Journal::new(Arc::new(opened.disk)),
        _dir: Some(dir),
    }
}

/// One module per engine, one test per case.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod on_memory { $(#[tokio::test] async fn $case() { super::$case(super::memory()).await; })* }
        mod on_disk { $(#[tokio::test] async fn $case() { super::$case(super::disk()).await; })* }
    };
}

on_both![
    events_come_back_as_appended,
    events_are_read_as_far_as_they_fit,
    only_the_latest_claim_at_the_latest_event_appends,
    an_event_makes_a_session_exist,
    the_last_event_says_whether_turns_are_open,
    an_unreadable_event_is_named,
    an_event_that_cannot_be_written_is_named,
    a_closed_journal_says_so,
    a_long_import_is_stored_in_parts_and_seen_when_it_is_whole,
    an_import_that_was_cut_short_is_taken_back,
    a_session_with_events_is_no_import,
];

fn created(session: SessionId) -> Event {
    let fact = Fact::Created {
        session,
        title: "a title".into(),
        system: "".into(),
        labels: [("owner".into(), "me".into())].into(),
    };
    event(fact)
}

fn event(fact: Fact) -> Event {
    let at = Timestamp(1);
    Event { at, fact }
}

fn started(turn: u128) -> Event {
    let turn = TurnId::from_u128(turn);
    event(Fact::TurnStarted { turn })
}

fn failed(reason: &str) -> Event {
    event(Fact::CompactionFailed {
        turn: TurnId::from_u128(1),
        reason: reason.into(),
    })
}

async fn events_come_back_as_appended(journal: Subject) {
    let claim = journal.claim(A).await.unwrap();
    assert_eq!(claim.last_seq, 0);
    // Larger than a value of the underlying engine, so it is split into chunks there.
    let long = failed(&"a reason ".repeat(20_000));
    let events = [created(A), started(7), long];
    assert_eq!(journal.put(claim.epoch, 0, &events[..2]).await, 2);
    assert_eq!(journal.put(claim.epoch, 2, &events[2..]).await, 3);

    let all: Vec<_> = (1_u64..).zip(events).collect();
    assert_eq!(journal.read(A, 1, 100).await.unwrap(), all);
    assert_eq!(journal.read(A, 2, 1).await.unwrap(), all[1..2]);
    assert_eq!(journal.read(A, 4, 100).await.unwrap(), []);
    assert_eq!(journal.read(B, 1, 100).await.unwrap(), []);
}

async fn events_are_read_as_far_as_they_fit(journal: Subject) {
    let claim = journal.claim(A).await.unwrap();
    let reasons = ["short", "short", &"a reason ".repeat(20_000), "short"];
    let events: Vec<_> = std::iter::once(created(A))
        .chain(reasons.iter().map(|reason| failed(reason)))
        .collect();
    let appended = journal.append(A, claim.epoch, 0, &events, 0).await;
    assert_eq!(appended.unwrap(), 5);
    let fitting = async |from, limit, bytes| {
        let read = journal.read_within(A, from, limit, bytes).await.unwrap();
        for (n, (seq, event)) in read.iter().enumerate() {
            let at = from as usize - 1 + n;
            assert_eq!((*seq, event), (at as u64 + 1, &events[at]));
        }
        read.len()
    };
    assert_eq!(fitting(1, 100, 1_000_000).await, 5);
    assert_eq!(fitting(1, 2, 1_000_000).await, 2);
    assert_eq!(
        fitting(1, 100, 10_000).await,
        3,
        "the large one does not fit"
    );
    assert_eq!(fitting(4, 100, 10_000).await, 1, "it comes alone");
    assert_eq!(fitting(5, 100, 0).await, 1);
    assert_eq!(fitting(6, 100, 0).await, 0);
}

async fn only_the_latest_claim_at_the_latest_event_appends(journal: Subject) {
    let first = journal.claim(A).await.unwrap();
    journal.put(first.epoch, 0, &[created(A)]).await;
    let stale = journal.append(A, first.epoch, 0, &[started(1)], 1).await;
    let Err(Error::Conflict {
        expected_seq,
        last_seq,
        ..
    }) = stale
    else {
        panic!("{stale:?}");
    };
    assert_eq!((expected_seq, last_seq), (0, 1));
    let second = journal.claim(A).await.unwrap();
    assert_eq!((second.epoch, second.last_seq), (first.epoch + 1, 1));
    let fenced = journal.append(A, first.epoch, 1, &[started(1)], 1).await;
    assert!(matches!(fenced, Err(Error::Fenced { .. })), "{fenced:?}");
    let none = journal.append(A, second.epoch, 1, &[], 0).await;
    assert!(matches!(none, Err(Error::EmptyAppend { .. })), "{none:?}");

    assert_eq!(journal.put(second.epoch, 1, &[started(2)]).await, 2);
    assert_eq!(
        journal.read(A, 1, 100).await.unwrap(),
        [(1, created(A)), (2, started(2))]
    );
}

async fn an_event_makes_a_session_exist(journal: Subject) {
    assert!(!journal.exists(A).await.unwrap());
    let claim = journal.claim(A).await.unwrap();
    assert!(!journal.exists(A).await.unwrap());
    journal.put(claim.epoch, 0, &[created(A)]).await;
    assert!(journal.exists(A).await.unwrap());

    journal.claim(B).await.unwrap();
    let ids = |sessions: Vec<SessionInfo>| -> Vec<SessionId> {
        sessions
            .into_iter()
            .map(|info| info.session.into())
            .collect()
    };
    assert_eq!(ids(journal.sessions(None, 10).await.unwrap()), [A, B]);
    assert_eq!(ids(journal.sessions(Some(A), 10).await.unwrap()), [B]);

    assert!(journal.delete(A).await.unwrap());
    assert!(!journal.delete(A).await.unwrap());
    assert!(!journal.exists(A).await.unwrap());
    assert_eq!(journal.read(A, 1, 10).await.unwrap(), []);
}

async fn the_last_event_says_whether_turns_are_open(journal: Subject) {
    let open = async || {
        let all = journal.sessions(None, 8).await.unwrap();
        let open = journal.has_open_turns(&all[0]).await.unwrap();
        let unfinished = journal.unfinished().await.unwrap();
        assert_eq!(unfinished.is_empty(), open == Some(false));
        open
    };
    let claim = journal.claim(A).await.unwrap();
    assert_eq!(open().await, Some(false), "nothing was written");
    let append = async |seq, events: &[Event], turns| {
        let appended = journal.append(A, claim.epoch, seq, events, turns).await;
        appended.unwrap();
    };
    append(0, &[created(A), started(1)], 1).await;
    assert_eq!(open().await, Some(true));
    append(2, &[failed("a"), failed("b")], 0).await;
    assert_eq!(open().await, Some(false));

    // An older version did not record it, and neither does an event that had others after it.
    let events = journal.engine().read(A.into(), 3, 1).await.unwrap();
    let payload = events.into_iter().next().unwrap().payload;
    let cut = Append::new(A.into(), claim.epoch, 4, vec![payload]);
    journal.engine().append(cut).await.unwrap();
    assert_eq!(open().await, None);
}

async fn an_unreadable_event_is_named(journal: Subject) {
    let claim = journal.claim(A).await.unwrap();
    journal.put(claim.epoch, 0, &[created(A)]).await;
    let foreign = Append {
        session: A.into(),
        epoch: claim.epoch,
        expected_seq: 1,
        payloads: vec![vec![b'u', 1, 0xFF, 0xFF], vec![b'u', 2], vec![0, 3]],
    };
    journal.engine().append(foreign).await.unwrap();

    assert_eq!(journal.read(A, 1, 1).await.unwrap(), [(1, created(A))]);
    let named = |seq| Record::Event {
        session: A.into(),
        seq,
    };
    let damaged = journal.read(A, 1, 10).await.unwrap_err();
    assert!(
        matches!(&damaged, Error::Corrupt { record, fault: Fault::Truncated } if *record == named(2)),
        "{damaged}"
    );
    let newer = journal.read(A, 3, 10).await.unwrap_err();
    assert!(
        matches!(&newer, Error::NewerRecord { record, .. } if *record == named(3)),
        "{newer}"
    );
    assert_eq!(
        newer.to_string(),
        format!(
            "{} was written by a newer version of unisono (format 2, this version reads 1): nothing is damaged; use the newer version",
            named(3)
        )
    );
    let earlier = journal.read(A, 4, 10).await.unwrap_err();
    assert!(
        matches!(&earlier, Error::EarlierRecord { record } if *record == named(4)),
        "{earlier}"
    );
}

async fn an_event_that_cannot_be_written_is_named(journal: Subject) {
    let claim = journal.claim(A).await.unwrap();
    let huge = failed(&"x".repeat(73 << 20));
    let result = journal
        .append(A, claim.epoch, 0, &[created(A), huge], 0)
        .await;
    let named = Record::Event {
        session: A.into(),
        seq: 2,
    };
    assert!(
        matches!(&result, Err(Error::Encode { record, .. }) if *record == named),
        "{result:?}"
    );
    assert!(!journal.exists(A).await.unwrap());
}

async fn a_closed_journal_says_so(journal: Subject) {
    let claim = journal.claim(A).await.unwrap();
    assert_eq!(journal.health(), Health::Ok);
    let other = journal.journal.clone();
    other.close().await.unwrap();
    let closed = journal.append(A, claim.epoch, 0, &[created(A)], 0).await;
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

#[test]
fn its_futures_can_move_between_threads() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    let Subject { journal, .. } = memory();
    drop(assert_send(journal.claim(A)));
    drop(assert_send(journal.append(A, 1, 0, &[], 0)));
    drop(assert_send(journal.read(A, 1, 1)));
    drop(assert_send(journal.exists(A)));
    drop(assert_send(journal.sessions(None, 1)));
    drop(assert_send(journal.delete(A)));
    drop(assert_send(journal.close()));
    assert_eq!(
        format!("{:?}", journal.clone()),
        "Journal { health: Ok, .. }"
    );
}

/// A store in which the events of session A are damaged.
struct Damaged {
    memory: Memory,
}

impl Engine for Damaged {
    crate::forward_engine!(
        memory: claim, append, put_checkpoint, latest_checkpoint, session, sessions, delete_session,
        health, close
    );

    fn read(
        &self,
        session: engine::SessionId,
        from: u64,
        limit: usize,
    ) -> EngineFuture<'_, Vec<engine::Event>> {
        if session != engine::SessionId::from(A) {
            return self.memory.read(session, from, limit);
        }
        let record = Record::Event { session, seq: from };
        let damaged = Error::unreadable(record, Fault::BadChecksum);
        Box::pin(async move { Err(damaged) })
    }
}

#[tokio::test]
async fn a_damaged_session_hides_no_other_one() {
    let memory = Memory::new();
    let journal = Journal::new(Arc::new(Damaged { memory }));
    let finished = SessionId::from_u128(0xC);
    for (session, turns) in [(A, 0), (B, 1), (finished, 0)] {
        let claim = journal.claim(session).await.unwrap();
        let events = [created(session)];
        let appended = journal.append(session, claim.epoch, 0, &events, turns);
        appended.await.unwrap();
    }
    assert_eq!(journal.unfinished().await.unwrap(), [A, B]);
    let all = journal.sessions(None, 8).await.unwrap();
    assert_eq!(journal.has_open_turns(&all[0]).await.unwrap(), None);
    let firsts = journal.first_events(&[A, B]).await.unwrap();
    assert!(firsts[0].is_none() && firsts[1].is_some());
    let mine = journal.of_owner("me".into());
    for _ in 0..2 {
        let listed = mine.sessions(None, 8).await.unwrap();
        assert_eq!(listed, all[1..]);
        assert!(!mine.shows(A).await.unwrap());
    }
}

/// A store that counts the last events that are read.
#[derive(Default)]
struct Counting {
    memory: Memory,
    lasts: AtomicUsize,
}

impl Engine for Counting {
    crate::forward_engine!(
        memory: claim, append, read, put_checkpoint, latest_checkpoint, session, sessions,
        delete_session, health, close
    );

    fn last_events(
        &self,
        sessions: Vec<SessionInfo>,
    ) -> EngineFuture<'_, Vec<Option<engine::Event>>> {
        self.lasts.fetch_add(sessions.len(), Ordering::Relaxed);
        self.memory.last_events(sessions)
    }
}

#[tokio::test]
async fn the_last_event_of_a_finished_session_is_read_once() {
    let engine = Arc::new(Counting::default());
    let journal = Journal::new(engine.clone());
    let unfinished = async |reads: usize| {
        let unfinished = journal.unfinished().await.unwrap();
        assert_eq!(engine.lasts.swap(0, Ordering::Relaxed), reads);
        unfinished
    };
    let append = async |session, seq, event, turns| {
        let claim = journal.claim(session).await.unwrap();
        let events = [event];
        let appended = journal.append(session, claim.epoch, seq, &events, turns);
        appended.await.unwrap();
    };
    append(A, 0, created(A), 0).await;
    append(B, 0, created(B), 1).await;
    assert_eq!(unfinished(2).await, [B]);
    assert_eq!(unfinished(1).await, [B]);
    append(A, 1, started(1), 1).await;
    append(B, 1, failed("a"), 0).await;
    assert_eq!(unfinished(2).await, [A]);
    assert_eq!(unfinished(1).await, [A]);
    assert!(journal.delete(B).await.unwrap());
    append(B, 0, created(B), 1).await;
    assert_eq!(unfinished(2).await, [A, B]);
}

/// The first events of a session, in more than one part.
fn long() -> Vec<Event> {
    let phrases = (0..8).map(|n| format!("{n}").repeat(1 << 20));
    let phrases = phrases.map(|phrase| Fact::PhrasesSet {
        phrases: vec![phrase.as_str().into()],
    });
    let created = Fact::Created {
        session: A,
        title: "long".into(),
        system: "".into(),
        labels: Default::default(),
    };
    std::iter::once(created).chain(phrases).map(event).collect()
}

async fn a_long_import_is_stored_in_parts_and_seen_when_it_is_whole(journal: Subject) {
    let (claim, events) = (journal.claim(A).await.unwrap(), long());
    let last = journal.append(A, claim.epoch, 0, &events, 0).await.unwrap();
    assert_eq!(last, events.len() as u64);
    let read = journal.read(A, 1, 100).await.unwrap();
    assert!(read.into_iter().map(|(_, event)| event).eq(events));
    let listed = journal.sessions(None, 1).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        journal.has_open_turns(&listed[0]).await.unwrap(),
        Some(false)
    );
    let noted = crate::imports::unfinished(journal.engine().as_ref())
        .await
        .unwrap();
    assert!(noted.is_empty());
    assert_eq!(journal.sweep().await.unwrap(), 0);
    assert!(journal.exists(A).await.unwrap());
}

async fn an_import_that_was_cut_short_is_taken_back(journal: Subject) {
    let other = journal.claim(B).await.unwrap();
    let event = [long().swap_remove(0)];
    journal.append(B, other.epoch, 0, &event, 0).await.unwrap();
    let claim = journal.claim(A).await.unwrap();
    let import = journal
        .imports
        .begin(&journal.engine, A.into(), claim.epoch)
        .await
        .unwrap();
    let mut parts = Parts {
        session: A.into(),
        epoch: claim.epoch,
        events: &long(),
        open: OpenTurns::from_count(0),
    };
    let first = parts.next(0, PART_BYTES).unwrap();
    assert!(!parts.events.is_empty() && first.payloads.len() > 1);
    journal.engine.append(first).await.unwrap();
    // It is hidden here, and whoever opens the store next deletes it.
    assert!(!journal.exists(A).await.unwrap());
    assert_eq!(journal.sessions(None, 1).await.unwrap().len(), 1);
    let next = Journal::new(journal.engine.clone());
    assert!(next.exists(A).await.unwrap());
    assert_eq!(next.sweep().await.unwrap(), 1);
    assert!(!next.exists(A).await.unwrap() && next.exists(B).await.unwrap());
    assert_eq!(next.sweep().await.unwrap(), 0);
    // If it was abandoned in this process, it is deleted before the session is claimed again.
    drop(import);
    assert!(!journal.exists(A).await.unwrap());
    let claim = journal.claim(A).await.unwrap();
    assert_eq!(claim.last_seq, 0);
    journal.append(A, claim.epoch, 0, &long(), 0).await.unwrap();
    assert!(journal.exists(A).await.unwrap());
}

async fn a_session_with_events_is_no_import(journal: Subject) {
    let (claim, event) = (journal.claim(A).await.unwrap(), [long().swap_remove(0)]);
    journal.append(A, claim.epoch, 0, &event, 0).await.unwrap();
    let refused = journal.append(A, claim.epoch, 0, &long(), 0).await;
    assert!(
        matches!(refused, Err(Error::Conflict { .. })),
        "{refused:?}"
    );
    let fenced = journal.append(A, claim.epoch + 1, 0, &long(), 0).await;
    assert!(matches!(fenced, Err(Error::Fenced { .. })), "{fenced:?}");
    assert!(journal.exists(A).await.unwrap());
    assert_eq!(journal.sweep().await.unwrap(), 0);
    assert_eq!(journal.claim(A).await.unwrap().last_seq, 1);
}
