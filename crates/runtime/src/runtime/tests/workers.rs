//! Workers with several attempts, one after the other.

use unisono_context::AgentId;
use unisono_session::Input;
use unisono_session::machine::DelegateCall;

use super::*;
use crate::LiveRuns;

/// Its first attempt leaves work behind that continues later and yields the permit of the attempt.
/// Later attempts are those of a gated agent.
#[derive(Clone)]
struct Leaver {
    gated: Gated,
    attempts: Arc<AtomicU32>,
    again: Arc<Semaphore>,
    client_options: mpsc::UnboundedSender<()>,
}

impl Agent for Leaver {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        if self.attempts.fetch_add(1, Ordering::SeqCst) > 0 {
            return self.gated.run(task, ctx).await;
        }
        let (again, client_options) = (self.again.clone(), self.client_options.clone());
        tokio::spawn(async move {
            again.acquire().await.unwrap().forget();
            let call = DelegateCall {
                call_id: "late".into(),
                agent: AgentId::new("nobody"),
                task: "late".into(),
            };
            tokio::select! {
                biased;
                _ = ctx.delegate_round(1, vec![call]) => {}
                () = std::future::ready(()) => {}
            }
            client_options.send(()).unwrap();
        });
        Ok(Answer::text("left"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn remains_of_an_attempt_do_not_yield_the_permit_of_the_next() {
    let (client_options, mut was_lent) = mpsc::unbounded_channel();
    let agent = Leaver {
        gated: Gated::new(),
        attempts: Arc::default(),
        again: Arc::new(Semaphore::new(0)),
        client_options,
    };
    let options = Options::default();
    let load = options.load.clone();
    let runtime = start(&agent, options).await;
    let alone = one_at_a_time();
    let mut turns = Vec::new();
    for n in 0..3 {
        let (handle, turn) = begun(&runtime, turn(&alone, 0)).await;
        match n {
            0 => assert_eq!(ended(&handle, turn).await, Outcome::Answered),
            1 => {
                agent.gated.is_started().await;
                agent.again.add_permits(1);
                was_lent.recv().await.unwrap();
            }
            _ => {}
        }
        turns.push((handle, turn));
    }
    let waits = || load.attempts.waiting() >= 1;
    fixture::until("the third waits for the place of the second", waits).await;
    assert_eq!(agent.gated.started.load(Ordering::SeqCst), 1);
    agent.gated.release();
    for (handle, turn) in turns {
        assert_eq!(ended(&handle, turn).await, Outcome::Answered);
    }
    runtime.shutdown().await;
}

/// Its first attempt panics, and leaves work behind that goes on.
#[derive(Clone)]
struct Abandoning {
    attempts: Arc<AtomicU32>,
    goes_on: Arc<Semaphore>,
}

impl Agent for Abandoning {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        if self.attempts.fetch_add(1, Ordering::SeqCst) > 0 {
            return Ok(Answer::text("done"));
        }
        let goes_on = self.goes_on.clone();
        tokio::spawn(async move {
            let _ctx = ctx;
            assert!(goes_on.acquire().await.is_err());
        });
        panic!("as it is meant");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn remains_of_an_attempt_that_panicked_hold_no_permit() {
    let options = Options {
        live_runs: LiveRuns {
            daemon: Some(1),
            session: Some(1),
            turn: Some(1),
        },
        ..Options::default()
    };
    let agent = Abandoning {
        attempts: Arc::default(),
        goes_on: Arc::new(Semaphore::new(0)),
    };
    let runtime = start(&agent, options).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    answered(&handle, turn(&gated(), 0)).await;
    agent.goes_on.close();
    runtime.shutdown().await;
}

/// Panics the first time, on a worker that has carried out another attempt before.
#[derive(Clone, Default)]
struct Fragile(Arc<AtomicU32>);

impl Agent for Fragile {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        assert_ne!(self.0.fetch_add(1, Ordering::SeqCst), 1, "as it is meant");
        Ok(Answer::text("done"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_panicked_gets_no_further_attempt() {
    let agent = Fragile::default();
    let runtime = start(&agent, Options::default()).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    for attempts in [1, 3, 4] {
        answered(&handle, turn(&gated(), 0)).await;
        assert_eq!(agent.0.load(Ordering::SeqCst), attempts);
    }
    runtime.shutdown().await;
}

/// Its first answer is too large.
#[derive(Clone, Default)]
struct Verbose(Arc<AtomicU32>);

impl Agent for Verbose {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        Ok(match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::text("x".repeat((4 << 20) + 1)),
            _ => Answer::text("done"),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_fails_its_attempt() {
    let agent = Verbose::default();
    let runtime = start(&agent, Options::default()).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    answered(&handle, turn(&gated(), 0)).await;
    assert_eq!(agent.0.load(Ordering::SeqCst), 2);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_in_a_queue_keeps_no_place_of_its_session() {
    let agent = Gated::new();
    let options = Options {
        live_runs: LiveRuns {
            session: Some(1),
            ..LiveRuns::default()
        },
        ..Options::default()
    };
    let load = options.load.clone();
    let runtime = start(&agent, options).await;
    let with_places = |max_concurrent| {
        Arc::new(Definition {
            max_concurrent,
            ..(*gated()).clone()
        })
    };
    let narrow = with_places(1);
    let (busy, first) = begun(&runtime, turn(&narrow, 0)).await;
    agent.is_started().await;

    let (handle, queued) = begun(&runtime, turn(&narrow, 0)).await;
    let waits = || load.attempts.waiting() >= 1;
    fixture::until("it waits for the place of the first", waits).await;
    handle.cancel(queued).await.unwrap();
    // Another agent has a free place.
    let next = turn(&with_places(2), 0);
    handle.accept(next.clone()).await.unwrap();
    agent.is_started().await;
    agent.release();
    assert_eq!(ended(&busy, first).await, Outcome::Answered);
    assert_eq!(ended(&handle, next.id).await, Outcome::Answered);
    runtime.shutdown().await;
}

/// Its lead delegates two rounds at once.
#[derive(Clone)]
struct Splitting {
    /// Whether it waits for both together, or leaves the first alone until the second has ended.
    waits_for_both: bool,
}

impl Agent for Splitting {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        if ctx.definition().tools.is_empty() {
            return Ok(Answer::text("done"));
        }
        let (one, two) = ([("helper", "one")], [("helper", "two")]);
        let (one, two) = if self.waits_for_both {
            tokio::join!(ctx.delegate(&one), ctx.delegate(&two))
        } else {
            let mut first = std::pin::pin!(ctx.delegate(&one));
            tokio::select! {
                biased;
                _ = &mut first => panic!("it ended at once"),
                () = std::future::ready(()) => {}
            }
            let second = ctx.delegate(&two).await;
            (first.await, second)
        };
        let (one, two) = (one?, two?);
        let text = format!("{} and {}", one[0].content, two[0].content);
        Ok(Answer::text(text))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_one_agent_at_once_come_one_after_the_other() {
    for waits_for_both in [true, false] {
        let agent = Splitting { waits_for_both };
        let runtime = start(&agent, Options::default()).await;
        assert_eq!(delegated_rounds(&runtime).await, 2);
        runtime.shutdown().await;
    }
}

/// The number of rounds that the lead of a turn delegated, each of which ended before the next one began.
async fn delegated_rounds(runtime: &Runtime) -> usize {
    let handle = runtime.create(conversation(4)).await.unwrap();
    let with_tools = |id: &str, tools: &[&str]| {
        Arc::new(Definition {
            id: AgentId::new(id),
            tools: tools.iter().map(|tool| (*tool).into()).collect(),
            ..(*gated()).clone()
        })
    };
    let mut asked = turn(&with_tools("lead", &["delegate"]), 0);
    asked.team.available = vec![with_tools("helper", &[])];
    answered(&handle, asked).await;
    let facts = facts(&handle, runtime).await;
    let names = facts.iter().map(Fact::name);
    let order: Vec<&str> = names
        .filter(|name| ["delegated", "run_ended"].contains(name))
        .collect();
    let rounds = order.chunks_exact(2);
    assert_eq!(rounds.remainder(), ["run_ended"], "{order:?}");
    for round in rounds.clone() {
        assert_eq!(round, ["delegated", "run_ended"], "{order:?}");
    }
    rounds.len()
}

/// Its provider is away for a minute.
#[derive(Clone)]
struct Away;

impl Agent for Away {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        Err(Failure {
            wait_ms: Some(60_000),
            ..Failure::new(RunCause::Unavailable, "away")
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_one_timer_for_each_time() {
    let runtime = start(&Away, Options::default()).await;
    let handle = runtime.create(conversation(4)).await.unwrap();
    handle.accept(turn(&gated(), 4)).await.unwrap();
    let is_retry = |fact: &&Fact| matches!(fact, Fact::RunRetried { .. });
    let retried = async {
        loop {
            let known = facts(&handle, &runtime).await;
            if known.iter().filter(is_retry).count() == 4 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, retried).await.unwrap();
    let tasks = tokio::runtime::Handle::current().metrics();
    let most = tasks.num_alive_tasks() + 8;
    for _ in 0..16 {
        handle.request(Input::Tick).await.unwrap();
    }
    fixture::until("earlier timers end", || tasks.num_alive_tasks() <= most).await;
    runtime.shutdown().await;
}

/// Its first attempt yields its permit once it may. All attempts are those of a gated agent.
#[derive(Clone)]
struct Yielding {
    gated: Gated,
    attempts: Arc<AtomicU32>,
    may_yield: Arc<Semaphore>,
}

impl Agent for Yielding {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        if self.attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            self.gated.starts.add_permits(1);
            self.may_yield.acquire().await.unwrap().forget();
            let call = DelegateCall {
                call_id: "refused".into(),
                agent: AgentId::new("nobody"),
                task: "refused".into(),
            };
            ctx.delegate_round(1, vec![call]).await?;
        }
        self.gated.run(task, ctx).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_attempt_got_a_yielded_permit_is_not_full() {
    let agent = Yielding {
        gated: Gated::new(),
        attempts: Arc::default(),
        may_yield: Arc::new(Semaphore::new(0)),
    };
    let runtime = start(&agent, short_queue()).await;
    let alone = one_at_a_time();
    let (pool, turns) = filled(&runtime, &alone, &agent.gated).await;
    agent.may_yield.add_permits(1);
    agent.gated.is_started().await;
    assert_eq!(pool.gauge.full_for(), None);
    agent.gated.release();
    for (handle, turn) in turns {
        assert_eq!(ended(&handle, turn).await, Outcome::Answered);
    }
    runtime.shutdown().await;
}

/// A pool whose only place and queue are full: a turn that has begun, and one that waits.
async fn filled(
    runtime: &Runtime,
    alone: &Arc<Definition>,
    agent: &Gated,
) -> (pool_port::Handle, Vec<(Handle, TurnId)>) {
    let mut turns = Vec::new();
    for _ in 0..2 {
        turns.push(begun(runtime, turn(alone, 0)).await);
        if turns.len() == 1 {
            agent.is_started().await;
        }
    }
    let pool = runtime.env.pools.get(alone).unwrap();
    fixture::until("it is full", || pool.gauge.full_for().is_some()).await;
    (pool, turns)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_leaves_the_queue_of_its_agent() {
    let agent = Gated::new();
    let runtime = start(&agent, short_queue()).await;
    let alone = one_at_a_time();
    let (pool, turns) = filled(&runtime, &alone, &agent).await;
    let (queued, cancelled) = &turns[1];
    queued.cancel(*cancelled).await.unwrap();
    fixture::until("it has a place", || pool.gauge.full_for().is_none()).await;
    let next = turn(&alone, 0);
    queued.accept(next.clone()).await.unwrap();
    agent.release();
    assert_eq!(ended(queued, next.id).await, Outcome::Answered);
    assert_eq!(ended(&turns[0].0, turns[0].1).await, Outcome::Answered);
    assert_eq!(agent.started.load(Ordering::SeqCst), 2);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_of_a_restarted_pool_is_not_full() {
    let agent = Gated::new();
    let runtime = start(&agent, short_queue()).await;
    let alone = Arc::new(Definition {
        retries: 0,
        ..(*one_at_a_time()).clone()
    });
    let (pool, _) = filled(&runtime, &alone, &agent).await;
    kill::<pool_port::Msg>(&runtime);
    fixture::until("nobody waits", || pool.gauge.full_for().is_none()).await;
    runtime.shutdown().await;
}
