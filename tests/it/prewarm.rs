//! A provider's cache that is written by a request of its own: it is paid for, whatever becomes of
//! the request after it.

use std::sync::Arc;
use std::time::Duration;

use unisono_context::Tokens;
use unisono_context::call::CacheWarm;
use unisono_fake_provider::{
    Act, Answer, CacheSettings, CacheSim, FakeProvider, Gate, Recorded, Refusal, Script,
};
use unisono_session::agent::Definition;
use unisono_session::budget::{Amount, Caps, TurnCaps};
use unisono_session::event::{Fact, Outcome};
use unisono_session::run::{AuxiliaryUsage, Ending, RunCause, Step};
use unisono_session::usage::Ledger;
use unisono_session::{Event, State};
use unisono_tests::scenario::{World, wait};
use unisono_tests::wire::{CLAUDE, asking_claude, claude};
use unisono_tests::{Scenario, scenario};

/// Far more than all of them use.
const CAP: u64 = 1_000_000;

/// What only the request asks that writes the cache.
fn writes_the_cache(request: &Recorded) -> bool {
    request.json()["max_tokens"] == 1
}

/// Two agents and a lead on a context that a provider caches, where every request but the one that
/// writes the cache is answered so.
async fn plan(then: Act) -> (Scenario, FakeProvider) {
    let script = Script::by(move |request| match writes_the_cache(request) {
        true => Act::answer(Answer::text("OK")),
        false => then.clone(),
    });
    let cache = CacheSim::new(CacheSettings::default());
    let provider = FakeProvider::builder().script(script).cache(&cache);
    let provider = provider.start().await;
    let prewarming = |id| Definition {
        cache_warm: CacheWarm::Prewarm,
        ..asking_claude(id)
    };
    let plan = scenario()
        .messages(200)
        .model(CLAUDE, claude(&provider.url()))
        .led_by(asking_claude("lead"))
        .asked(prewarming("risks"))
        .asked(prewarming("dates"))
        .caps(TurnCaps {
            turn: Caps {
                tokens: Some(Tokens(CAP)),
                ..Caps::NONE
            },
            ..TurnCaps::default()
        });
    (plan, provider)
}

fn prewarmed(events: &[Event]) -> Vec<AuxiliaryUsage> {
    let steps = events.iter().filter_map(|event| match &event.fact {
        Fact::RunStepped { step, .. } => match &**step {
            Step::Spent(spent) => Some(spent.clone()),
            _ => None,
        },
        _ => None,
    });
    steps.collect()
}

/// The one cache that was written, and the session as its journal tells it, where nothing else
/// was used.
async fn only_prewarmed(
    world: &World,
    session: unisono_context::SessionId,
) -> (AuxiliaryUsage, Arc<[Event]>) {
    let events: Arc<[Event]> = world.events_of(session).await.into();
    let found = prewarmed(&events);
    assert_eq!(found.len(), 1, "{found:?}");
    let spent = found.into_iter().next().expect("one");
    assert!(spent.usage.cache_write > Tokens(1_024), "{spent:?}");
    assert!(spent.usage.cost.is_some(), "{spent:?}");
    let mut ledger = Ledger::default();
    events.iter().for_each(|event| ledger.take(event));
    assert_eq!(ledger.total(), spent.usage);
    (spent, events)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cancelled_before_its_reply_has_paid_for_the_cache() {
    let (plan, provider) = plan(Act::silence()).await;
    let (_directory, world, handle, turn) = plan.ask("What is late?").await;
    // The one that writes the cache, then both runs.
    provider.wait_for(3).await;
    handle.cancel(turn).await.expect("cancelled");
    assert_eq!(wait(&handle, turn).await.outcome, Outcome::Cancelled);
    provider.wait_for_abandoned(2).await;
    let (spent, events) = only_prewarmed(&world, handle.id()).await;
    let state = State::from_events(&*events).expect("it folds");
    let account = state.budget().session();
    assert_eq!((account.open, account.kept), (Amount::ZERO, Amount::ZERO));
    // Of the requests after it nobody knows what they cost: their worst case is charged.
    let paid = Amount::from_usage(&spent.usage).tokens;
    assert!(account.spent.tokens > paid + paid, "{account:?}");
    drop(handle);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_fails_after_writing_the_cache_has_paid_for_it() {
    let refused = Act::refuse(Refusal::BadRequest("not today".into()));
    let (plan, provider) = plan(refused).await;
    let (_directory, world, handle, turn) = plan.ask("What is late?").await;
    wait(&handle, turn).await;
    let (spent, events) = only_prewarmed(&world, handle.id()).await;
    let failed = events.iter().filter(|event| match &event.fact {
        Fact::RunEnded { ending, .. } => {
            matches!(
                &**ending,
                Ending::Failed {
                    cause: RunCause::Rejected,
                    ..
                }
            )
        }
        _ => false,
    });
    assert!(failed.count() >= 2, "both runs were refused");
    let state = State::from_events(&*events).expect("it folds");
    let account = state.budget().session();
    assert_eq!((account.open, account.kept), (Amount::ZERO, Amount::ZERO));
    assert_eq!(
        account.spent,
        Amount::from_usage(&spent.usage),
        "and nothing else"
    );
    assert!(
        provider
            .requests()
            .iter()
            .filter(|r| writes_the_cache(r))
            .count()
            == 1
    );
    drop(handle);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_the_time_at_which_its_cache_was_ready() {
    let gate = Gate::new();
    let (held, answer) = (gate.clone(), Act::answer("Nothing is late."));
    let script = Script::by(move |request| match writes_the_cache(request) {
        true => Act::answer("OK").hold(&held),
        false => answer.clone(),
    });
    let (plan, provider) = plan(Act::silence()).await;
    provider.set_script(script);
    let (_directory, world, handle, turn) = plan.ask("What is late?").await;
    gate.reached(1).await;
    // Shorter waits are not recorded.
    tokio::time::sleep(Duration::from_millis(5)).await;
    gate.open();
    wait(&handle, turn).await;
    let events = world.events_of(handle.id()).await;
    let times = events.iter().filter_map(|event| match &event.fact {
        Fact::RunEnded { ending, .. } => match &**ending {
            Ending::Finished { attempt_times, .. } => Some(*attempt_times),
            _ => None,
        },
        _ => None,
    });
    let ready = times.filter(|one| one.cache_ready > one.began);
    // The one that wrote the cache; the other one may have come after it.
    assert!(ready.count() >= 1, "{events:#?}");
    drop(handle);
    world.stop().await;
}
