//! Tests of the gate with a paused clock: which request passes when, and that none waits for ever.
//! Time advances only when every task waits.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio::time::{advance, sleep};
use unisono_context::call::CacheWarm;
use unisono_context::{Digest, Tokens};

use super::*;

const LIFETIME: Duration = Duration::from_secs(300);

fn key(model: &str) -> Key {
    Key {
        model: model.into(),
        prefix: Digest::of_bytes(b"prefix"),
        choice: None,
        shard: 0,
    }
}

fn warming(peers: u32) -> WarmingRequest {
    WarmingRequest {
        mode: CacheWarm::Leader,
        has_peers: peers > 1,
        prefix: Tokens(80_000),
        minimum: Some(Tokens(1_024)),
    }
}

/// How long a request waits, in milliseconds, and whether its prefix was warm then.
type Passed = (u128, bool);

/// Starts requests that wait at the gate; each reports when it passed.
fn follow(warmth: &CacheWarmth, key: &Key, count: u32) -> JoinSet<Passed> {
    let mut waiting = JoinSet::new();
    for _ in 0..count {
        let (warmth, key) = (warmth.clone(), key.clone());
        waiting.spawn(async move {
            let started = Instant::now();
            let lead = warmth.enter(&key, &warming(count + 1)).await;
            assert!(lead.is_none(), "there is one leader already");
            (started.elapsed().as_millis(), warmth.is_warm(&key))
        });
    }
    waiting
}

async fn lead(warmth: &CacheWarmth, key: &Key) -> Lead {
    let lead = warmth.enter(key, &warming(64)).await;
    lead.expect("the first leads")
}

