//! Tests of a remote model with a provider in memory and a paused clock: which requests are sent
//! when, and how the reported usage is processed.

mod fallback;
mod loopback;
mod provider;
mod structured;
mod watch;

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use unisono_context::{Cost, Role, Snapshot};

use super::*;
use crate::fixture::{self, Chat};
use crate::prompt::Group;
use provider::{FIRST_EVENT, Provider, REST, Sent};
use watch::Watch;

const ANTHROPIC: &str = "anthropic/claude-opus-4-1";
const OPENAI: &str = "openai/gpt-4o";

fn remote(reference: &str, provider: &Provider) -> Arc<Remote<Provider>> {
    let catalogue = Arc::new(Catalogue::built_in().unwrap());
    let entry = catalogue.get(None, reference).unwrap();
    Arc::new(Remote::new(entry, provider.clone(), catalogue))
}

fn anthropic() -> (Provider, Arc<Remote<Provider>>) {
    let provider = Provider::new(Dialect::Anthropic);
    let remote = remote(ANTHROPIC, &provider);
    (provider, remote)
}

/// A conversation of about this many tokens.
fn snapshot(tokens: usize) -> Arc<Snapshot> {
    let text = "the billing job ships on Friday and costs money. ".repeat(tokens / 10);
    Arc::new(Chat::new(1).say(Role::User, &text).freeze())
}

/// One of several requests on one context, with a prefix of this model.
fn request(remote: &Remote<Provider>, peers: u32, mode: CacheWarm) -> Request {
    on(remote, snapshot(4_000), peers, mode)
}

fn on<T: Transport>(
    remote: &Remote<T>,
    snapshot: Arc<Snapshot>,
    peers: u32,
    mode: CacheWarm,
) -> Request {
    let request = Request {
        group: Group::Shared,
        snapshot: Some(snapshot),
        cache_warm: mode,
        has_peers: peers > 1,
        ..fixture::request()
    };
    let prefix = remote.render(&request.shared());
    Request { prefix, ..request }
}

/// The result of a request, and how long it took.
type Outcome = (Result<Reply, Error>, Duration);

/// Runs all requests at once.
async fn fan_out(remote: &Arc<Remote<Provider>>, request: &Request, count: u32) -> Vec<Outcome> {
    let mut runs = JoinSet::new();
    for n in 0..count {
        let remote = remote.clone();
        let request = Request {
            task: format!("task {n}").into(),
            place: n,
            ..request.clone()
        };
        runs.spawn(async move {
            let started = Instant::now();
            let reply = remote.complete(request).await;
            (reply, started.elapsed())
        });
    }
    runs.join_all().await
}

fn usage(outcomes: &[Outcome]) -> Vec<Usage> {
    let replied = outcomes
        .iter()
        .map(|(reply, _)| reply.as_ref().unwrap().usage);
    replied.collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_is_the_shared_prefix_and_its_own_tail() {
    let (provider, remote) = anthropic();
    let asked = request(&remote, 1, CacheWarm::Leader);
    let reply = remote.complete(asked.clone()).await.unwrap();
    assert_eq!(&*reply.text, "an answer");
    let [sent] = &provider.sent()[..] else {
        panic!("one request");
    };
    assert_eq!(sent.head.as_ptr(), asked.prefix.bytes().as_ptr(), "copied");
    let names = (&*sent.model, &*sent.name);
    assert_eq!(names, (ANTHROPIC, "claude-opus-4-1"));
    assert_eq!(sent.mode, Mode::Stream);
    let body = [sent.head.as_ref(), sent.tail.as_bytes()].concat();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["model"], "claude-opus-4-1");
    assert_eq!(body["max_tokens"], 4_096);
}

