//! A turn that is looked for from the newest event backwards is the one that the whole journal tells
//! of, and what is read for it does not depend on what lies before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::to_value;
use unisono_context::call::Usage;
use unisono_context::message::{NewMessage, Role};
use unisono_context::{MessageId, Timestamp, Tokens, TurnId};
use unisono_runtime::Handle;
use unisono_runtime::{Agent, Answer, Ctx, Failure, Task};
use unisono_session::machine::Import;
use unisono_session::usage::Ledger;
use unisono_store::{Engine, EngineFuture, Event as Stored, SessionId as Id};

use super::*;
use crate::Local;
use crate::ask::Ask;
use crate::fixture::local;
use crate::service::usage::budgets::{Owners, budgets};
use crate::turn_view;
use unisono_config::settings::Sources;

/// Messages of the conversation before the first turn.
const MESSAGES: u32 = 2_500;

struct AtOnce;

impl Agent for AtOnce {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let mut answer = Answer::text(format!("{} agrees", ctx.definition().id));
        answer.usage = Usage::free(Tokens(10), Tokens(1));
        Ok(answer)
    }
}

/// Remembers the earliest event that anybody read, how many events were read, and how often.
struct Earliest(Arc<dyn Engine>, AtomicU64, AtomicU64, AtomicU64);

impl Earliest {
    fn of(local: &Local) -> Arc<Earliest> {
        let engine = local.journal().engine().clone();
        Arc::new(Earliest(
            engine,
            AtomicU64::new(u64::MAX),
            AtomicU64::new(0),
            AtomicU64::new(0),
        ))
    }
}

impl Engine for Earliest {
    unisono_store::forward_engine!(
        0: claim, append, put_checkpoint, latest_checkpoint, session, sessions, delete_session,
        health, close
    );

    fn read(&self, session: Id, from: u64, limit: usize) -> EngineFuture<'_, Vec<Stored>> {
        self.1.fetch_min(from, Ordering::Relaxed);
        self.3.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let read = self.0.read(session, from, limit).await?;
            self.2.fetch_add(read.len() as u64, Ordering::Relaxed);
            Ok(read)
        })
    }
}

async fn daemon(directory: &std::path::Path) -> Local {
    let agents = "[agents.a]\ndescription = \"agrees\"\nkind = \"at-once\"\n\
                  [agents.b]\ndescription = \"agrees\"\nkind = \"at-once\"\n";
    std::fs::create_dir_all(directory.join("config")).unwrap();
    std::fs::write(directory.join("config/unisono.toml"), agents).unwrap();
    let sources = Sources {
        env: Vec::new(),
        ..Sources::of_process(directory)
    };
    let local = Local::builder()
        .sources(sources)
        .agent("at-once", AtOnce)
        .in_memory()
        .set("turn.lead", "a")
        .set("turn.agents", "b")
        .set("compaction.preset", "off");
    local.start().await.unwrap()
}

fn conversation() -> Import {
    let mut parent = None;
    let messages = (1..=MESSAGES).map(|n| {
        let id = MessageId::from_u128(u128::from(n));
        let role = [Role::Assistant, Role::User][n as usize % 2];
        let message = NewMessage::text(id, role, format!("message {n}"), Timestamp(0));
        (parent.replace(id), message)
    });
    Import {
        messages: messages.collect(),
        ..Import::default()
    }
}

