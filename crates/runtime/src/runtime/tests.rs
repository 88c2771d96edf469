//! The tree under failures: each kind of actor is killed at a known point, and the turn continues.

mod attaching;
mod faults;
mod gathering;
mod residence;
mod stopping;
mod workers;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};

use ractor::Message;
use tokio::sync::{Semaphore, mpsc};
use unisono_context::policy::{Policy, Preset, Trigger};
use unisono_context::{Tokens, TurnId};
use unisono_model::language::{self, Reply, Request};
use unisono_session::Definition;
use unisono_session::State as SessionState;
use unisono_session::agent::{AgentKind, Assignment};
use unisono_session::budget::broker::{DaemonBudget, SessionUse};
use unisono_session::budget::{Amount, Caps};
use unisono_session::event::{Fact, LateOutput, Outcome};
use unisono_session::machine::NewTurn;
use unisono_session::run::{Ending, RunCause};
use unisono_store::Memory;

use super::*;
use crate::address::ActorResult;
use crate::agent::fixture::{self, conversation};
use crate::budget_broker::{self, BudgetRefusal, Recall};
use crate::{
    Agent, Answer, Ctx, Failure, Task, clock, compactor, pool_port, session, tokenizer, worker,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Answers when it is released; reports the number of its starts.
#[derive(Clone)]
struct Gated {
    started: Arc<AtomicU32>,
    starts: Arc<Semaphore>,
    concurrency: Arc<Semaphore>,
}

impl Gated {
    fn new() -> Gated {
        Gated {
            started: Arc::default(),
            starts: Arc::new(Semaphore::new(0)),
            concurrency: Arc::new(Semaphore::new(0)),
        }
    }

    /// Waits for one more start.
    async fn is_started(&self) {
        let start = tokio::time::timeout(PATIENCE, self.starts.acquire()).await;
        start.unwrap().unwrap().forget();
    }

    fn release(&self) {
        self.concurrency.add_permits(64);
    }
}

impl Agent for Gated {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        self.started.fetch_add(1, Ordering::SeqCst);
        self.starts.add_permits(1);
        self.concurrency.acquire().await.unwrap().forget();
        Ok(Answer::text("done"))
    }
}

fn gated() -> Arc<Definition> {
    Arc::new(Definition {
        retries: 2,
        max_concurrent: 8,
        ..fixture::definition(AgentKind::Custom("gated".into()))
    })
}

fn one_at_a_time() -> Arc<Definition> {
    Arc::new(Definition {
        max_concurrent: 1,
        ..(*gated()).clone()
    })
}

/// One attempt of an agent may wait.
fn short_queue() -> Options {
    Options {
        pool_queue: 1,
        ..Options::default()
    }
}

async fn start<A: Agent + Clone>(agent: &A, options: Options) -> Runtime {
    start_with(Extensions::default().agent("gated", agent.clone()), options).await
}

async fn start_with(kinds: Extensions, options: Options) -> Runtime {
    let journal = Journal::new(Arc::new(Memory::new()));
    let started = Runtime::start(journal, kinds, Models::default(), options);
    started.await.unwrap()
}

/// A session with this turn.
async fn begun(runtime: &Runtime, turn: NewTurn) -> (Handle, TurnId) {
    let (handle, id) = (runtime.create(conversation(4)).await.unwrap(), turn.id);
    handle.accept(turn).await.unwrap();
    (handle, id)
}

/// A session whose run has started.
async fn with_a_turn(runtime: &Runtime, agent: &Gated) -> (Handle, TurnId) {
    let session = begun(runtime, turn(&gated(), 0)).await;
    agent.is_started().await;
    session
}

fn turn(lead: &Arc<Definition>, delegates: usize) -> NewTurn {
    let assign = |_| Assignment {
        agent: lead.clone(),
        task: None,
    };
    let policy = Policy {
        trigger: Some(Trigger::Tokens(Tokens(600))),
        ..Policy::from_preset(Preset::Checkpoint)
    };
    let mut turn = fixture::turn(fixture::answering("what is due?"), lead.clone(), policy);
    turn.team.delegates = (0..delegates).map(assign).collect();
    turn
}

