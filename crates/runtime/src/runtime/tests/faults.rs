//! A store that does not answer in time, such as a disk that is stuck, that fails once, or that
//! refuses an append.

use unisono_store::{
    Append, Claim, Engine, EngineFuture, Error as StoreError, SessionId as StoredId,
};

use super::*;
use crate::budget_broker::BudgetBroker;

/// A store in memory with faults.
#[derive(Default)]
struct Faulty {
    memory: Memory,
    /// The errors of the next claims.
    claims: Mutex<Vec<StoreError>>,
    /// The next appends without an answer, the last one first: whether they are written.
    appends: Mutex<Vec<bool>>,
    /// The error with which the next append is refused for good.
    refusal: Mutex<Option<StoreError>>,
    /// The largest append, in bytes.
    limit: Option<usize>,
}

fn timed_out(doing: &'static str) -> StoreError {
    StoreError::TimedOut {
        doing,
        after: PATIENCE,
    }
}

impl Engine for Faulty {
    unisono_store::forward_engine!(
        memory: read, put_checkpoint, latest_checkpoint, session, sessions, delete_session, health,
        close
    );

    fn claim(&self, session: StoredId) -> EngineFuture<'_, Claim> {
        let fault = self.claims.lock().unwrap().pop();
        match fault {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.memory.claim(session),
        }
    }

    fn append(&self, append: Append) -> EngineFuture<'_, u64> {
        if let Some(error) = self.refusal.lock().unwrap().take() {
            return Box::pin(std::future::ready(Err(error)));
        }
        let fault = self.appends.lock().unwrap().pop();
        let bytes: usize = append.payloads.iter().map(Vec::len).sum();
        Box::pin(async move {
            if let Some(limit) = self.limit.filter(|limit| bytes > *limit) {
                return Err(StoreError::TooLarge {
                    what: "an append",
                    size_bytes: bytes as u64,
                    limit_bytes: limit as u64,
                });
            }
            match fault {
                None => return self.memory.append(append).await,
                Some(true) => {
                    self.memory.append(append).await?;
                }
                Some(false) => {}
            }
            Err(timed_out("append"))
        })
    }
}

