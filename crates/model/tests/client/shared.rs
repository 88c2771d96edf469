//! Tests of what calls to one provider share: the cool-down, the breaker, the limits, and the
//! number of concurrent calls.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::task::JoinSet;
use unisono_fake_provider::{
    Act, Answer, At, Ending, FakeProvider, Gate, RateLimits, Refusal, RetryAfter, Script, Usage,
    Window,
};
use unisono_model::client::{Call, Client};
use unisono_model::dialect::{Dialect, Mode};
use unisono_model::language::{Class, Listener};
use unisono_model::provider::Settings;

use crate::setup::{call, ms, reply, settings, soon};

const DIALECT: Dialect = Dialect::Anthropic;

async fn with(script: Script, change: impl FnOnce(&mut Settings)) -> (FakeProvider, Arc<Client>) {
    let provider = FakeProvider::play(script).await;
    let mut settings = settings(DIALECT, &provider.url());
    settings.retry.attempts = 1;
    change(&mut settings);
    (provider, Arc::new(Client::new(settings).unwrap()))
}

/// Makes this many calls at once; returns when each had its reply.
async fn at_once(client: &Arc<Client>, calls: usize) -> Vec<std::time::Duration> {
    let start = Instant::now();
    let mut set = JoinSet::new();
    for _ in 0..calls {
        let client = client.clone();
        set.spawn(async move {
            client.reply(call(DIALECT, Mode::Stream)).await.unwrap();
            start.elapsed()
        });
    }
    soon(set.join_all()).await
}

/// Anthropic and Google limit requests for counts apart from others.
#[tokio::test]
async fn a_refused_count_delays_no_reply() {
    let limited = Act::refuse(Refusal::RateLimited { seconds: None })
        .retry_after(RetryAfter::Seconds(900))
        .rate_limits(RateLimits {
            requests: Some(Window {
                limit: 100,
                remaining: 0,
                reset: ms(900_000),
            }),
            ..RateLimits::default()
        });
    for refusal in [
        limited,
        Act::refuse(Refusal::Forbidden),
        Act::refuse(Refusal::Overloaded),
    ] {
        let builder = FakeProvider::builder().counts(Script::always(refusal));
        let provider = builder.start().await;
        let mut settings = settings(DIALECT, &provider.url());
        settings.breaker.failures = 1;
        let client = Client::new(settings).unwrap();
        let refused = soon(client.count(call(DIALECT, Mode::Count))).await;
        let refused = refused.unwrap_err();
        let impatient = Call {
            patience: Some(ms(0)),
            ..call(DIALECT, Mode::Stream)
        };
        let answered = soon(client.reply(impatient)).await;
        assert!(answered.is_ok(), "{refused}: {answered:?}");
    }
}

#[tokio::test]
async fn one_429_is_not_multiplied_by_the_siblings() {
    let limited = Act::refuse(Refusal::RateLimited { seconds: None })
        .retry_after(RetryAfter::Milliseconds(400));
    let script = Script::sequence([limited]).then(Act::answer("Hello."));
    let (provider, client) = with(script, |_| {}).await;
    let error = reply(&client).await.unwrap_err();
    assert_eq!(
        error.class,
        Class::RateLimited {
            retry_after_ms: Some(400)
        }
    );
    let answered = at_once(&client, 16).await;
    let soonest = answered.iter().min().unwrap();
    assert!(*soonest >= ms(380), "{answered:?}");
    assert_eq!(provider.request_count(), 17, "nobody was refused again");
}

#[tokio::test]
async fn a_call_that_cannot_wait_for_the_cool_down_fails() {
    let limited =
        Act::refuse(Refusal::RateLimited { seconds: None }).retry_after(RetryAfter::Seconds(2));
    let script = Script::sequence([limited]).then(Act::answer("Hello."));
    let (provider, client) = with(script, |settings| settings.limits.queue = ms(50)).await;
    assert!(reply(&client).await.is_err());
    let error = reply(&client).await.unwrap_err();
    assert_eq!(error.class, Class::Busy);
    assert!(error.reason.contains("asked for a pause of"), "{error}");
    assert_eq!(provider.request_count(), 1);
}