#[tokio::test(start_paused = true)]
async fn followers_read_what_the_leader_wrote_and_wait_for_its_first_event_only() {
    for count in [2, 16, 64] {
        let (provider, remote) = anthropic();
        let waited = Arc::new(AtomicU32::new(0));
        let sum = waited.clone();
        let add_one = move || {
            sum.fetch_add(1, Ordering::Relaxed);
        };
        let asked = Request {
            listener: Listener::NONE.with_cache_ready(add_one),
            ..request(&remote, count, CacheWarm::Leader)
        };
        let outcomes = fan_out(&remote, &asked, count).await;
        assert_eq!(provider.sent().len(), count as usize);
        assert_eq!(waited.load(Ordering::Relaxed), count - 1);
        let used = usage(&outcomes);
        let hits = used.iter().filter(|used| used.cache_read > Tokens::ZERO);
        assert_eq!(hits.count(), count as usize - 1);
        for (used, (_, took)) in used.iter().zip(&outcomes) {
            let led = used.cache_write > Tokens::ZERO;
            let waited = if led { Duration::ZERO } else { FIRST_EVENT };
            assert_eq!(*took, waited + FIRST_EVENT + REST);
            assert_eq!(used.cache_expected == Tokens::ZERO, led, "{used:?}");
            assert!(!used.missed(), "{used:?}");
        }
        // $15 for a million tokens of input, $18.75 written, $1.50 read, $75 of output.
        for used in used {
            let plain = used.input.minus(used.cache_read).minus(used.cache_write);
            let micro = plain.0 * 15_000_000
                + used.cache_write.0 * 18_750_000
                + used.cache_read.0 * 1_500_000
                + used.output.0 * 75_000_000;
            assert_eq!(used.cost, Some(Cost(u128::from(micro))));
        }
    }
}

/// Adds the time until its end.
struct Waited(Instant, Arc<Mutex<Duration>>);

impl Drop for Waited {
    fn drop(&mut self) {
        *self.1.lock().unwrap() += self.0.elapsed();
    }
}

#[tokio::test(start_paused = true)]
async fn the_caller_holds_a_guard_while_a_request_waits() {
    let provider = Provider::new(Dialect::Anthropic);
    let catalogue = Arc::new(Catalogue::built_in().unwrap());
    let entry = catalogue.get(None, ANTHROPIC).unwrap();
    let warmth = CacheWarmth::default();
    warmth.set_serial(&ANTHROPIC.into(), true);
    let remote = Remote::new(entry, provider, catalogue).with_cache_warmth(warmth);
    let remote = Arc::new(remote);
    let waited = Arc::new(Mutex::new(Duration::ZERO));
    let sum = waited.clone();
    let asked = Request {
        listener: Listener::NONE
            .with_wait_guard(move || Box::new(Waited(Instant::now(), sum.clone()))),
        ..request(&remote, 4, CacheWarm::Leader)
    };
    let outcomes = fan_out(&remote, &asked, 4).await;
    assert!(outcomes.iter().all(|(reply, _)| reply.is_ok()));
    let one = FIRST_EVENT + REST;
    assert_eq!(*waited.lock().unwrap(), one * (1 + 2 + 3));
}

#[tokio::test(start_paused = true)]
async fn requests_do_not_wait_without_a_gain() {
    let at_once = FIRST_EVENT + REST;
    let (provider, remote) = anthropic();
    let off = request(&remote, 8, CacheWarm::Off);
    let short = on(&remote, snapshot(500), 8, CacheWarm::Leader);
    let alone = on(&remote, snapshot(3_000), 1, CacheWarm::Leader);
    for (asked, expected) in [(off, false), (short, false), (alone, false)] {
        let outcomes = fan_out(&remote, &asked, 8).await;
        assert!(outcomes.iter().all(|(_, took)| *took == at_once));
        let used = usage(&outcomes);
        let any = used.iter().any(|used| used.cache_expected > Tokens::ZERO);
        assert_eq!(any, expected);
    }
    assert_eq!(provider.sent().len(), 24);
    // A short prefix is not expected to be cached later either; a long one is.
    for (tokens, expected) in [(500, false), (3_000, true)] {
        let again = on(&remote, snapshot(tokens), 8, CacheWarm::Leader);
        let used = remote.complete(again).await.unwrap().usage;
        assert_eq!(used.cache_expected > Tokens::ZERO, expected, "{tokens}");
    }
}