#[tokio::test(start_paused = true)]
async fn followers_start_at_the_leaders_first_event() {
    let (warmth, key) = (CacheWarmth::default(), key("a/b"));
    let leader = lead(&warmth, &key).await;
    let followers = follow(&warmth, &key, 63);
    sleep(Duration::from_millis(700)).await;
    warmth.mark_warm(&key, LIFETIME);
    let passed = followers.join_all().await;
    assert_eq!(passed, vec![(700, true); 63]);
    // What happens to the leader afterwards does not matter here.
    drop(leader);
    assert!(warmth.is_warm(&key));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_fails_or_is_dropped_releases_all() {
    let (warmth, key) = (CacheWarmth::default(), key("a/b"));
    let leader = lead(&warmth, &key).await;
    let followers = follow(&warmth, &key, 63);
    sleep(Duration::from_millis(300)).await;
    drop(leader);
    let passed = followers.join_all().await;
    assert_eq!(passed, vec![(300, false); 63], "none of them leads");
    let _next = lead(&warmth, &key).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_task_is_aborted_releases_all() {
    let (warmth, key) = (CacheWarmth::default(), key("a/b"));
    let leading = {
        let (warmth, key) = (warmth.clone(), key.clone());
        tokio::spawn(async move {
            let _lead = lead(&warmth, &key).await;
            std::future::pending::<()>().await;
        })
    };
    tokio::task::yield_now().await;
    let followers = follow(&warmth, &key, 8);
    sleep(Duration::from_millis(50)).await;
    leading.abort();
    assert_eq!(followers.join_all().await, vec![(50, false); 8]);
}

#[tokio::test(start_paused = true)]
async fn followers_stop_waiting_for_a_slow_leader() {
    let (warmth, key) = (CacheWarmth::new(Duration::from_secs(2)), key("a/b"));
    let _leader = lead(&warmth, &key).await;
    advance(Duration::from_millis(500)).await;
    let followers = follow(&warmth, &key, 8);
    assert_eq!(followers.join_all().await, vec![(1_500, false); 8]);
    assert!(warmth.enter(&key, &warming(8)).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_patience_without_end_ends_with_the_leader() {
    let (warmth, key) = (CacheWarmth::new(Duration::MAX), key("a/b"));
    let leader = lead(&warmth, &key).await;
    let followers = follow(&warmth, &key, 2);
    sleep(Duration::from_secs(86_400)).await;
    drop(leader);
    assert_eq!(followers.join_all().await, vec![(86_400_000, false); 2]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_follower_leaves_the_others_waiting() {
    let (warmth, key) = (CacheWarmth::default(), key("a/b"));
    let _leader = lead(&warmth, &key).await;
    let mut given_up = follow(&warmth, &key, 4);
    let followers = follow(&warmth, &key, 4);
    sleep(Duration::from_millis(100)).await;
    given_up.abort_all();
    while given_up.join_next().await.is_some() {}
    sleep(Duration::from_millis(100)).await;
    warmth.mark_warm(&key, LIFETIME);
    assert_eq!(followers.join_all().await, vec![(200, true); 4]);
}

#[tokio::test(start_paused = true)]
async fn a_warm_prefix_is_used_without_a_leader_until_it_has_gone_cold() {
    let (warmth, key) = (CacheWarmth::default(), key("a/b"));
    drop(lead(&warmth, &key).await);
    warmth.mark_warm(&key, LIFETIME);
    advance(LIFETIME - Duration::from_millis(1)).await;
    assert!(warmth.enter(&key, &warming(8)).await.is_none() && warmth.is_warm(&key));
    advance(Duration::from_millis(1)).await;
    assert!(!warmth.is_warm(&key));
    let _leader = lead(&warmth, &key).await;
}

/// Many threads at once: exactly one leads, and all of them pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_many_leads() {
    for _ in 0..50 {
        let (warmth, key) = (CacheWarmth::default(), key("a/b"));
        let leaders = Arc::new(AtomicUsize::new(0));
        let mut requests = JoinSet::new();
        for _ in 0..64 {
            let (warmth, key, leaders) = (warmth.clone(), key.clone(), leaders.clone());
            requests.spawn(async move {
                if let Some(lead) = warmth.enter(&key, &warming(64)).await {
                    leaders.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    warmth.mark_warm(&key, LIFETIME);
                    drop(lead);
                }
            });
        }
        requests.join_all().await;
        assert_eq!(leaders.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_runs_once_at_a_time_on_servers_with_a_cache_per_slot() {
    let warmth = CacheWarmth::default();
    let (own, other) = (key("own/x"), key("own/y"));
    warmth.set_serial(&own.model, true);
    assert!(warmth.prefix_permit(&other, &warming(4)).await.is_none());
    let alone = WarmingRequest {
        mode: CacheWarm::Off,
        ..warming(4)
    };
    assert!(
        warmth.prefix_permit(&own, &alone).await.is_none(),
        "nobody wants it"
    );
    let at_work = Arc::new(AtomicUsize::new(0));
    let mut all = JoinSet::new();
    for _ in 0..8 {
        let (warmth, own, at_work) = (warmth.clone(), own.clone(), at_work.clone());
        all.spawn(async move {
            let _permit = warmth
                .prefix_permit(&own, &warming(4))
                .await
                .expect("a turn");
            assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0);
            sleep(Duration::from_secs(1)).await;
            at_work.fetch_sub(1, Ordering::SeqCst);
        });
    }
    // Another prefix has another slot.
    let another = Key {
        prefix: Digest::of_bytes(b"another"),
        ..own.clone()
    };
    let begun = Instant::now();
    drop(warmth.prefix_permit(&another, &warming(4)).await);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // A request that no longer waits does not delay others.
    let gone = tokio::spawn({
        let (warmth, own) = (warmth.clone(), own.clone());
        async move { drop(warmth.prefix_permit(&own, &warming(4)).await) }
    });
    advance(Duration::from_millis(10)).await;
    gone.abort();
    while let Some(done) = all.join_next().await {
        done.expect("it was alone");
    }
    assert!(begun.elapsed() >= Duration::from_secs(8));
    warmth.set_serial(&own.model, false);
    assert!(warmth.prefix_permit(&own, &warming(4)).await.is_none());
}