#[tokio::test]
async fn a_pause_between_two_attempts_is_told_when_it_begins() {
    let limited =
        Act::refuse(Refusal::RateLimited { seconds: None }).retry_after(RetryAfter::Seconds(1));
    let script = Script::sequence([limited]).then(Act::answer("Hello."));
    let (provider, client) = with(script, |settings| settings.retry.attempts = 2).await;
    let (told, listened) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let heard = told.clone();
    let call = Call {
        listener: Listener::NONE.with_pause(move |pause, reason| {
            let at = listened.elapsed();
            heard.lock().unwrap().push((at, pause, reason.to_owned()));
        }),
        ..call(DIALECT, Mode::Stream)
    };
    soon(client.reply(call)).await.unwrap();
    assert_eq!(provider.request_count(), 2);
    let told = told.lock().unwrap();
    let (at, pause, reason) = &told[0];
    assert!(*pause >= ms(1_000), "{pause:?}");
    assert!(*at < listened.elapsed().saturating_sub(ms(900)), "{at:?}");
    assert!(reason.starts_with("model "), "{reason}");
}

#[tokio::test]
async fn a_wait_beyond_the_callers_patience_is_not_begun() {
    let limited =
        Act::refuse(Refusal::RateLimited { seconds: None }).retry_after(RetryAfter::Seconds(60));
    let script = Script::sequence([limited]).then(Act::answer("Hello."));
    let (provider, client) = with(script, |settings| settings.retry.attempts = 3).await;
    let hurried = || Call {
        patience: Some(ms(500)),
        ..call(client.settings().dialect, Mode::Stream)
    };
    // It was asked to wait, and waits longer because of the answer to another call.
    for (class, reported) in [
        (
            Class::RateLimited {
                retry_after_ms: Some(60_000),
            },
            "the provider asks to wait 60.0 s, longer than the 0.",
        ),
        (Class::Busy, "the 0.5 s this request may wait"),
    ] {
        let error = soon(client.reply(hurried())).await.unwrap_err();
        assert_eq!(error.class, class, "{error}");
        assert!(error.reason.contains(reported), "{error}");
        assert_eq!(provider.request_count(), 1);
    }
}

#[tokio::test]
async fn a_failing_provider_gets_no_requests_until_a_probe_succeeds() {
    let script = Script::sequence([Act::refuse(Refusal::Internal), Act::html(502)])
        .then(Act::answer("Hello."));
    let (provider, client) = with(script, |settings| {
        settings.breaker.failures = 2;
        settings.breaker.cool_down = ms(300);
    })
    .await;
    for _ in 0..2 {
        assert!(matches!(
            reply(&client).await.unwrap_err().class,
            Class::Unavailable { .. }
        ));
    }
    let opened = Instant::now();
    let error = reply(&client).await.unwrap_err();
    assert!(matches!(error.class, Class::CircuitOpen { .. }));
    let reported = "it failed last with: HTTP 502";
    assert!(error.reason.contains(reported), "what was wrong: {error}");
    assert_eq!(provider.request_count(), 2, "nothing was sent");
    tokio::time::sleep(ms(300)).await;
    assert!(reply(&client).await.is_ok(), "after {:?}", opened.elapsed());
    assert_eq!(at_once(&client, 4).await.len(), 4);
}

/// Another attempt would be refused by the breaker, so the error has the pause.
#[tokio::test]
async fn an_error_that_opens_the_breaker_has_its_pause() {
    for (attempts, failures) in [(1, 1), (4, 1), (4, 4)] {
        let script = Script::always(Act::refuse(Refusal::Internal));
        let (provider, client) = with(script, |settings| {
            settings.retry.attempts = attempts;
            settings.retry.base = ms(1);
            settings.breaker.failures = failures;
            settings.breaker.cool_down = ms(30_000);
            settings.breaker.cool_down_max = ms(30_000);
        })
        .await;
        let error = reply(&client).await.unwrap_err();
        assert!(matches!(error.class, Class::Unavailable { .. }), "{error}");
        let pause = error.retry_after_ms().unwrap();
        assert!((20_000..=30_000).contains(&pause), "{pause} ms: {error}");
        assert_eq!(provider.request_count(), failures as usize);
    }
}

/// The other agents of a fan-out do not use up their attempts meanwhile.
#[tokio::test]
async fn requests_wait_for_the_result_of_a_probe() {
    let gate = Gate::new();
    let slow = Act::answer("Hello.").hold(&gate);
    let script = Script::sequence([Act::refuse(Refusal::Internal), slow]);
    let (provider, client) = with(script.then(Act::answer("Hello.")), |settings| {
        settings.breaker.failures = 1;
        settings.breaker.cool_down = ms(50);
    })
    .await;
    assert!(reply(&client).await.is_err());
    tokio::time::sleep(ms(50)).await;
    let siblings = tokio::spawn(async move { at_once(&client, 8).await.len() });
    gate.reached(1).await;
    assert_eq!(provider.request_count(), 2, "one probe");
    gate.open();
    assert_eq!(soon(siblings).await.unwrap(), 8);
    assert_eq!(provider.request_count(), 9);
}

