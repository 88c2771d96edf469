//! Tests of waiting for admission, with a simulated clock.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, LazyLock};

use tokio::task::JoinSet;

use super::*;
use crate::client::breaker::Pass;
use crate::provider::{Kind, Limits};

static M: LazyLock<Arc<str>> = LazyLock::new(|| "m".into());

/// Runs with a clock that advances to the next timer when all tasks are idle.
fn timed<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

fn admission(limits: Limits) -> Admission {
    let mut settings =
        Settings::new("mine", Kind::Compatible, Some("http://127.0.0.1:9"), None).unwrap();
    settings.limits = limits;
    settings.breaker.failures = 1;
    Admission::new(&settings, LimitShare::default())
}

fn probe_of(admitted: &Admitted<'_>) -> Option<Pass> {
    Some(admitted.sent.as_ref()?.passes.model)
}

fn failure(class: Class) -> Failure {
    Failure::new(class, "the provider failed")
}

fn unheard(_: Duration, _: &str) {}

/// Admits a request that waits without a limit of its own and hears of no pauses.
async fn admit(admission: &Admission, tokens: u64) -> Result<Admitted<'_>, Failure> {
    admission.admit(&M, tokens, Duration::MAX, unheard).await
}

const QUEUE: Duration = Duration::from_secs(60);

fn limits() -> Limits {
    Limits {
        queue: QUEUE,
        ..Limits::default()
    }
}

#[test]
fn one_429_holds_back_all_siblings_and_they_do_not_start_at_once() {
    timed(async {
        let admission = Arc::new(admission(limits()));
        let start = Instant::now();
        let first = admit(&admission, 1).await.unwrap();
        let limited = Class::RateLimited {
            retry_after_ms: Some(20_000),
        };
        first.failed(&failure(limited), true);
        let mut siblings = JoinSet::new();
        for _ in 0..32 {
            let admission = admission.clone();
            siblings.spawn(async move {
                drop(admit(&admission, 1).await.unwrap());
                start.elapsed().as_millis()
            });
        }
        let starts: BTreeSet<u128> = siblings.join_all().await.into_iter().collect();
        let (first, last) = (starts.first().unwrap(), starts.last().unwrap());
        assert!(*first >= 20_000 && *last <= 25_010, "{starts:?}");
        assert!(starts.len() > 16, "each at its own time: {starts:?}");
    });
}

#[test]
fn a_cancelled_request_leaves_its_place_to_the_next() {
    timed(async {
        let admission = admission(Limits {
            requests_per_minute: Some(1),
            ..limits()
        });
        let start = Instant::now();
        drop(admit(&admission, 1).await.unwrap());
        let given_up = timeout(Duration::from_secs(1), admit(&admission, 1)).await;
        assert!(given_up.is_err(), "it has to wait");
        drop(admit(&admission, 1).await.unwrap());
        let waited = start.elapsed();
        assert!(
            waited <= Duration::from_millis(60_010),
            "not two minutes: {waited:?}"
        );
        assert!(waited >= Duration::from_secs(59), "{waited:?}");
    });
}

#[test]
fn a_wait_beyond_the_timeout_fails_at_once() {
    timed(async {
        let admission = admission(Limits {
            tokens_per_minute: Some(60),
            queue: Duration::from_secs(10),
            ..limits()
        });
        let start = Instant::now();
        drop(admit(&admission, 60).await.unwrap());
        let failure = admit(&admission, 60).await.unwrap_err();
        assert_eq!(
            (failure.class, start.elapsed()),
            (Class::Busy, Duration::ZERO)
        );
    });
}

#[test]
fn requests_waiting_for_tokens_continue_in_order_when_they_are_returned() {
    timed(async {
        let admission = Arc::new(admission(Limits {
            tokens_per_minute: Some(200_000),
            ..limits()
        }));
        let start = Instant::now();
        let first = admit(&admission, 140_000).await.unwrap();
        let order: Arc<Mutex<Vec<u64>>> = Arc::default();
        let mut others = JoinSet::new();
        // The last request would fit beside the first, but it came later.
        for tokens in [140_000, 141_000, 142_000, 20_000] {
            let (admission, order) = (admission.clone(), order.clone());
            others.spawn(async move {
                let admitted = admit(&admission, tokens).await.unwrap();
                order.lock().unwrap().push(tokens);
                sleep(Duration::from_secs(1)).await;
                admitted.succeeded(Some(2_000));
            });
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(order.lock().unwrap().len(), 0);
        first.succeeded(Some(2_000));
        others.join_all().await;
        assert_eq!(*order.lock().unwrap(), [140_000, 141_000, 142_000, 20_000]);
        let took = start.elapsed();
        assert!(took <= Duration::from_millis(5_100), "{took:?}");
    });
}

#[test]
fn a_request_without_returned_tokens_fails_at_its_deadline() {
    timed(async {
        let admission = admission(Limits {
            tokens_per_minute: Some(60),
            queue: Duration::from_secs(10),
            ..limits()
        });
        let start = Instant::now();
        let under_way = admit(&admission, 60).await.unwrap();
        let failure = admit(&admission, 60).await.unwrap_err();
        assert_eq!(failure.class, Class::Busy);
        assert_eq!(start.elapsed().as_secs(), 10, "{failure:?}");
        // Once it is known that no tokens are returned, the request fails at once.
        let mut waiting = pin!(admit(&admission, 60));
        assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err());
        under_way.succeeded(Some(60));
        assert!(waiting.await.is_err());
        assert_eq!(start.elapsed().as_secs(), 11);
    });
}

