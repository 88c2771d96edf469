//! Tests of remote models over HTTP with a provider on loopback, which caches a prefix only once a
//! reply with it has begun: the usage of a fan-out, in every dialect.

use unisono_fake_provider::{
    Act, Answer, At, CacheSettings, CacheSim, Dialect as Fake, Ending, FakeProvider, Recorded,
    Script,
};

use super::*;
use crate::client::Client;
use crate::provider::{Kind, Settings};

/// The longest time that a fan-out may take.
const SOON: Duration = Duration::from_secs(30);

/// A model of each dialect whose provider caches.
const MODELS: [(&str, Dialect, Kind); 4] = rows! {
    ("openai/gpt-4o", Dialect::OpenAiChat, Kind::OpenAi),
    ("openai/gpt-5", Dialect::OpenAiResponses, Kind::OpenAi),
    ("anthropic/claude-opus-4-1", Dialect::Anthropic, Kind::Anthropic),
    ("gemini/gemini-2.5-flash", Dialect::Gemini, Kind::Gemini),
};

pub(super) fn over_http(
    reference: &str,
    dialect: Dialect,
    kind: Kind,
    url: &str,
) -> Arc<Remote<Client>> {
    let mut settings = Settings::new("mine", kind, Some(url), None).unwrap();
    settings.dialect = dialect;
    of_settings(reference, settings)
}

fn of_settings(reference: &str, settings: Settings) -> Arc<Remote<Client>> {
    let catalogue = Arc::new(Catalogue::built_in().unwrap());
    let entry = catalogue.get(None, reference).unwrap();
    let client = Client::new(settings).unwrap();
    Arc::new(Remote::new(entry, client, catalogue))
}

/// The usage of this many concurrent requests that share a prefix.
async fn fan_out(remote: &Arc<Remote<Client>>, asked: &Request, count: u32) -> Vec<Usage> {
    let mut runs = JoinSet::new();
    for n in 0..count {
        let remote = remote.clone();
        let asked = Request {
            task: format!("task {n}").into(),
            ..asked.clone()
        };
        runs.spawn(async move { remote.complete(asked).await.unwrap().usage });
    }
    let outcome = tokio::time::timeout(SOON, runs.join_all()).await;
    outcome.expect("the fan-out is over soon")
}

#[tokio::test]
async fn a_fan_out_pays_for_its_prefix_once() {
    for (reference, dialect, kind) in MODELS {
        for (mode, count) in [
            (CacheWarm::Leader, 16),
            (CacheWarm::Leader, 64),
            (CacheWarm::Prewarm, 16),
        ] {
            // Each key has its own cache, as if another machine served it.
            let cache = CacheSim::new(CacheSettings {
                openai_keys: true,
                ..CacheSettings::default()
            });
            let provider = FakeProvider::builder()
                .script(Script::always(Act::from(Answer::text("Done."))))
                .cache(&cache)
                .start()
                .await;
            let remote = over_http(reference, dialect, kind, &provider.url());
            let asked = on(&remote, snapshot(10_000), count, mode);
            let used = fan_out(&remote, &asked, count).await;
            check(&format!("{reference}, {count}, {mode:?}"), &asked, &used);
            let requests = provider.requests();
            let sent = count as usize + usize::from(mode == CacheWarm::Prewarm);
            assert_eq!(requests.len(), sent);
            for request in &requests {
                assert!(
                    request.body.starts_with(asked.prefix.bytes()),
                    "{reference}"
                );
                assert!(is_of(request, dialect), "{reference}: {}", request.path);
            }
        }
    }
}

/// The followers read nearly all of the prefix from the cache, and were expected to.
fn check(case: &str, asked: &Request, used: &[Usage]) {
    let prefix = asked.prefix.bytes().len() as u64 / 4;
    let mut read: Vec<u64> = used.iter().map(|used| used.cache_read.0).collect();
    read.sort_unstable();
    let followers = read.len() as u64 - 1;
    let share = read[1..].iter().sum::<u64>() as f64 / (prefix * followers) as f64;
    assert!(share >= 0.95, "{case}: {share} of the prefix was read");
    for used in used {
        assert!(!used.missed(), "{case}: {used:?}");
        assert_eq!(
            used.cache_expected == Tokens::ZERO,
            used.cache_read == Tokens::ZERO,
            "{case}"
        );
        assert!(used.cost.is_some(), "{case}");
    }
}