/// A model that is tested delays no other model, even if few requests may run at once.
#[tokio::test]
async fn requests_that_wait_for_a_probe_take_no_place() {
    let gate = Gate::new();
    let slow = Act::answer("Hello.").hold(&gate);
    let script = Script::sequence([Act::refuse(Refusal::Internal), slow]);
    let script = script.then(Act::answer("Hello."));
    let (_provider, client) = with(script, |settings| {
        settings.breaker.failures = 1;
        settings.breaker.cool_down = ms(50);
        settings.limits.concurrent = Some(2);
    })
    .await;
    let of = |name: &str| Call {
        model: format!("mine/{name}").into(),
        name: name.into(),
        ..call(DIALECT, Mode::Stream)
    };
    assert!(client.reply(of("slow")).await.is_err());
    tokio::time::sleep(ms(50)).await;
    let mut slow = JoinSet::new();
    for _ in 0..4 {
        let (client, call) = (client.clone(), of("slow"));
        slow.spawn(async move { client.reply(call).await.map(|_| ()) });
    }
    gate.reached(1).await;
    let hurried = Call {
        patience: Some(ms(2_000)),
        ..of("other")
    };
    let replied = soon(client.reply(hurried)).await;
    assert!(replied.is_ok(), "{replied:?}");
    gate.open();
    for replied in soon(slow.join_all()).await {
        assert!(replied.is_ok(), "{replied:?}");
    }
}

/// A proxy with one broken model; the others answer.
#[tokio::test]
async fn a_failing_model_does_not_block_others() {
    let failing = Script::always(Act::refuse(Refusal::Internal));
    let (provider, client) = with(failing, |settings| settings.breaker.failures = 2).await;
    let of = |name: &str| Call {
        model: format!("mine/{name}").into(),
        name: name.into(),
        ..call(DIALECT, Mode::Stream)
    };
    for _ in 0..2 {
        let error = client.reply(of("broken")).await.unwrap_err();
        assert!(matches!(error.class, Class::Unavailable { .. }), "{error}");
    }
    let refused = client.reply(of("broken")).await.unwrap_err();
    assert!(matches!(refused.class, Class::CircuitOpen { .. }));
    let reported = "model `broken` failed too often; requests to it are paused for";
    assert!(refused.reason.contains(reported), "{refused}");
    assert!(
        refused
            .reason
            .contains("it failed last with: api_error: Internal"),
        "{refused}"
    );
    assert_eq!(provider.request_count(), 2, "nothing was sent");
    let other = client.reply(of("other")).await.unwrap_err();
    assert!(
        matches!(other.class, Class::Unavailable { .. }),
        "asked: {other}"
    );
    assert_eq!(provider.request_count(), 3);
}

#[tokio::test]
async fn an_open_breakers_error_names_the_refusing_address() {
    // Its port is freed at once.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut settings = settings(DIALECT, &origin);
    settings.retry.attempts = 1;
    settings.breaker.failures = 1;
    let client = Client::new(settings).unwrap();
    let first = reply(&client).await.unwrap_err();
    assert_eq!(first.class, Class::Transport, "{first}");
    for _ in 0..2 {
        let later = reply(&client).await.unwrap_err();
        assert!(matches!(later.class, Class::CircuitOpen { .. }), "{later}");
        let why = format!(
            "requests to it are paused for 5.0 s more; it failed last with: {}",
            first.reason
        );
        let reported = later.reason.replace("4.9 s", "5.0 s");
        assert!(reported.contains(&why), "{later}");
        assert!(
            reported.contains(&origin) && reported.contains("refused"),
            "{later}"
        );
        assert!(later.to_string().contains("mine/fake-model"), "{later}");
    }
}

#[tokio::test]
async fn a_breaker_that_opens_between_attempts_does_not_hide_why() {
    let (provider, client) = with(Script::always(Act::refuse(Refusal::Internal)), |settings| {
        settings.retry.attempts = 5;
        settings.breaker.failures = 2;
    })
    .await;
    let error = reply(&client).await.unwrap_err();
    assert!(
        matches!(error.class, Class::Unavailable { .. }),
        "{error:?}"
    );
    assert!(
        error
            .reason
            .contains("; then model `fake-model` failed too often"),
        "{error}"
    );
    assert_eq!(provider.request_count(), 2);
}