#[tokio::test]
async fn a_turn_is_found_from_the_newest_event_backwards() {
    let directory = tempfile::tempdir().unwrap();
    let local = daemon(directory.path()).await;
    let session = local.import(conversation()).await.unwrap();
    let before = session.inspect(State::events).await.unwrap();
    assert!(before > u64::from(MESSAGES), "{before}");
    let mut turns = Vec::new();
    for n in 0..40 {
        let ask = Ask::new(format!("Task {n}"));
        let turn = local.begin(&session, &ask).await.unwrap();
        local.wait(&session, turn).await.unwrap();
        turns.push(turn);
    }

    let earliest = Earliest::of(&local);
    let journal = Journal::new(earliest.clone());
    let whole = trace(&journal, session.id()).await.unwrap();
    earliest.1.store(u64::MAX, Ordering::Relaxed);
    for &id in turns.iter().rev() {
        earliest.3.store(0, Ordering::Relaxed);
        let found = turn(&journal, &session, Lookup::Turn(id)).await.unwrap();
        let found = found.unwrap();
        if id == turns[turns.len() - 1] {
            let reads = earliest.3.load(Ordering::Relaxed);
            assert_eq!(reads, 1, "the last turn is near the end");
        }
        let view = |trace| turn_view::of_turn(trace, session.id(), id).unwrap();
        assert_eq!(
            to_value(view(&found)).unwrap(),
            to_value(view(&whole)).unwrap()
        );
        assert_eq!(view(&found).runs.len(), 2);
        for &run in &found.turn(id).unwrap().runs {
            let of_run = turn(&journal, &session, Lookup::Run(run)).await.unwrap();
            let of_run = turn_view::of_turn(&of_run.unwrap(), session.id(), id);
            assert_eq!(
                to_value(of_run.unwrap()).unwrap(),
                to_value(view(&whole)).unwrap()
            );
        }
        if id == turns[turns.len() - 1] {
            let last = session.inspect(State::events).await.unwrap();
            let read = last - earliest.1.load(Ordering::Relaxed);
            assert!(
                read <= 2 * NEWEST as u64,
                "{read} events were read for the last turn"
            );
        }
    }
    let first = earliest.1.load(Ordering::Relaxed);
    assert!(
        first > before - PAGE as u64,
        "the conversation before them was read from {first}"
    );

    let nobody = turn(&journal, &session, Lookup::Turn(TurnId::from_u128(7)));
    assert!(nobody.await.unwrap().is_none());
    let nobody = turn(&journal, &session, Lookup::Run(RunId::from_u128(7)));
    assert!(nobody.await.unwrap().is_none());
    drop(session);
    local.shutdown().await;
}

/// The runs of a session as its whole journal tells them: those of the newest turn first.
fn runs_of(whole: &Trace) -> Vec<RunId> {
    let mut turns: Vec<_> = whole.turns().collect();
    turns.sort_by_key(|(_, turn)| turn.accepted.0.seq);
    let runs = turns.iter().flat_map(|(_, turn)| &turn.runs);
    runs.rev().copied().collect()
}

#[tokio::test]
async fn a_part_of_a_sessions_runs_costs_the_same_wherever_it_is() {
    const LIMIT: usize = 10;
    let directory = tempfile::tempdir().unwrap();
    let local = daemon(directory.path()).await;
    let session = local.import(conversation()).await.unwrap();
    let before = session.inspect(State::events).await.unwrap();
    for _ in 0..150 {
        ask(&local, &session).await;
    }
    let written = session.inspect(State::events).await.unwrap() - before;
    let counted = Earliest::of(&local);
    let journal = Journal::new(counted.clone());
    let whole = runs_of(&trace(&journal, session.id()).await.unwrap());
    assert_eq!(whole.len(), 300);

    let pick = |turn: TurnId, trace: &Trace| -> Vec<(RunId, RunId)> {
        let runs = &trace.turn(turn).unwrap().runs;
        runs.iter().map(|run| (*run, *run)).collect()
    };
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        counted.1.store(u64::MAX, Ordering::Relaxed);
        counted.2.store(0, Ordering::Relaxed);
        let part = runs::of_session(&journal, &session, after, LIMIT, pick);
        let (runs, next) = part.await.unwrap();
        let read = counted.2.load(Ordering::Relaxed);
        // The last one looks for more up to the beginning.
        if next.is_some() {
            assert!(
                read < written / 3,
                "{read} of {written} after {}",
                listed.len()
            );

            assert!(counted.1.load(Ordering::Relaxed) > before - PAGE as u64);
            assert_eq!(runs.len(), LIMIT);
        }
        listed.extend(runs);
        // As it is sent, and comes back.
        after = next.map(|spot| spot.to_string().parse().unwrap());
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, whole);

    // Three in a hundred match: each is listed once.
    let few = |turn: TurnId, trace: &Trace| {
        let mut runs = pick(turn, trace);
        runs.retain(|(run, _)| whole.iter().position(|one| one == run).unwrap() % 33 == 0);
        runs
    };
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let part = runs::of_session(&journal, &session, after, 1, few);
        let (runs, next) = part.await.unwrap();
        listed.extend(runs);
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(
        listed,
        whole.iter().step_by(33).copied().collect::<Vec<_>>()
    );
    drop(session);
    local.shutdown().await;
}