/// Kills the child of the supervisor with this message type.
fn kill<M: Message>(runtime: &Runtime) {
    let children = runtime.supervisor.get_cell().get_children();
    let child = children
        .into_iter()
        .find(|c| c.is_message_type_of::<M>() == Some(true));
    child.expect("there is such a child").kill();
}

async fn ended(handle: &Handle, turn: TurnId) -> Outcome {
    let ended = tokio::time::timeout(PATIENCE, handle.wait(turn)).await;
    ended.expect("the turn ends in time").unwrap().outcome
}

/// Accepts a turn, which is answered.
async fn answered(handle: &Handle, turn: NewTurn) {
    let id = turn.id;
    handle.accept(turn).await.unwrap();
    assert_eq!(ended(handle, id).await, Outcome::Answered);
}

/// Idle sessions leave memory at once.
fn leaving() -> Options {
    Options {
        passivate_after: Duration::from_millis(1),
        ..Options::default()
    }
}

async fn left(handle: &Handle) {
    let left = tokio::time::timeout(PATIENCE, handle.left_memory()).await;
    left.expect("it leaves memory");
}

/// A daemon's budget with room for one smallest amount.
fn smallest_budget() -> DaemonBudget {
    let caps = Caps {
        tokens: Some(Tokens(1)),
        ..Caps::NONE
    };
    DaemonBudget {
        caps,
        period_hours: None,
    }
}

/// Other sessions that need the smallest amount of the daemon's budget.
struct Rival {
    broker: ActorRef<budget_broker::Msg>,
    /// The number of times at which one was asked to return it.
    recalled: Arc<Semaphore>,
}

impl Rival {
    fn new(runtime: &Runtime) -> Rival {
        let mut children = runtime.supervisor.get_cell().get_children().into_iter();
        let is_broker = Some(true);
        let broker = children.find(|c| c.is_message_type_of::<budget_broker::Msg>() == is_broker);
        Rival {
            broker: broker.unwrap().into(),
            recalled: Arc::new(Semaphore::new(0)),
        }
    }

    fn raise(&self, session: u128) -> oneshot::Receiver<Result<Amount, BudgetRefusal>> {
        let recalled = self.recalled.clone();
        let request = budget_broker::Request {
            session: SessionId::from_u128(session),
            owner: None,
            number: 1,
            session_use: SessionUse::default(),
            needed: Amount::LEAST,
            begun: false,
            spending: false,
            recall: Recall::new(move || {
                recalled.add_permits(1);
                true
            }),
        };
        let (reply, answer) = oneshot::channel();
        let raise = budget_broker::Msg::Raise(request, reply);
        assert!(self.broker.send_message(raise).is_ok());
        answer
    }

    fn lower(&self, session: u128) {
        let returned = budget_broker::ReturnedGrant {
            session: SessionId::from_u128(session),
            session_use: SessionUse::default(),
            spending: false,
            pending: None,
        };
        let lower = budget_broker::Msg::Lower(returned);
        assert!(self.broker.send_message(lower).is_ok());
    }
}