#[tokio::test]
async fn concurrent_requests_are_limited() {
    let gate = Gate::new();
    let script = Script::always(Act::answer("Hello.").hold(&gate));
    let (provider, client) = with(script, |settings| settings.limits.concurrent = Some(3)).await;
    let calls = {
        let client = client.clone();
        tokio::spawn(async move { at_once(&client, 9).await.len() })
    };
    gate.reached(3).await;
    gate.open();
    assert_eq!(soon(calls).await.unwrap(), 9);
    assert_eq!(provider.max_in_flight(), 3);
}

#[tokio::test]
async fn a_limit_of_requests_a_minute_makes_them_wait() {
    // 2 at once, then one every 100 ms.
    let (provider, client) = with(Script::always(Act::answer("Hello.")), |settings| {
        settings.limits.requests_per_minute = Some(600);
    })
    .await;
    let mut left = at_once(&client, 604).await;
    left.sort_unstable();
    assert!(left[603] >= ms(350), "{:?}", left[603]);
    assert_eq!(provider.request_count(), 604);
}

#[tokio::test]
async fn unused_tokens_are_returned() {
    let answer = Answer::text("Hello.").usage(Usage::new(5, 5));
    let (_provider, client) = with(Script::always(answer), |settings| {
        // Each call takes 100 and uses 10.
        settings.limits.tokens_per_minute = Some(1_000);
        settings.limits.queue = ms(100);
    })
    .await;
    for _ in 0..50 {
        assert!(reply(&client).await.is_ok());
    }
}

#[tokio::test]
async fn an_exhausted_limit_of_the_provider_is_waited_for() {
    let limits = RateLimits {
        requests: Some(Window {
            limit: 1,
            remaining: 0,
            reset: std::time::Duration::from_secs(2),
        }),
        tokens: None,
    };
    let last = Act::answer("Hello.").rate_limits(limits);
    let script = Script::sequence([last]).then(Act::answer("Hello."));
    let (provider, client) = with(script, |_| {}).await;
    assert!(reply(&client).await.is_ok());
    let waited = at_once(&client, 1).await;
    // Anthropic's times are whole seconds: 2 s are at least 1 s.
    assert!(waited[0] >= ms(900), "{waited:?}");
    assert_eq!(provider.request_count(), 2);
}

#[tokio::test]
async fn a_fan_out_whose_replies_are_short_waits_for_them_and_is_not_refused() {
    let gate = Gate::new();
    let used = Usage {
        input: 12_000,
        output: 40,
        reasoning: 0,
        cache_read: 0,
        cache_write: 0,
    };
    let held = Act::answer(Answer::text("Hello.").usage(used)).hold(&gate);
    let (provider, client) = with(Script::always(held), |settings| {
        settings.limits.tokens_per_minute = Some(200_000);
        settings.limits.queue = ms(9_000);
    })
    .await;
    let mut delegates = JoinSet::new();
    for _ in 0..4 {
        let client = client.clone();
        // A context of 12,000 tokens, and the longest reply of gpt-5-mini.
        let call = unisono_model::client::Call {
            tokens: unisono_context::Tokens(140_000),
            ..call(DIALECT, Mode::Stream)
        };
        delegates.spawn(async move { client.reply(call).await.map(|reply| reply.text) });
    }
    soon(provider.wait_for(1)).await;
    gate.open();
    for replied in soon(delegates.join_all()).await {
        assert_eq!(replied.as_deref().ok(), Some("Hello."), "{replied:?}");
    }
}

#[tokio::test]
async fn a_reserved_call_is_retried_only_while_nothing_is_paid() {
    let pieces = Answer::pieces(["One ", "two ", "three."]);
    let broken = || Act::answer(pieces.clone()).end_at(At::Event(4), Ending::Reset);
    let refused = || Act::refuse(Refusal::Internal);
    for (bounded, script, requests) in [
        (false, [broken(), broken()], 3),
        (true, [broken(), broken()], 1),
        (true, [refused(), refused()], 3),
        (true, [refused(), broken()], 2),
    ] {
        let script = Script::sequence(script).then(Act::answer("Hello."));
        let (provider, client) = with(script, |settings| settings.retry.attempts = 3).await;
        let asked = Call {
            bounded,
            ..call(DIALECT, Mode::Stream)
        };
        let replied = soon(client.reply(asked)).await;
        assert_eq!(provider.request_count(), requests, "{replied:?}");
        assert_eq!(replied.is_ok(), requests == 3, "{replied:?}");
        if let Err(error) = replied {
            assert!(error.begun && error.class.is_transient(), "{error:?}");
            assert!(error.reason.contains("budget reserved"), "{error}");
        }
    }
}
