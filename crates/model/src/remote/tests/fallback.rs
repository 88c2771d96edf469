//! Tests of chains of remote models over HTTP: what a fallback receives, and which models are
//! skipped.

use unisono_fake_provider::{Act, Answer, At, Ending, FakeProvider, Recorded, Refusal, Script};

use super::*;
use crate::client::Client;
use crate::language::Fallback;
use crate::provider::{Kind, Settings};

const FIRST: &str = "openai/gpt-5-mini";
/// The usage in addition to the reply's, and the fallback that caused it.
type Payment = (Usage, Option<Arc<str>>);

const SECOND: &str = "anthropic/claude-haiku-4-5";

fn model(reference: &str, window: Option<u64>, provider: &FakeProvider) -> Arc<Remote<Client>> {
    let (dialect, kind) = match reference.starts_with("anthropic") {
        true => (Dialect::Anthropic, Kind::Anthropic),
        false => (Dialect::OpenAiChat, Kind::OpenAi),
    };
    let mut settings = Settings::new("mine", kind, Some(&provider.url()), None).unwrap();
    settings.dialect = dialect;
    settings.retry.attempts = 1;
    let catalogue = Arc::new(Catalogue::built_in().unwrap());
    let entry = catalogue.get(None, reference).unwrap();
    let entry = Entry {
        window: window.map_or(entry.window, Tokens),
        ..entry
    };
    Arc::new(Remote::new(
        entry,
        Client::new(settings).unwrap(),
        catalogue,
    ))
}

/// A request for the longest output of the first model.
fn asked(chain: &Fallback) -> Request {
    let request = Request {
        group: Group::Shared,
        snapshot: Some(snapshot(6_000)),
        cache_warm: CacheWarm::Off,
        max_output: Tokens(128_000),
        ..fixture::request()
    };
    let prefix = chain.render(&request.shared());
    Request { prefix, ..request }
}

fn max_tokens(request: &Recorded) -> u64 {
    request.json()["max_tokens"].as_u64().unwrap()
}

async fn provider(act: impl Into<Act>) -> FakeProvider {
    FakeProvider::play(Script::always(act)).await
}

#[tokio::test]
async fn a_fallback_gets_a_maximum_output_within_its_limits() {
    let away = provider(Act::refuse(Refusal::Unauthorised)).await;
    let answering = provider(Answer::text("Done.")).await;
    // With its own window, and with one that leaves less room than its longest output.
    for (window, range) in [(None, 64_000..=64_000), (Some(20_000), 10_000..=15_000)] {
        let chain = Fallback::new(FIRST, model(FIRST, None, &away))
            .or(SECOND, model(SECOND, window, &answering));
        let reply = chain.complete(asked(&chain)).await.unwrap();
        assert_eq!(reply.fallback.as_ref().map(|by| &*by.model), Some(SECOND));
        let sent = max_tokens(answering.requests().last().unwrap());
        assert!(range.contains(&sent), "{sent} of {range:?}");
    }
}

#[tokio::test]
async fn a_window_reported_by_a_fallbacks_provider_is_respected() {
    let away = provider(Act::refuse(Refusal::Unauthorised)).await;
    let refused = Act::refuse(Refusal::Overflow {
        limit: 20_000,
        actual: 70_000,
    });
    let script = Script::sequence([refused]).then(Answer::text("Done."));
    let answering = FakeProvider::play(script).await;
    let chain =
        Fallback::new(FIRST, model(FIRST, None, &away)).or(SECOND, model(SECOND, None, &answering));
    chain.complete(asked(&chain)).await.unwrap_err();
    let reply = chain.complete(asked(&chain)).await.unwrap();
    assert_eq!(reply.fallback.as_ref().map(|by| &*by.model), Some(SECOND));
    let sent: Vec<u64> = answering.requests().iter().map(max_tokens).collect();
    assert_eq!(sent[0], 64_000);
    assert!((10_000..=15_000).contains(&sent[1]), "{sent:?}");
}

#[tokio::test]
async fn a_fallback_with_a_too_small_window_is_skipped() {
    let away = provider(Act::refuse(Refusal::Unauthorised)).await;
    let small = provider(Answer::text("It was cut.")).await;
    let answering = provider(Answer::text("Done.")).await;
    let chain = Fallback::new(FIRST, model(FIRST, None, &away))
        .or("test/small", model(SECOND, Some(4_000), &small));
    let error = chain.complete(asked(&chain)).await.unwrap_err();
    assert_eq!(
        error.class,
        Class::Unauthorised,
        "that is what to put right"
    );
    let expected = "skipped: its window is 4000 tokens, the request has about ";
    assert!(error.reason.contains(expected), "{error}");

    let chain = chain.or(SECOND, model(SECOND, None, &answering));
    let reply = chain.complete(asked(&chain)).await.unwrap();
    assert_eq!(reply.fallback.as_ref().map(|by| &*by.model), Some(SECOND));
    assert_eq!(small.request_count(), 0);
}

#[tokio::test]
async fn usage_of_an_interrupted_fallback_is_reported() {
    let broken = Act::answer(Answer::pieces(["One ", "two"])).end_at(At::Event(3), Ending::Reset);
    let (first, second) = (provider(broken.clone()).await, provider(broken).await);
    let answering = provider(Answer::text("Done.")).await;
    let chain = Fallback::new(FIRST, model(FIRST, None, &first))
        .or(SECOND, model(SECOND, None, &second))
        .or("test/third", model(SECOND, None, &answering));
    let received: Arc<Mutex<Vec<Payment>>> = Arc::default();
    let sink = received.clone();
    let request = asked(&chain);
    let listener = request.listener.clone();
    let request = Request {
        listener: listener.with_usage(move |usage, by| sink.lock().unwrap().push((usage, by))),
        ..request
    };
    chain.complete(request).await.unwrap();
    let received = received.lock().unwrap();
    let [(first, None), (second, Some(by))] = &received[..] else {
        panic!("both that broke off: {received:?}");
    };
    assert_eq!(&**by, SECOND);
    // OpenAI reports the usage at the end of a reply; until then it is estimated.
    assert!((5_000..9_000).contains(&first.input.0), "{first:?}");
    for used in [first, second] {
        assert!(used.input.0 > 0 && used.output.0 >= 2, "{used:?}");
        assert!(used.cost.is_some_and(|cost| cost > Cost::ZERO), "{used:?}");
    }
}