#[test]
fn concurrent_requests_are_limited_by_the_settings() {
    timed(async {
        let admission = admission(Limits {
            concurrent: Some(2),
            ..limits()
        });
        let start = Instant::now();
        let first = admit(&admission, 1).await.unwrap();
        let second = admit(&admission, 1).await.unwrap();
        let failure = admit(&admission, 1).await.unwrap_err();
        assert_eq!((failure.class, start.elapsed()), (Class::Busy, QUEUE));
        let mut third = pin!(admit(&admission, 1));
        assert!(timeout(Duration::from_secs(1), &mut third).await.is_err());
        first.succeeded(None);
        assert!(timeout(Duration::from_secs(1), third).await.is_ok());
        drop(second);
    });
}

#[test]
fn pauses_are_reported_when_they_begin() {
    timed(async {
        let admission = admission(limits());
        let heard = Mutex::new(Vec::new());
        let hear = |pause: Duration, why: &str| {
            heard
                .lock()
                .unwrap()
                .push((pause.as_secs(), why.to_owned()));
        };
        let first = admission.admit(&M, 1, QUEUE, hear).await.unwrap();
        let limited = Class::RateLimited {
            retry_after_ms: Some(8_000),
        };
        first.failed(&failure(limited), true);
        let next = admission.admit(&M, 1, QUEUE, hear).await.unwrap();
        let told = std::mem::take(&mut *heard.lock().unwrap());
        let [(pause, why)] = &told[..] else {
            panic!("{told:?}");
        };
        assert!((8..=10).contains(pause), "{pause}");
        assert_eq!(why, ASKED_PAUSE);
        next.failed(&failure(Class::Transport), true);
        sleep(Duration::from_secs(30)).await;
        let probe = admission.admit(&M, 1, QUEUE, hear).await.unwrap();
        let mut waiting = pin!(admission.admit(&M, 1, QUEUE, hear));
        assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err());
        assert_eq!(*heard.lock().unwrap(), [(5, AWAITS_PROBE.to_owned())]);
        probe.succeeded(None);
        waiting.await.unwrap();
    });
}

#[test]
fn a_cancelled_probe_makes_the_next_request_the_probe() {
    timed(async {
        let admission = admission(limits());
        let first = admit(&admission, 1).await.unwrap();
        first.failed(&failure(Class::Transport), true);
        let refused = admit(&admission, 1).await.unwrap_err();
        assert!(matches!(refused.class, Class::CircuitOpen { .. }));
        sleep(Duration::from_secs(30)).await;
        let probe = admit(&admission, 1).await.unwrap();
        assert_eq!(probe_of(&probe), Some(Pass::Probe(1)));
        assert!(admit(&admission, 1).await.is_err(), "one at a time");
        drop(probe);
        let probe = admit(&admission, 1).await.unwrap();
        assert_eq!(probe_of(&probe), Some(Pass::Probe(2)));
        probe.succeeded(None);
        assert_eq!(
            probe_of(&admit(&admission, 1).await.unwrap()),
            Some(Pass::Ordinary)
        );
    });
}

#[test]
fn what_one_program_is_told_holds_back_the_others() {
    timed(async {
        let shares = [LimitShare::default(), LimitShare::default()];
        let of = |share: &LimitShare| {
            let settings =
                Settings::new("mine", Kind::Compatible, Some("http://127.0.0.1:9"), None).unwrap();
            share.set(2);
            Admission::new(&settings, share.clone())
        };
        let [one, other] = shares.each_ref().map(of);
        let limited = Class::RateLimited {
            retry_after_ms: Some(20_000),
        };
        let sent = admit(&one, 1).await.unwrap();
        sent.failed(&failure(limited), true);
        shares[1].take(shares[0].next().await);
        let start = Instant::now();
        admit(&other, 1).await.unwrap();
        assert!(start.elapsed() >= Duration::from_secs(20));
        // A pause that another program announced is not announced again.
        let telling = timeout(Duration::from_secs(60), shares[1].next()).await;
        assert!(telling.is_err(), "{telling:?}");
    });
}