async fn facts(handle: &Handle, runtime: &Runtime) -> Vec<Fact> {
    let events = runtime
        .journal()
        .read(handle.id(), 1, 10_000)
        .await
        .unwrap();
    events.into_iter().map(|(_, event)| event.fact).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_session_resumes_its_turn() {
    let agent = Gated::new();
    let runtime = start(&agent, Options::default()).await;
    let (handle, id) = with_a_turn(&runtime, &agent).await;
    kill::<session::Msg>(&runtime);
    agent.is_started().await;
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    let ends = facts(&handle, &runtime).await;
    let ends = ends
        .iter()
        .filter(|fact| matches!(fact, Fact::RunEnded { .. }));
    assert_eq!(ends.count(), 1, "the first incarnation's run was cancelled");
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_pool_loses_attempts_which_are_repeated() {
    let agent = Gated::new();
    let runtime = start(&agent, Options::default()).await;
    let (handle, id) = with_a_turn(&runtime, &agent).await;
    kill::<pool_port::Msg>(&runtime);
    agent.is_started().await;
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    let retried = facts(&handle, &runtime).await;
    assert!(
        retried
            .iter()
            .any(|fact| matches!(fact, Fact::RunRetried { attempt: 2, .. }))
    );
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_tokenizer_and_compactor_are_restarted_for_the_next_turn() {
    let agent = Gated::new();
    agent.release();
    let runtime = start(&agent, Options::default()).await;
    let handle = runtime.create(conversation(80)).await.unwrap();
    kill::<tokenizer::Msg>(&runtime);
    kill::<compactor::Msg>(&runtime);
    answered(&handle, turn(&gated(), 2)).await;
    let facts = facts(&handle, &runtime).await;
    assert!(
        facts
            .iter()
            .any(|fact| matches!(fact, Fact::Compacted { .. }))
    );
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_answers_busy() {
    let agent = Gated::new();
    let runtime = start(&agent, short_queue()).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    let narrow = Arc::new(Definition {
        retries: 0,
        ..(*one_at_a_time()).clone()
    });
    let turn = turn(&narrow, 3);
    let mut events = handle.events(0).await.unwrap();
    handle.accept(turn.clone()).await.unwrap();
    // One runs, one waits, one is rejected.
    loop {
        let next = tokio::time::timeout(PATIENCE, events.next()).await;
        let (_, event) = next.expect("events come in time").unwrap().unwrap();
        if let Fact::RunEnded { ending, .. } = &event.fact {
            let busy = matches!(
                **ending,
                Ending::Failed {
                    cause: RunCause::Busy,
                    ..
                }
            );
            assert!(busy, "{ending:?}");
            break;
        }
    }
    agent.release();
    assert_eq!(ended(&handle, turn.id).await, Outcome::Answered);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_too_many_open_turns_is_busy() {
    let agent = Gated::new();
    let options = Options {
        session_queue: 2,
        ..Options::default()
    };
    let runtime = start(&agent, options).await;
    let (handle, first) = with_a_turn(&runtime, &agent).await;
    let second = turn(&gated(), 0);
    handle.accept(second.clone()).await.unwrap();
    let third = turn(&gated(), 0);
    let busy = handle.accept(third.clone()).await.unwrap_err();
    assert!(matches!(busy, Error::Busy(_)), "{busy}");
    // A repetition adds no turn.
    handle.accept(second.clone()).await.unwrap();
    agent.release();
    for open in [first, second.id] {
        assert_eq!(ended(&handle, open).await, Outcome::Answered);
    }
    answered(&handle, third).await;
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_left_memory_is_loaded_by_a_request() {
    let agent = Gated::new();
    agent.release();
    let runtime = start(&agent, leaving()).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    for _ in 0..20 {
        answered(&handle, turn(&gated(), 1)).await;
        let messages = handle.inspect(|state| state.tree().len()).await.unwrap();
        assert!(messages > 4);
    }
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_leaves_memory_and_a_working_one_stays() {
    let agent = Gated::new();
    let runtime = start(&agent, leaving()).await;
    let (working, id) = with_a_turn(&runtime, &agent).await;
    // It may have left before it got its turn; this is the session with the turn.
    let working = runtime.open(working.id()).await.unwrap();
    let idle = runtime.create(conversation(4)).await.unwrap();
    tokio::select! {
        () = left(&idle) => {}
        () = working.left_memory() => panic!("its turn is open"),
    }
    agent.release();
    assert_eq!(ended(&working, id).await, Outcome::Answered);
    left(&working).await;
    runtime.shutdown().await;
}

/// Answers only after it was cancelled: too late, and without checking for it.
struct Deaf {
    started: Arc<Semaphore>,
    cancelled: Arc<(Mutex<bool>, Condvar)>,
}

impl Agent for Deaf {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        self.started.add_permits(1);
        // Blocks its thread, so that it cannot be stopped here.
        let (cancelled, changed) = &*self.cancelled;
        let guard = cancelled.lock().unwrap();
        let waited = changed.wait_timeout_while(guard, PATIENCE, |cancelled| !*cancelled);
        assert!(!waited.unwrap().1.timed_out());
        Ok(Answer::text("too late"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_late_answer_of_a_cancelled_run_is_recorded_and_not_delivered() {
    let (started, cancelled) = (Arc::new(Semaphore::new(0)), Arc::default());
    let deaf = Deaf {
        started: Arc::clone(&started),
        cancelled: Arc::clone(&cancelled),
    };
    let kinds = Extensions::default().agent("gated", deaf);
    let runtime = start_with(kinds, Options::default()).await;
    let (handle, turn) = begun(&runtime, turn(&gated(), 0)).await;
    started.acquire().await.unwrap().forget();
    handle.cancel(turn).await.unwrap();
    assert_eq!(ended(&handle, turn).await, Outcome::Cancelled);
    let messages = |state: &SessionState| state.tree().len();
    let before = handle.inspect(messages).await.unwrap();
    *cancelled.0.lock().unwrap() = true;
    cancelled.1.notify_all();

    let mut events = handle.events(0).await.unwrap();
    let late = async {
        while let Some((_, event)) = events.next().await.unwrap() {
            if let Fact::LateOutputReceived { late, .. } = &event.fact {
                return late.clone();
            }
        }
        panic!("the journal ended");
    };
    let late = tokio::time::timeout(PATIENCE, late).await.unwrap();
    let said = matches!(&late, LateOutput::Answer { text, .. } if &**text == "too late");
    assert!(said, "{late:?}");
    assert_eq!(handle.inspect(messages).await.unwrap(), before);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_sessions_and_refusals_are_errors() {
    let runtime = start(&Gated::new(), Options::default()).await;
    let nobody = SessionId::from_u128(clock::new_id());
    assert!(matches!(
        runtime.open(nobody).await,
        Err(Error::UnknownSession(_))
    ));
    let handle = runtime.create(conversation(4)).await.unwrap();
    let mut elsewhere = turn(&gated(), 0);
    elsewhere.branch = "nowhere".into();
    let refused = handle.accept(elsewhere).await;
    assert!(matches!(
        refused,
        Err(Error::Refused(Refusal::UnknownBranch(_)))
    ));
    let unknown = handle.wait(TurnId::from_u128(7)).await;
    assert!(matches!(
        unknown,
        Err(Error::Refused(Refusal::UnknownTurn(_)))
    ));
    runtime.shutdown().await;
}

/// An actor whose tasks never end; reports when nobody waits for one any more.
struct Endless(mpsc::UnboundedSender<()>);

impl Actor for Endless {
    type Msg = worker::Msg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<worker::Msg>, (): ()) -> ActorResult {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<worker::Msg>,
        worker::Msg::Work(job): worker::Msg,
        (): &mut (),
    ) -> ActorResult {
        let over = self.0.clone();
        tokio::spawn(async move {
            job.ctx().cancelled().cancelled().await;
            let _ = over.send(());
            job.end(Ok(Answer::text("too late")));
        });
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_actor_is_notified_of_a_cancelled_task() {
    let (over, mut is_over) = mpsc::unbounded_channel();
    let kinds = Extensions::default().actor("gated", move || (Endless(over.clone()), ()));
    let runtime = start_with(kinds, Options::default()).await;
    let late = Arc::new(Definition {
        timeout_ms: 30,
        ..fixture::definition(AgentKind::Custom("gated".into()))
    });
    let patient = gated();
    for (lead, cancelled) in [(&late, false), (&patient, true)] {
        let handle = runtime.create(conversation(2)).await.unwrap();
        let (new, id) = (turn(lead, 0), TurnId::from_u128(clock::new_id()));
        handle.accept(NewTurn { id, ..new }).await.unwrap();
        if cancelled {
            handle.cancel(id).await.unwrap();
        }
        let outcome = ended(&handle, id).await;
        assert_eq!(outcome == Outcome::Cancelled, cancelled, "{outcome}");
        if !cancelled {
            let notified = tokio::time::timeout(PATIENCE, is_over.recv()).await;
            assert_eq!(notified.expect("it is notified"), Some(()));
        }
    }
    runtime.shutdown().await;
}

/// Records the session of its run after it is released.
#[derive(Clone)]
struct Noting {
    gated: Gated,
    order: Arc<Mutex<Vec<SessionId>>>,
}

impl Agent for Noting {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        self.order.lock().unwrap().push(ctx.assignment().session);
        self.gated.run(task, ctx).await
    }
}

#[tokio::test]
async fn a_flooding_session_does_not_starve_another_and_gets_a_retry_time() {
    const FLOOD: usize = 30;
    let noting = Noting {
        gated: Gated::new(),
        order: Arc::default(),
    };
    let options = Options {
        // One is active: with the other session's run the queue is full.
        pool_queue: FLOOD,
        ..Options::default()
    };
    let runtime = start(&noting, options).await;
    let agent = one_at_a_time();
    let (flooding, other) = (conversation(1), conversation(1));
    let other_id = other.session.unwrap();
    let flooding = runtime.create(flooding).await.unwrap();
    flooding.accept(turn(&agent, FLOOD)).await.unwrap();
    noting.gated.is_started().await;
    let other = runtime.create(other).await.unwrap();
    let asked = turn(&agent, 0);
    let asked_id = asked.id;
    other.accept(asked).await.unwrap();

    let pool = runtime.env.pools.get(&agent).unwrap();
    fixture::until("it is full", || pool.gauge.full_for().is_some()).await;
    let refused = other.accept(turn(&agent, 0)).await.unwrap_err();
    let Error::Overloaded { retry_after_ms, .. } = refused else {
        panic!("{refused}");
    };
    assert!(
        retry_after_ms >= 1_000,
        "{retry_after_ms}: {FLOOD} wait for one place"
    );

    noting.gated.release();
    other.wait(asked_id).await.unwrap();
    let order = noting.order.lock().unwrap().clone();
    let place = order.iter().position(|session| *session == other_id);
    assert!(place.unwrap() <= 2, "{place:?} of {}", order.len());
    runtime.shutdown().await;
}

/// Never answers and never reports progress the first time; the second time it reports progress.
struct Stalling(Arc<AtomicU32>);

impl Agent for Stalling {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        for _ in 0..5 {
            tokio::time::sleep(LEASE / 4).await;
            ctx.progress("still at it");
        }
        Ok(Answer::text("done"))
    }
}

const LEASE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn an_attempt_without_progress_is_stuck_and_repeated() {
    let attempts = Arc::new(AtomicU32::new(0));
    let kinds = Extensions::default().agent("gated", Stalling(attempts.clone()));
    let options = Options {
        stuck_after: LEASE,
        ..Options::default()
    };
    let runtime = start_with(kinds, options).await;
    let handle = runtime.create(conversation(1)).await.unwrap();
    let asked = turn(&gated(), 0);
    let asked_id = asked.id;
    handle.accept(asked).await.unwrap();
    let ended = handle.wait(asked_id).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Answered);
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    let facts = facts(&handle, &runtime).await;
    let reasons = facts.iter().filter_map(|fact| match fact {
        Fact::RunRetried { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    let reasons: Vec<_> = reasons.collect();
    assert!(
        reasons.len() == 1 && reasons[0].starts_with("stuck: "),
        "{reasons:?}"
    );
    runtime.shutdown().await;
}

/// Answers with the reply of its model.
struct Asking;

impl Agent for Asking {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let text = ctx.ask_model("How many?").await?.text;
        Ok(Answer {
            text,
            ..Answer::default()
        })
    }
}

#[tokio::test]
async fn an_attempt_whose_model_begins_its_reply_again_is_not_stuck() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let model = move |request: Request| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            request.listener.report_text("O");
            request.listener.report_restart();
            tokio::time::sleep(LEASE * 3).await;
            Ok::<_, language::Error>(Reply::text("One."))
        }
    };
    let options = Options {
        stuck_after: LEASE,
        ..Options::default()
    };
    let models = Models::default().with("test/scripted", model);
    let kinds = Extensions::default().agent("gated", Asking);
    let journal = Journal::new(Arc::new(Memory::new()));
    let runtime = Runtime::start(journal, kinds, models, options);
    let runtime = runtime.await.unwrap();
    let handle = runtime.create(conversation(1)).await.unwrap();
    let begun = turn(&gated(), 0);
    let id = begun.id;
    handle.accept(begun).await.unwrap();
    let ended = handle.wait(id).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Answered);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    runtime.shutdown().await;
}