async fn ask(local: &Local, session: &Handle) {
    let turn = local.begin(session, &Ask::new("Task")).await.unwrap();
    local.wait(session, turn).await.unwrap();
}

#[tokio::test]
async fn what_was_used_is_read_once_and_then_only_what_came_since() {
    let directory = tempfile::tempdir().unwrap();
    let local = daemon(directory.path()).await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session = local.import(conversation()).await.unwrap();
        ask(&local, &session).await;
        sessions.push(session);
    }
    let earliest = Earliest::of(&local);
    let journal = Journal::new(earliest.clone());
    let folds = usage::Folds::default();
    let input = |folds: &[(SessionId, usage::Fold)]| {
        let each = folds.iter().map(|(_, fold)| fold.ledger.total().input.0);
        each.collect::<Vec<u64>>()
    };
    let all = folds.all(&journal).await.unwrap();
    assert_eq!(earliest.1.swap(u64::MAX, Ordering::Relaxed), 1);
    let once = all[0].1.ledger.total().input.0;
    assert!(once >= 20, "both agents were asked: {once}");
    assert_eq!(input(&all), [once; 3]);

    assert_eq!(input(&folds.all(&journal).await.unwrap()), [once; 3]);
    let read = earliest.1.load(Ordering::Relaxed);
    assert_eq!(read, u64::MAX, "nothing is new, and event {read} was read");

    let before = sessions[1].inspect(State::events).await.unwrap();
    ask(&local, &sessions[1]).await;
    let one = folds
        .one(&journal, sessions[1].id())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(one.ledger.total().input.0, 2 * once);
    assert_eq!(
        input(&folds.all(&journal).await.unwrap()),
        [once, 2 * once, once]
    );
    assert_eq!(earliest.1.load(Ordering::Relaxed), before + 1);

    // By a fold of the whole journal it is the same.
    let mut whole = Ledger::default();
    read_all(&journal, sessions[1].id(), &mut whole).await;
    assert!(whole.entries().eq(one.ledger.entries()));

    let gone = sessions.remove(0);
    local.runtime().unwrap().delete(gone.id()).await.unwrap();
    assert_eq!(input(&folds.all(&journal).await.unwrap()), [2 * once, once]);
    assert!(folds.one(&journal, gone.id()).await.unwrap().is_none());
    drop((gone, sessions));
    local.shutdown().await;
}

async fn read_all(journal: &Journal, session: SessionId, ledger: &mut Ledger) {
    let read = read(journal, session, |event| {
        ledger.take(event);
        Ok::<_, unisono_store::Error>(true)
    });
    read.await.unwrap();
}

#[tokio::test]
async fn the_budgets_read_the_journal_of_a_session_once() {
    let local = local([
        ("models.default", "extractive"),
        ("compaction.preset", "off"),
        ("budget.daemon.max_tokens", "100000000"),
    ]);
    let local = local.await;
    let session = local.import(conversation()).await.unwrap();
    let setup = local.setup();
    let limits = &setup.loaded.config.budget;
    let work = async || {
        let turn = local.begin(&session, &Ask::new("Task")).await.unwrap();
        local.wait(&session, turn).await.unwrap();
    };
    work().await;
    let earliest = Earliest::of(&local);
    let journal = Journal::new(earliest.clone());
    let left = async || {
        let all = budgets(&local, &journal, limits, Owners::Only(None)).await;
        let [(None, status)] = &all.unwrap()[..] else {
            panic!("the daemon's budget alone");
        };
        (*status, earliest.2.swap(0, Ordering::Relaxed))
    };
    let (first, read) = left().await;
    assert!(read > u64::from(MESSAGES), "{read}");
    let (again, read) = left().await;
    assert_eq!(again, first);
    assert!(read < 50, "{read} events were read again");
    work().await;
    let (later, read) = left().await;
    assert_ne!(later, first);
    assert!(read < 50, "{read} events were read again");
}
