//! Sessions in memory are limited, deleted ones leave, and followers keep none in memory.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc as std_mpsc;

use bytes::Bytes;
use unisono_model::language::{Completion, LanguageModel, Request};
use unisono_model::prompt::{Prefix, Shared};
use unisono_store::{Claim, Engine, EngineFuture};

use super::*;
use crate::ResidenceBounds;

fn bounded(sessions: usize, bytes: u64) -> Options {
    Options {
        resident: ResidenceBounds { sessions, bytes },
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_recently_used_session_leaves_if_there_are_too_many() {
    let agent = Gated::new();
    let runtime = start(&agent, bounded(2, u64::MAX)).await;
    let (working, id) = with_a_turn(&runtime, &agent).await;
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(runtime.create(conversation(4)).await.unwrap());
    }
    let last = idle.pop().unwrap();
    for gone in &idle {
        tokio::select! {
            () = left(gone) => {}
            () = working.left_memory() => panic!("its turn is open"),
            () = last.left_memory() => panic!("it was used last"),
        }
    }
    // Each is unchanged when it is opened again.
    let messages = idle[0].inspect(|state| state.tree().len()).await.unwrap();
    assert_eq!(messages, 4);
    agent.release();
    assert_eq!(ended(&working, id).await, Outcome::Answered);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_leave_if_they_are_too_large_together() {
    let runtime = start(&Gated::new(), bounded(1_000, 100_000)).await;
    let first = runtime.create(conversation(40)).await.unwrap();
    let second = runtime.create(conversation(40)).await.unwrap();
    left(&first).await;
    // A session that exceeds the limit by itself can be used.
    let large = runtime.create(conversation(400)).await.unwrap();
    left(&second).await;
    let messages = large.inspect(|state| state.tree().len()).await.unwrap();
    assert_eq!(messages, 400);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_session_leaves_before_small_ones() {
    let options = Options {
        passivate_after: Duration::from_secs(20),
        ..bounded(1_000, 3_200_000)
    };
    let runtime = start(&Gated::new(), options).await;
    let small = runtime.create(conversation(4)).await.unwrap();
    let large = runtime.create(conversation(400)).await.unwrap();
    tokio::select! {
        () = left(&large) => {}
        () = small.left_memory() => panic!("it is small"),
    }
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_leaves_at_once_and_its_followers_are_notified() {
    let runtime = start(&Gated::new(), Options::default()).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    let mut events = handle.events(0).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().0, 1);
    assert!(runtime.delete(handle.id()).await.unwrap());
    left(&handle).await;
    let rest = async { while events.next().await.unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, rest).await.unwrap();
    let gone = handle.events(0).await;
    assert!(matches!(gone, Err(Error::UnknownSession(_))), "{gone:?}");
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_restart_starts_no_session_twice_and_none_that_is_forgotten() {
    let runtime = start(&Gated::new(), Options::default()).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    let deleted = SessionId::from_u128(clock::new_id());
    for session in [handle.id(), deleted] {
        let restart = supervision::Msg::Restart(supervision::Child::Session(session));
        runtime.supervisor.send_message(restart).unwrap();
        // It is answered after the restart.
        let found = supervision::find(&runtime.supervisor, session).await;
        assert_eq!(found.is_some(), session == handle.id());
    }
    let children = runtime.supervisor.get_cell().get_children();
    let sessions = children.iter();
    let sessions = sessions.filter(|c| c.is_message_type_of::<session::Msg>() == Some(true));
    assert_eq!(sessions.count(), 1);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_of_a_session_that_left_memory_stays() {
    let runtime = start(&Gated::new(), bounded(2, u64::MAX)).await;
    let tasks = tokio::runtime::Handle::current().metrics();
    let come_and_go = async |sessions| {
        let mut handles = Vec::new();
        for _ in 0..sessions {
            handles.push(runtime.create(conversation(4)).await.unwrap());
        }
        // Some of them have left already, because there were too many.
        for handle in &handles {
            assert!(runtime.delete(handle.id()).await.unwrap());
            left(handle).await;
        }
    };
    come_and_go(1).await;
    let most = tasks.num_alive_tasks() + 8;
    come_and_go(32).await;
    fixture::until("they end", || tasks.num_alive_tasks() <= most).await;
    runtime.shutdown().await;
}

/// A model that waits for a signal before it has rendered a context.
struct Slow {
    begun: Arc<Semaphore>,
    may_end: Mutex<std_mpsc::Receiver<()>>,
    rendered: Arc<Mutex<Option<Bytes>>>,
}

impl LanguageModel for Slow {
    fn render(&self, _: &Shared<'_>) -> Prefix {
        self.begun.add_permits(1);
        self.may_end.lock().unwrap().recv().unwrap();
        let prefix = Prefix::new("a context ".repeat(1_000));
        *self.rendered.lock().unwrap() = Some(prefix.bytes().clone());
        prefix
    }

    fn complete(&self, _: Request) -> Completion<'_> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_of_a_turn_that_was_cancelled_meanwhile_leaves_memory() {
    let (begun, rendered) = (
        Arc::new(Semaphore::new(0)),
        Arc::<Mutex<Option<Bytes>>>::default(),
    );
    let (sender, may_end) = std_mpsc::channel();
    let slow = Slow {
        begun: begun.clone(),
        may_end: Mutex::new(may_end),
        rendered: rendered.clone(),
    };
    let models = Models::default().with("test/slow", slow);
    let kinds = Extensions::default().agent("gated", Gated::new());
    let journal = Journal::new(Arc::new(Memory::new()));
    let runtime = Runtime::start(journal, kinds, models, Options::default());
    let runtime = runtime.await.unwrap();
    let handle = runtime.create(conversation(2_500)).await.unwrap();
    let lead = Arc::new(Definition {
        model: "test/slow".into(),
        ..(*gated()).clone()
    });
    let off = Policy::from_preset(Preset::Off);
    let turn = fixture::turn(fixture::answering("what is due?"), lead, off);
    let id = turn.id;
    handle.accept(turn).await.unwrap();
    begun.acquire().await.unwrap().forget();
    handle.cancel(id).await.unwrap();
    assert_eq!(ended(&handle, id).await, Outcome::Cancelled);
    sender.send(()).unwrap();
    let is_alone = || {
        rendered
            .lock()
            .unwrap()
            .as_ref()
            .is_some_and(Bytes::is_unique)
    };
    fixture::until("nobody else has it", is_alone).await;
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_survives_unloading_without_preventing_it() {
    let agent = Gated::new();
    agent.release();
    let runtime = start(&agent, bounded(1, u64::MAX)).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    let known = handle.inspect(|state| state.events()).await.unwrap();
    let mut events = handle.events(known).await.unwrap();
    let other = runtime.create(conversation(4)).await.unwrap();
    left(&handle).await;
    let turn = turn(&gated(), 0);
    handle.accept(turn.clone()).await.unwrap();
    let mut next = known;
    loop {
        let event = tokio::time::timeout(PATIENCE, events.next()).await.unwrap();
        let (seq, event) = event.unwrap().unwrap();
        assert_eq!(seq, next + 1, "no gap, nothing twice");
        next = seq;
        if matches!(&event.fact, Fact::TurnEnded { .. }) {
            break;
        }
    }
    // A late follower reads the same from the journal.
    let mut late = handle.events(known).await.unwrap();
    for seq in known + 1..=next {
        assert_eq!(late.next().await.unwrap().unwrap().0, seq);
    }
    drop(other);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_session_is_opened_without_looking_for_it_in_the_store() {
    let runtime = start(&Gated::new(), Options::default()).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    let id = handle.id();
    // Only the store knows of it.
    assert!(runtime.journal().delete(id).await.unwrap());
    runtime.open(id).await.unwrap();
    runtime.delete(id).await.unwrap();
    left(&handle).await;
    let gone = runtime.open(id).await;
    assert!(matches!(gone, Err(Error::UnknownSession(_))), "{gone:?}");
    runtime.shutdown().await;
}

/// Refuses claims while it is told to, as a database does whose role lacks a right.
struct Refusing(Memory, AtomicBool);

impl Engine for Refusing {
    unisono_store::forward_engine!(
        0: append, read, put_checkpoint, latest_checkpoint, session, sessions, delete_session, health,
        close
    );

    fn claim(&self, session: unisono_store::SessionId) -> EngineFuture<'_, Claim> {
        if self.1.load(Ordering::SeqCst) {
            let reason = "permission denied".to_owned();
            let refused = Err(unisono_store::Error::Database { reason });
            return Box::pin(std::future::ready(refused));
        }
        self.0.claim(session)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_database_refused_is_opened_when_it_is_asked_for_later() {
    let engine = Arc::new(Refusing(Memory::new(), AtomicBool::new(false)));
    let journal = Journal::new(engine.clone());
    let started = Runtime::start(journal, Extensions::default(), Models::default(), leaving());
    let runtime = started.await.unwrap();
    let handle = runtime.create(conversation(4)).await.unwrap();
    left(&handle).await;
    engine.1.store(true, Ordering::SeqCst);
    let refused = runtime.open(handle.id()).await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    engine.1.store(false, Ordering::SeqCst);
    let opened = async {
        while runtime.open(handle.id()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, opened).await.unwrap();
    runtime.shutdown().await;
}

/// Needs the smallest amount of a budget.
#[derive(Clone)]
struct Frugal;

impl Agent for Frugal {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let _call = ctx.reserve_least().await?;
        Ok(Answer::text("done"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_left_memory_gets_no_budget_for_which_it_waited() {
    let options = Options {
        budget: Some(smallest_budget()),
        ..leaving()
    };
    let runtime = start(&Frugal, options).await;
    let rival = Rival::new(&runtime);
    assert!(rival.raise(1).await.unwrap().is_ok());
    let (handle, id) = begun(&runtime, turn(&gated(), 0)).await;
    // Its call waits for what the other session has.
    rival.recalled.acquire().await.unwrap().forget();
    // It may have left before it got its turn; this is the session with the turn.
    let handle = runtime.open(handle.id()).await.unwrap();
    handle.cancel(id).await.unwrap();
    left(&handle).await;
    rival.lower(1);
    assert!(rival.raise(2).await.unwrap().is_ok());
    runtime.shutdown().await;
}