#[tokio::test(start_paused = true)]
async fn short_prefixes_do_not_wait_for_the_cache_of_a_local_server() {
    let provider = Provider::new(Dialect::OpenAiChat);
    let remote = remote("openai-compatible/qwen3", &provider);
    let asked = on(&remote, snapshot(500), 4, CacheWarm::Prewarm);
    let outcomes = fan_out(&remote, &asked, 4).await;
    assert!(outcomes.iter().all(|(_, took)| *took == FIRST_EVENT + REST));
    let sent = provider.sent();
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|sent| sent.cache_key().is_none()));
    assert!(usage(&outcomes).iter().all(|used| used.cost.is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_failed_leader_releases_the_others_at_once() {
    let unavailable = Class::UNAVAILABLE;
    let provider =
        Provider::new(Dialect::Anthropic).by(move |at, _| (at == 0).then_some(unavailable));
    let remote = remote(ANTHROPIC, &provider);
    let asked = request(&remote, 8, CacheWarm::Leader);
    let outcomes = fan_out(&remote, &asked, 8).await;
    let failed = outcomes.iter().filter(|(reply, _)| reply.is_err());
    assert_eq!(failed.count(), 1);
    for (reply, took) in &outcomes {
        let Ok(reply) = reply else {
            assert_eq!(*took, FIRST_EVENT);
            continue;
        };
        assert_eq!(*took, FIRST_EVENT + FIRST_EVENT + REST);
        assert_eq!(reply.usage.cache_expected, Tokens::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_leader_releases_the_others_at_once() {
    let (provider, remote) = anthropic();
    let asked = request(&remote, 4, CacheWarm::Leader);
    let leading = {
        let (remote, asked) = (remote.clone(), asked.clone());
        tokio::spawn(async move { remote.complete(asked).await })
    };
    while provider.sent().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let given_up = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        leading.abort();
    };
    let (outcomes, ()) = tokio::join!(fan_out(&remote, &asked, 3), given_up);
    let expected = Duration::from_millis(100) + FIRST_EVENT + REST;
    for (reply, took) in outcomes {
        assert!(
            reply.is_ok() && took.abs_diff(expected) < Duration::from_millis(2),
            "{took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_prewarmed_cache_is_written_once_and_paid_for_once() {
    let (provider, remote) = anthropic();
    let paid = Paid::default();
    let asked = paid.of(request(&remote, 8, CacheWarm::Prewarm));
    let outcomes = fan_out(&remote, &asked, 8).await;
    let sent = provider.sent();
    assert_eq!(sent.len(), 9);
    let body: Vec<u8> = [sent[0].head.as_ref(), sent[0].tail.as_bytes()].concat();
    let prewarm: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(prewarm["max_tokens"], 1);
    assert!(sent[0].tail.contains(PREWARM_TASK) && !sent[0].tail.contains("task "));
    assert!(sent[1..].iter().all(|sent| sent.tail.contains("task ")));
    let used = usage(&outcomes);
    assert!(used.iter().all(|used| used.cache_write == Tokens::ZERO));
    assert!(used.iter().all(|used| used.cache_read > Tokens::ZERO));
    assert!(used.iter().all(|used| used.cache_expected > Tokens::ZERO));
    let [prewarmed] = paid.usages()[..] else {
        panic!("one request wrote the prefix: {:?}", paid.usages());
    };
    assert!(prewarmed.cache_write > Tokens::ZERO && prewarmed.cost.is_some());
    assert_eq!(prewarmed.output, Tokens(10));
    // The warming request has a listener of its own: its text is not part of the run's.
    let (_, took) = outcomes[0];
    assert!(took <= FIRST_EVENT + REST + FIRST_EVENT + REST);
}

#[tokio::test(start_paused = true)]
async fn a_prewarm_is_reported_even_if_the_next_request_fails() {
    let provider =
        Provider::new(Dialect::Anthropic).by(|at, _| (at == 1).then_some(Class::BadRequest));
    let remote = remote(ANTHROPIC, &provider);
    let paid = Paid::default();
    let asked = paid.of(request(&remote, 1, CacheWarm::Prewarm));
    let asked = Request {
        has_peers: true,
        ..asked
    };
    let error = remote.complete(asked).await.unwrap_err();
    assert_eq!(error.class, Class::BadRequest);
    assert!(paid.usages()[0].cache_write > Tokens::ZERO);
    assert_eq!((provider.sent().len(), paid.usages().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_prewarm_is_reported_even_if_the_next_request_is_cancelled() {
    let (provider, remote) = anthropic();
    let paid = Paid::default();
    let asked = paid.of(request(&remote, 2, CacheWarm::Prewarm));
    let replied = tokio::time::timeout(FIRST_EVENT + REST + FIRST_EVENT, remote.complete(asked));
    assert!(replied.await.is_err(), "its reply was on the way");
    assert_eq!((provider.sent().len(), paid.usages().len()), (2, 1));

    // Cancelled before it was answered, it reports nothing: its cost is not known.
    let (provider, remote) = anthropic();
    let paid = Paid::default();
    let asked = paid.of(request(&remote, 2, CacheWarm::Prewarm));
    let prewarmed = tokio::time::timeout(FIRST_EVENT, remote.complete(asked));
    assert!(prewarmed.await.is_err());
    assert_eq!((provider.sent().len(), paid.usages().len()), (1, 0));
}

/// The usage that was reported in addition to that of replies.
#[derive(Clone, Default)]
struct Paid(Arc<Mutex<Vec<Usage>>>);

impl Paid {
    fn of(&self, request: Request) -> Request {
        let received = self.0.clone();
        let listener = request.listener.clone();
        Request {
            listener: listener.with_usage(move |usage, fallback| {
                assert_eq!(fallback, None);
                received.lock().unwrap().push(usage);
            }),
            ..request
        }
    }

    fn usages(&self) -> Vec<Usage> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_prewarm_releases_all_and_fails_no_request() {
    let provider =
        Provider::new(Dialect::Anthropic).by(|at, _| (at == 0).then_some(Class::BadRequest));
    let remote = remote(ANTHROPIC, &provider);
    let asked = request(&remote, 8, CacheWarm::Prewarm);
    let outcomes = fan_out(&remote, &asked, 8).await;
    assert_eq!(provider.sent().len(), 9);
    for (reply, took) in &outcomes {
        assert!(reply.is_ok());
        assert_eq!(*took, FIRST_EVENT + FIRST_EVENT + REST);
    }
    let used = usage(&outcomes);
    assert!(used.iter().all(|used| used.output == Tokens(10)));
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_reply_is_reported_while_it_is_streamed() {
    let (_, remote) = anthropic();
    let received = Arc::new(Mutex::new(String::new()));
    let sink = received.clone();
    let asked = Request {
        listener: Listener::new(move |piece| sink.lock().unwrap().push_str(piece)),
        ..request(&remote, 2, CacheWarm::Prewarm)
    };
    remote.complete(asked).await.unwrap();
    assert_eq!(*received.lock().unwrap(), "an answer");
}

#[tokio::test(start_paused = true)]
async fn a_missed_expected_cache_hit_is_flagged() {
    let (provider, remote) = anthropic();
    let asked = request(&remote, 2, CacheWarm::Leader);
    let watch = Watch::start();
    remote.complete(asked.clone()).await.unwrap();
    let hit = remote.complete(asked.clone()).await.unwrap().usage;
    assert_eq!(watch.warnings(), Vec::<String>::new());
    provider.forget();
    let missed = remote.complete(asked).await.unwrap().usage;
    assert_eq!(missed.cache_expected, hit.cache_expected);
    assert_eq!(missed.cache_read, Tokens::ZERO);
    let [warning] = &watch.warnings()[..] else {
        panic!("one warning: {:?}", watch.warnings());
    };
    let expected = format!("model={ANTHROPIC} expected={} read=0", hit.cache_expected);
    assert!(warning.contains(&expected), "{warning}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_cache_is_not_expected() {
    let (_, remote) = anthropic();
    let asked = request(&remote, 2, CacheWarm::Leader);
    let mut expected = Vec::new();
    for idle in [0, 298, 298, 300] {
        tokio::time::sleep(Duration::from_secs(idle)).await;
        let used = remote.complete(asked.clone()).await.unwrap().usage;
        expected.push(used.cache_expected > Tokens::ZERO);
    }
    assert_eq!(expected, [false, true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn requests_are_spread_over_keys_with_separate_caches() {
    let provider = Provider::new(Dialect::OpenAiChat);
    let remote = remote(OPENAI, &provider);
    let asked = request(&remote, 34, CacheWarm::Leader);
    let outcomes = fan_out(&remote, &asked, 34).await;
    let key = |shard| cache_key(asked.prefix.digest(), shard);
    let expected = [(key(0), 14), (key(1), 15), (key(2), 5)];
    assert_eq!(provider.keys(), expected.into_iter().collect());
    // One leader for each cache, and no request waits for two.
    let used = usage(&outcomes);
    let led = used
        .iter()
        .filter(|used| used.cache_expected == Tokens::ZERO);
    assert_eq!(led.count(), 3);
    assert!(used.iter().all(|used| !used.missed()));
    let longest = outcomes.iter().map(|(_, took)| *took).max();
    assert_eq!(longest, Some(FIRST_EVENT + FIRST_EVENT + REST));
}

#[tokio::test(start_paused = true)]
async fn replies_calibrate_the_estimates() {
    let (provider, remote) = anthropic();
    let off: Vec<f64> = {
        let mut off = Vec::new();
        for peers in 1..=8 {
            let asked = on(&remote, snapshot(4_000 + 300 * peers), 1, CacheWarm::Off);
            let max_output = asked.max_output;
            let used = remote.complete(asked).await.unwrap().usage;
            let estimated = provider.sent().last().unwrap().tokens.minus(max_output);
            off.push((estimated.0 as f64 / used.input.0 as f64 - 1.0).abs());
        }
        off
    };
    assert!(off[0] > 0.1, "the first estimate is {} off", off[0]);
    assert!(off[3..].iter().all(|off| *off <= 0.05), "{off:?}");
    assert_eq!(remote.calibrations.get(ANTHROPIC).samples(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_request_always_has_the_same_bytes() {
    for reference in [ANTHROPIC, OPENAI] {
        let dialect = if reference == OPENAI {
            Dialect::OpenAiChat
        } else {
            Dialect::Anthropic
        };
        let provider = Provider::new(dialect);
        let remote = remote(reference, &provider);
        let asked = Request {
            place: 17,
            ..request(&remote, 40, CacheWarm::Leader)
        };
        // The calibration, the load of a key and the number of requests do not matter.
        for _ in 0..40 {
            remote.complete(asked.clone()).await.unwrap();
        }
        let elsewhere = Remote::new(
            (*remote.entry).clone(),
            NoTransport(dialect),
            remote.catalogue.clone(),
        );
        let [head, tail] = elsewhere.body(&asked).unwrap();
        assert_eq!(elsewhere.render(&asked.shared()), asked.prefix);
        let sent = provider.sent();
        assert_eq!(sent.len(), 40);
        for sent in sent {
            assert_eq!((&sent.head, sent.tail.as_bytes()), (&head, &tail[..]));
        }
        let refused = elsewhere.complete(asked.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("no transport is configured"));
    }
}

#[test]
fn the_first_replies_and_then_one_in_sixteen_are_samples() {
    let rows = [
        (0, 5, true),
        (15, 99, true),
        (16, 15, false),
        (16, 16, true),
        (500, 33, false),
    ];
    for (known, asked, expected) in rows {
        assert_eq!(is_sample(known, asked), expected, "{known} {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_name_limits_and_similar_models() {
    let limit = Some(Tokens(100_000));
    for (class, expected) in rows! {
        (Class::Overflow { limit }, "the provider's limit is 100000 tokens"),
        (Class::UnknownModel, "did you mean `anthropic/claude-opus-4-"),
    } {
        let provider = Provider::new(Dialect::Anthropic).by(move |_, _| Some(class));
        let remote = remote(ANTHROPIC, &provider);
        let asked = request(&remote, 1, CacheWarm::Leader);
        let error = remote.complete(asked).await.unwrap_err();
        assert_eq!((error.class, &*error.model), (class, ANTHROPIC));
        assert!(error.reason.contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_count_is_requested_once() {
    let (provider, remote) = anthropic();
    let asked = request(&remote, 1, CacheWarm::Leader);
    let counted = remote.count(asked.clone()).await.unwrap();
    assert!(counted > Some(Tokens(1_000)));
    assert_eq!(remote.count(asked.clone()).await.unwrap(), counted);
    let [Sent { mode, .. }] = provider.sent()[..] else {
        panic!("one request");
    };
    assert_eq!(mode, Mode::Count);
    assert_eq!(remote.calibrations.get(ANTHROPIC).samples(), 1);
    let other = Request {
        task: "something else".into(),
        ..asked
    };
    remote.count(other).await.unwrap();
    assert_eq!(provider.sent().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_missing_count_endpoint_gives_none_and_other_failures_are_errors() {
    let chat = Provider::new(Dialect::OpenAiChat);
    let remote_chat = remote(OPENAI, &chat);
    let asked = request(&remote_chat, 1, CacheWarm::Leader);
    assert_eq!(remote_chat.count(asked).await.unwrap(), None);
    assert!(chat.sent().is_empty());
    for (class, is_none) in [
        (Class::UnknownModel, true),
        (Class::BadRequest, true),
        (Class::Unauthorised, false),
        (Class::Transport, false),
    ] {
        let provider = Provider::new(Dialect::Anthropic).by(move |_, _| Some(class));
        let remote = remote(ANTHROPIC, &provider);
        let asked = request(&remote, 1, CacheWarm::Leader);
        let counted = remote.count(asked).await;
        assert_eq!(counted.is_ok(), is_none, "{class:?}");
        assert_eq!(counted.unwrap_or_default(), None);
    }
}