async fn start_on<A: Agent + Clone>(store: &Arc<Faulty>, agent: &A, options: Options) -> Runtime {
    let extensions = Extensions::default().agent("gated", agent.clone());
    let journal = Journal::new(store.clone());
    let started = Runtime::start(journal, extensions, Models::default(), options);
    started.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_until_the_store_answers() {
    let (store, agent) = (Arc::<Faulty>::default(), Gated::new());
    let runtime = start_on(&store, &agent, Options::default()).await;
    let (handle, id) = with_a_turn(&runtime, &agent).await;
    store.appends.lock().unwrap().extend([true, false]);
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    assert!(store.appends.lock().unwrap().is_empty());
    assert_eq!(agent.started.load(Ordering::SeqCst), 1);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_continues_when_its_session_can_be_claimed() {
    let (store, agent) = (Arc::<Faulty>::default(), Gated::new());
    let runtime = start_on(&store, &agent, Options::default()).await;
    let (handle, id) = with_a_turn(&runtime, &agent).await;
    store.claims.lock().unwrap().push(timed_out("claim"));
    kill::<session::Msg>(&runtime);
    agent.is_started().await;
    assert!(store.claims.lock().unwrap().is_empty());
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    runtime.shutdown().await;
}

/// A gated agent with a call whose usage is known only afterwards.
#[derive(Clone)]
struct Reserving(Gated);

impl Agent for Reserving {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let _call = ctx.reserve_least().await?;
        self.0.run(task, ctx).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_written_is_shown_as_it_is_on_disk() {
    let (store, agent) = (Arc::<Faulty>::default(), Gated::new());
    let runtime = start_on(&store, &Reserving(agent.clone()), Options::default()).await;
    let mut bounded = turn(&gated(), 0);
    bounded.caps.turn.tokens = Some(Tokens(1_000_000));
    let (handle, _) = begun(&runtime, bounded).await;
    agent.is_started().await;
    let unwritable = StoreError::Unwritable {
        reason: "for a while".into(),
    };
    store.claims.lock().unwrap().push(unwritable);
    kill::<session::Msg>(&runtime);
    let is_tried = || store.claims.lock().unwrap().is_empty();
    fixture::until("it is opened again", is_tried).await;
    let shown = handle.inspect(|state| state.events()).await.unwrap();
    assert_eq!(shown, facts(&handle, &runtime).await.len() as u64);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_turn_waits_for_the_store_does_not_leave_memory() {
    let (store, agent) = (Arc::<Faulty>::default(), Gated::new());
    let runtime = start_on(&store, &agent, leaving()).await;
    let (handle, id) = with_a_turn(&runtime, &agent).await;
    let unwritable = StoreError::Unwritable {
        reason: "for a while".into(),
    };
    // The last one first.
    let faults = [timed_out("claim"), unwritable];
    store.claims.lock().unwrap().extend(faults);
    kill::<session::Msg>(&runtime);
    let asked = async {
        while !store.claims.lock().unwrap().is_empty() {
            // A request has the store tried again.
            let _ = handle.accept(turn(&gated(), 0)).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    asked.expect("the store is tried twice");
    agent.is_started().await;
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_during_an_outage_add_no_tries_after_them() {
    let (store, agent) = (Arc::<Faulty>::default(), Gated::new());
    let runtime = start_on(&store, &agent, Options::default()).await;
    let (handle, id) = with_a_turn(&runtime, &agent).await;
    let unwritable = || StoreError::Unwritable {
        reason: "for a while".into(),
    };
    let faults = std::iter::repeat_with(unwritable).take(1_000);
    store.claims.lock().unwrap().extend(faults);
    kill::<session::Msg>(&runtime);
    let mut refused = 0;
    while refused < 40 {
        // It may be killed only after the first of them.
        let asked = handle.accept(turn(&gated(), 0)).await;
        refused += u32::from(asked.is_err());
    }
    let left = || store.claims.lock().unwrap().len();
    let before = left();
    tokio::time::sleep(Duration::from_secs(7)).await;
    let tries = before - left();
    assert!((1..=3).contains(&tries), "{tries} tries");
    store.claims.lock().unwrap().clear();
    agent.is_started().await;
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_could_not_be_opened_is_opened_by_a_later_request() {
    let (store, agent) = (Arc::<Faulty>::default(), Gated::new());
    let runtime = start_on(&store, &agent, leaving()).await;
    let id = runtime.create(conversation(4)).await.unwrap().id();
    let too_many_files = StoreError::Io {
        doing: "read",
        path: "journal".into(),
        source: std::io::Error::other("too many open files"),
    };
    store.claims.lock().unwrap().push(too_many_files);
    // It leaves memory, cannot be opened, leaves again and is opened.
    for is_opened in [false, true] {
        let asked = async {
            while runtime.open(id).await.is_ok() != is_opened {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asked).await;
        asked.expect("it leaves memory");
    }
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_result_is_refused_for_good_is_opened_by_a_later_request() {
    let (store, agent) = (Arc::<Faulty>::default(), Gated::new());
    let runtime = start_on(&store, &agent, Options::default()).await;
    let (handle, id) = with_a_turn(&runtime, &agent).await;
    let refused = StoreError::Database {
        reason: "it refused to append events".into(),
    };
    *store.refusal.lock().unwrap() = Some(refused);
    agent.release();
    let failed = tokio::time::timeout(PATIENCE, handle.wait(id)).await;
    assert!(failed.expect("the append is refused").is_err());
    left(&handle).await;
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_append_is_refused_gets_no_budget_for_which_it_waited() {
    let (store, agent) = (Arc::<Faulty>::default(), Reserving(Gated::new()));
    let options = Options {
        budget: Some(smallest_budget()),
        ..Options::default()
    };
    let runtime = start_on(&store, &agent, options).await;
    let rival = Rival::new(&runtime);
    assert!(rival.raise(1).await.unwrap().is_ok());
    let (handle, id) = begun(&runtime, turn(&gated(), 0)).await;
    // Its call waits for what the other session has.
    rival.recalled.acquire().await.unwrap().forget();
    let refused = StoreError::Database {
        reason: "it refused to append events".into(),
    };
    *store.refusal.lock().unwrap() = Some(refused);
    assert!(handle.cancel(id).await.is_err());
    // What it does after the refusal is done by then.
    assert!(handle.inspect(|_| ()).await.is_err());
    rival.lower(1);
    assert!(rival.raise(2).await.unwrap().is_ok());
    runtime.shutdown().await;
}

/// Answers at length when it is released.
#[derive(Clone)]
struct Lengthy(Gated);

impl Agent for Lengthy {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        self.0.run(task, ctx).await?;
        Ok(Answer::text("long ".repeat(6_000)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_too_large_together_are_stored_in_parts() {
    let store = Faulty {
        limit: Some(100_000),
        ..Faulty::default()
    };
    let (store, agent) = (Arc::new(store), Gated::new());
    let runtime = start_on(&store, &Lengthy(agent.clone()), Options::default()).await;
    let (handle, turn) = begun(&runtime, turn(&gated(), 8)).await;
    for _ in 0..8 {
        agent.is_started().await;
    }
    // The others end before it is repeated.
    store.appends.lock().unwrap().push(false);
    agent.release();
    assert_eq!(ended(&handle, turn).await, Outcome::Answered);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_for_the_store_is_refused_alone() {
    let store = Faulty {
        limit: Some(100_000),
        ..Faulty::default()
    };
    let (store, agent) = (Arc::new(store), Gated::new());
    let runtime = start_on(&store, &agent, Options::default()).await;
    let (handle, id) = with_a_turn(&runtime, &agent).await;
    let large = NewTurn {
        work: fixture::answering(&"large ".repeat(100_000)),
        ..turn(&gated(), 0)
    };
    let refused = handle.accept(large).await.unwrap_err();
    assert!(refused.to_string().contains("limit of 100000"), "{refused}");
    // The session starts again without it.
    agent.is_started().await;
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    answered(&handle, turn(&gated(), 0)).await;
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_grant_waits_until_the_store_answers() {
    let store = Arc::<Faulty>::default();
    let caps = Caps {
        tokens: Some(Tokens(10_000)),
        ..Caps::NONE
    };
    let args = budget_broker::Args {
        journal: Journal::new(store.clone()),
        rules: DaemonBudget {
            caps,
            period_hours: None,
        },
        owners: Arc::default(),
        is_restart: false,
    };
    let (broker, task) = Actor::spawn(None, BudgetBroker, args).await.unwrap();
    let ask = async |session| {
        let nothing = SessionUse {
            spent: Amount::ZERO,
            in_use: Amount::ZERO,
        };
        let request = budget_broker::Request {
            session: SessionId::from_u128(session),
            owner: None,
            number: 1,
            session_use: nothing,
            needed: Amount {
                tokens: Tokens(10),
                ..Amount::ZERO
            },
            begun: false,
            spending: false,
            recall: Recall::new(|| true),
        };
        let (reply, answer) = oneshot::channel();
        let raise = budget_broker::Msg::Raise(request, reply);
        assert!(broker.send_message(raise).is_ok());
        answer.await.unwrap()
    };
    // The first is not written, or is written without an answer, and prevents no later one.
    for (session, is_written) in [(1, false), (2, true)] {
        store.appends.lock().unwrap().push(is_written);
        let granted = ask(session).await.unwrap();
        assert!(granted.tokens >= Tokens(10));
        assert!(store.appends.lock().unwrap().is_empty());
    }
    assert!(ask(3).await.unwrap().tokens >= Tokens(10));
    broker.stop(None);
    task.await.unwrap();
}