fn is_of(request: &Recorded, dialect: Dialect) -> bool {
    let spoken = match dialect {
        Dialect::OpenAiChat => Fake::OpenAiChat,
        Dialect::OpenAiResponses => Fake::OpenAiResponses,
        Dialect::Anthropic => Fake::Anthropic,
        Dialect::Gemini => Fake::Gemini,
    };
    request
        .endpoint()
        .is_some_and(|endpoint| endpoint.dialect == spoken)
}

#[tokio::test]
async fn a_silent_prewarm_is_reported_and_delays_no_request() {
    let silent = Act::answer(Answer::pieces(["O", "K"])).end_at(At::Event(3), Ending::Silence);
    let script = Script::sequence([silent]).then(Answer::text("Done."));
    let provider = FakeProvider::play(script).await;
    let mut settings = Settings::new("mine", Kind::Anthropic, Some(&provider.url()), None).unwrap();
    settings.timeouts.idle = Duration::from_millis(200);
    settings.retry.attempts = 1;
    let remote = of_settings("anthropic/claude-opus-4-1", settings);
    let paid = Paid::default();
    let asked = on(&remote, snapshot(10_000), 4, CacheWarm::Prewarm);
    let used = fan_out(&remote, &paid.of(asked), 4).await;
    assert_eq!((used.len(), provider.request_count()), (4, 5));
    let [lost] = paid.usages()[..] else {
        panic!("one request broke off: {:?}", paid.usages());
    };
    assert!(lost.input > Tokens::ZERO && lost.cost.is_some(), "{lost:?}");
}

#[tokio::test]
async fn replies_with_reasoning_opened_by_the_template_are_parsed() {
    let user = "[models.\"openai-compatible/qwq\"]\nthink_opened = true";
    let catalogue = Catalogue::built_in().unwrap();
    let catalogue = Arc::new(catalogue.with_file("models.toml", user).unwrap());
    let thinking = Answer::pieces(["Which one?</th", "ink>\n\nBoth."]);
    for (name, expected) in [("qwq", "Both."), ("other", "Which one?</think>\n\nBoth.")] {
        let provider = FakeProvider::play(Script::always(thinking.clone())).await;
        let url = provider.url();
        let mut settings = Settings::new("mine", Kind::OpenAi, Some(&url), None).unwrap();
        settings.dialect = Dialect::OpenAiChat;
        let client = Client::new(settings).unwrap();
        let entry = catalogue.get(Some("openai-compatible"), name).unwrap();
        let remote = Remote::new(entry, client, catalogue.clone());
        let request = fixture::request();
        let prefix = remote.render(&request.shared());
        let reply = remote
            .complete(Request { prefix, ..request })
            .await
            .unwrap();
        assert_eq!(&*reply.text, expected, "{name}");
    }
}

#[tokio::test]
async fn a_repeated_reply_is_streamed_without_its_label_again() {
    let labelled = Answer::pieces(["#2 ri", "sks: ", "One."]);
    let script = Script::sequence([
        Act::answer(labelled.clone()).unterminated(),
        Act::answer(labelled),
    ]);
    let provider = FakeProvider::play(script).await;
    let mut settings = Settings::new("mine", Kind::OpenAi, Some(&provider.url()), None).unwrap();
    settings.retry.base = Duration::from_millis(1);
    let remote = of_settings("openai/gpt-4o", settings);
    let received = Arc::new(Mutex::new(String::new()));
    let sink = received.clone();
    let chat = Chat::new(1).say(Role::User, "How many?");
    let request = Request {
        group: Group::Shared,
        snapshot: Some(Arc::new(chat.freeze())),
        listener: Listener::new(move |piece| sink.lock().unwrap().push_str(piece)),
        ..fixture::request()
    };
    let prefix = remote.render(&request.shared());
    let reply = remote.complete(Request { prefix, ..request }).await;
    assert_eq!(&*reply.unwrap().text, "One.");
    assert_eq!(*received.lock().unwrap(), "One.One.");
}
