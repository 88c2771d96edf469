//! Tests of every fault of a provider or its network: its class, how often the request is retried,
//! and that it ends in time.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use unisono_context::Tokens;
use unisono_fake_provider::{
    Act, Answer, At, Dialect as Fake, Ending, Endless, FakeProvider, Framing, Refusal, RetryAfter,
    Script, Stage,
};
use unisono_model::client::Client;
use unisono_model::dialect::{Dialect, Mode};
use unisono_model::language::{Class, Error};

use crate::setup::{DIALECTS, call, client, ms, reply, settings, soon};

/// The expected result of a fault in every request: the class, and the number of requests.
struct Case {
    name: &'static str,
    act: Act,
    mode: Mode,
    classes: Vec<Class>,
    requests: usize,
}

const UNAVAILABLE: Class = Class::Unavailable {
    retry_after_ms: None,
};
const LIMITED: Class = Class::RateLimited {
    retry_after_ms: None,
};
/// The number of requests if all attempts are used.
const ALL: usize = 3;

fn case(name: &'static str, act: Act, class: Class, requests: usize) -> Case {
    Case {
        name,
        act,
        mode: Mode::Stream,
        classes: vec![class],
        requests,
    }
}

fn answer() -> Answer {
    Answer::pieces(["One ", "two ", "three."])
}

fn ends(at: At, ending: Ending) -> Act {
    Act::answer(answer()).end_at(at, ending)
}

fn refusals(fake: Fake) -> Vec<Case> {
    let limited = || Act::refuse(Refusal::RateLimited { seconds: None });
    let asked = |ms| Class::RateLimited {
        retry_after_ms: Some(ms),
    };
    let overflow = Refusal::Overflow {
        limit: 1_000,
        actual: 2_000,
    };
    // Some providers name the limit.
    let limits = vec![
        Class::Overflow {
            limit: Some(Tokens(1_000)),
        },
        Class::Overflow { limit: None },
    ];
    Vec::from(rows! {
        case("429", limited(), LIMITED, ALL),
        case(
            "429 with a short wait",
            limited().retry_after(RetryAfter::Milliseconds(30)),
            asked(30),
            ALL,
        ),
        case(
            "429 with a long wait",
            limited().retry_after(RetryAfter::Seconds(3_600)),
            asked(3_600_000),
            1,
        ),
        case("an empty account", Act::refuse(Refusal::OutOfQuota), Class::OutOfQuota, 1),
        case("500", Act::refuse(Refusal::Internal), UNAVAILABLE, ALL),
        case("503 or 529", Act::refuse(Refusal::Overloaded), UNAVAILABLE, ALL),
        case(
            "500 with a veto",
            Act::refuse(Refusal::Internal).header("x-should-retry", "false"),
            UNAVAILABLE,
            1,
        ),
        case("502 of a proxy", Act::html(502), UNAVAILABLE, ALL),
        case("408", Act::html(408), UNAVAILABLE, ALL),
        case("409", Act::html(409), UNAVAILABLE, ALL),
        case("a wrong key", Act::refuse(Refusal::Unauthorised), Class::Unauthorised, 1),
        case("a key without rights", Act::refuse(Refusal::Forbidden), Class::Unauthorised, 1),
        case(
            "an unknown model",
            Act::refuse(Refusal::UnknownModel("fake-model".into())),
            Class::UnknownModel,
            1,
        ),
        case(
            "a bad request",
            Act::refuse(Refusal::BadRequest("no such field".into())),
            Class::BadRequest,
            1,
        ),
        Case { classes: limits, ..case("an overflow", Act::refuse(overflow), Class::Internal, 1) },
        case("200 of a proxy", Act::html(200), Class::BadReply, 1),
        Case {
            mode: Mode::Whole,
            ..case(
                "200 of a proxy for a document",
                Act::html(200),
                Class::BadReply,
                1,
            )
        },
        Case {
            classes: vec![UNAVAILABLE, Class::BadReply],
            ..case(
                "200 with an error",
                Act::json(200, Refusal::Overloaded.body(fake)),
                UNAVAILABLE,
                ALL,
            )
        },
        case("200 with other JSON", Act::json(200, "{\"a\":1}"), Class::BadReply, 1),
        case("200 with no JSON", Act::json(200, "{\"a\":"), Class::BadReply, 1),
        case(
            "a redirection",
            Act::html(307).header("location", "/elsewhere?key=secret"),
            Class::BadRequest,
            1,
        ),
    })
}

fn streams() -> Vec<Case> {
    let stream = |framing| Act::answer(answer()).framing(framing);
    let broken = |case: Case| Case {
        classes: vec![Class::Transport, Class::IncompleteStream],
        ..case
    };
    Vec::from(rows! {
        case(
            "an error as the first event",
            Act::answer(answer()).fail_after(0, Refusal::Overloaded),
            UNAVAILABLE,
            ALL,
        ),
        case(
            "an error in mid-stream",
            Act::answer(answer()).fail_after(2, Refusal::Overloaded),
            UNAVAILABLE,
            ALL,
        ),
        case(
            "no terminal marker",
            Act::answer(answer()).unterminated(),
            Class::IncompleteStream,
            ALL,
        ),
        case("an empty stream", ends(At::Body(0), Ending::Finish), Class::IncompleteStream, ALL),
        case("a length too small", stream(Framing::WrongLength(-5)), Class::IncompleteStream, ALL),
        case(
            "cut, its end marked by that of the connection",
            stream(Framing::Close).end_at(At::Event(2), Ending::Close),
            Class::IncompleteStream,
            ALL,
        ),
        broken(case("closed in mid-stream", ends(At::Event(2), Ending::Close), LIMITED, ALL)),
        broken(case("reset in mid-stream", ends(At::Event(2), Ending::Reset), LIMITED, ALL)),
        broken(case("closed after the headers", ends(At::Body(0), Ending::Close), LIMITED, ALL)),
        broken(case("reset after the headers", ends(At::Body(0), Ending::Reset), LIMITED, ALL)),
        case("closed in the headers", ends(At::InHead(20), Ending::Close), Class::Transport, ALL),
        case("reset in the headers", ends(At::InHead(20), Ending::Reset), Class::Transport, ALL),
        case("closed before the headers", ends(At::Head, Ending::Close), Class::Transport, ALL),
        case("reset before the headers", ends(At::Head, Ending::Reset), Class::Transport, ALL),
        Case {
            mode: Mode::Whole,
            ..case(
                "a document's length too large",
                stream(Framing::WrongLength(5)),
                Class::Transport,
                ALL,
            )
        },
        Case {
            mode: Mode::Whole,
            ..case(
                "a document's length too small",
                stream(Framing::WrongLength(-5)),
                Class::BadReply,
                1,
            )
        },
        Case {
            mode: Mode::Whole,
            ..case(
                "a document cut short",
                ends(At::Body(9), Ending::Reset),
                Class::Transport,
                ALL,
            )
        },
        case(
            "not UTF-8",
            Act::document(200, "text/event-stream", b"data: \xff\xfe\n\n".as_slice()),
            Class::BadReply,
            1,
        ),
    })
}

fn large() -> Vec<Case> {
    let endless = |form| Act::endless(100_000_000, form);
    Vec::from(rows! {
        case("100 MB of text", endless(Endless::Text), Class::TooLarge, 1),
        case("a line of 100 MB", endless(Endless::Line), Class::TooLarge, 1),
        Case {
            mode: Mode::Whole,
            ..case(
                "a document of 100 MB",
                endless(Endless::Text),
                Class::TooLarge,
                1,
            )
        },
    })
}

fn silences() -> Vec<Case> {
    use unisono_model::language::Stage::{FirstByte, Idle};
    vec![
        case("silence", Act::silence(), Class::Timeout(FirstByte), ALL),
        case(
            "silence in the headers",
            ends(At::InHead(20), Ending::Silence),
            Class::Timeout(FirstByte),
            ALL,
        ),
        case(
            "silence after the headers",
            ends(At::Body(0), Ending::Silence),
            Class::Timeout(FirstByte),
            ALL,
        ),
        case(
            "silence in mid-stream",
            ends(At::Event(1), Ending::Silence),
            Class::Timeout(Idle),
            ALL,
        ),
        case(
            "silence within an event",
            ends(At::Body(5), Ending::Silence),
            Class::Timeout(Idle),
            ALL,
        ),
        Case {
            mode: Mode::Whole,
            ..case(
                "silence within a document",
                ends(At::Body(5), Ending::Silence),
                Class::Timeout(Idle),
                ALL,
            )
        },
    ]
}

/// Runs every case in every dialect and checks the error, the requests and the time.
async fn meet(cases: impl Fn(Fake) -> Vec<Case>, patience: Option<Duration>) {
    let mut dialects = JoinSet::new();
    for (dialect, fake) in DIALECTS {
        let cases = cases(fake);
        dialects.spawn(async move {
            for case in cases {
                meet_one(case, dialect, patience).await;
            }
        });
    }
    dialects.join_all().await;
}

async fn meet_one(case: Case, dialect: Dialect, patience: Option<Duration>) {
    let provider = FakeProvider::play(Script::always(case.act)).await;
    let mut settings = settings(dialect, &provider.url());
    if let Some(patience) = patience {
        settings.timeouts.first_byte = patience;
        settings.timeouts.idle = patience;
    }
    let client = Client::new(settings).unwrap();
    let start = Instant::now();
    let outcome = soon(client.reply(call(dialect, case.mode))).await;
    let what = format!("{}, {dialect:?}", case.name);
    let Err(error) = outcome else {
        panic!("{what}: a reply");
    };
    assert!(case.classes.contains(&error.class), "{what}: {error:?}");
    assert_eq!(&*error.model, "mine/fake-model");
    let expected = match error.class {
        Class::BadReply => 1,
        _ => case.requests,
    };
    assert_eq!(provider.request_count(), expected, "{what}: {error}");
    if let Some(patience) = patience {
        let least = patience * u32::try_from(expected).unwrap();
        assert!(start.elapsed() >= least, "{what}: {:?}", start.elapsed());
    }
    let attempts = format!("gave up after {ALL} attempts");
    assert_eq!(
        error.reason.contains(&attempts),
        expected == ALL,
        "{what}: {error}"
    );
}

#[tokio::test]
async fn refusals_and_invalid_replies() {
    meet(refusals, None).await;
}

#[tokio::test]
async fn interrupted_streams() {
    meet(|_| streams(), None).await;
}

#[tokio::test]
async fn oversized_replies() {
    meet(|_| large(), None).await;
}

#[tokio::test]
async fn silence_at_every_stage() {
    meet(|_| silences(), Some(ms(150))).await;
}

#[tokio::test]
async fn the_next_attempt_succeeds_after_a_transient_fault() {
    for (dialect, fake) in DIALECTS {
        for case in refusals(fake).into_iter().chain(streams()) {
            if case.requests != ALL || case.mode != Mode::Stream || case.name.contains("200") {
                continue;
            }
            let script = Script::sequence([case.act, Act::answer(answer())]);
            let provider = FakeProvider::play(script).await;
            let reply = reply(&client(dialect, &provider.url())).await;
            let text = reply.map(|reply| reply.text.to_string());
            assert_eq!(
                text,
                Ok("One two three.".to_owned()),
                "{}, {dialect:?}",
                case.name
            );
            let requests = provider.requests();
            assert_eq!(requests.len(), 2, "{}", case.name);
            assert_eq!(requests[0].body, requests[1].body, "the same bytes again");
        }
    }
}

#[tokio::test]
async fn closed_connections() {
    for stage in [Stage::Accept, Stage::Headers] {
        let acts = [
            Act::hang_up(stage),
            Act::hang_up(stage),
            Act::answer(answer()),
        ];
        let provider = FakeProvider::play(Script::sequence(acts)).await;
        let outcome = reply(&client(Dialect::Anthropic, &provider.url())).await;
        assert!(outcome.is_ok(), "{stage:?}: {outcome:?}");
        assert_eq!(provider.connections(), 3, "{stage:?}");
    }
}

#[tokio::test]
async fn an_announced_length_over_the_cap_is_not_even_read() {
    let provider = FakeProvider::play(Act::answer(answer())).await;
    let mut settings = settings(Dialect::Anthropic, &provider.url());
    settings.caps.response = 50;
    let client = Client::new(settings).unwrap();
    let error = soon(client.reply(call(Dialect::Anthropic, Mode::Whole)))
        .await
        .unwrap_err();
    assert_eq!(error.class, Class::TooLarge);
    assert!(error.reason.contains("larger than 50 bytes"), "{error}");
}

#[tokio::test]
async fn connection_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = reply(&client(Dialect::Anthropic, &url)).await.unwrap_err();
    assert_eq!(error.class, Class::Transport);
    assert!(
        error.reason.contains(&format!("cannot connect to {url}")),
        "{error}"
    );
    for part in ["refused", "`providers.mine.base_url`", "`unisono doctor`"] {
        assert!(error.reason.contains(part), "{error}");
    }
}

#[tokio::test]
async fn unknown_host() {
    let mut settings = settings(Dialect::Anthropic, "http://nowhere.invalid");
    settings.retry.attempts = 1;
    let error = reply(&Client::new(settings).unwrap()).await.unwrap_err();
    assert_eq!(error.class, Class::Transport);
    assert!(
        error
            .reason
            .contains("cannot connect to http://nowhere.invalid"),
        "{error}"
    );
}

#[tokio::test]
async fn a_retry_date_is_respected() {
    let later = RetryAfter::DateIn(ms(10));
    let limited = Act::refuse(Refusal::RateLimited { seconds: None }).retry_after(later);
    let script = Script::sequence([limited, Act::answer(answer())]);
    let provider = FakeProvider::play(script).await;
    let start = Instant::now();
    assert!(
        reply(&client(Dialect::Anthropic, &provider.url()))
            .await
            .is_ok()
    );
    // A date has whole seconds, so the wait is between 0 and 2 s, but not zero.
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(provider.request_count(), 2);
}

async fn error_of(act: Act) -> Error {
    let provider = FakeProvider::play(Script::always(act)).await;
    reply(&client(Dialect::Anthropic, &provider.url()))
        .await
        .unwrap_err()
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let table = [
        (
            Act::refuse(Refusal::Unauthorised),
            "provider `mine` refuses the key from the variable TEST_KEY",
        ),
        (Act::html(200), "looks like a proxy's page"),
        (
            Act::json(200, "\u{1f}").header("content-encoding", "gzip"),
            "the answer is compressed",
        ),
        (
            Act::json(503, "\u{1f}").header("content-encoding", "gzip"),
            "HTTP 503 without a reason",
        ),
        (
            Act::document(
                200,
                "text/plain",
                Refusal::Unauthorised.body(Fake::Anthropic),
            ),
            "provider `mine` refuses the key",
        ),
        (
            Act::html(308).header("location", "https://other.example/v1/messages?secret"),
            "redirects to https://other.example/v1/messages (status 308)",
        ),
        (
            Act::refuse(Refusal::Overloaded).retry_after(RetryAfter::Seconds(900)),
            "asks to wait 900.0 s, longer than the 3.0 s allowed",
        ),
        (
            Act::refuse(Refusal::Internal).header("x-should-retry", "false"),
            "the provider asks not to retry",
        ),
    ];
    for (act, expected) in table {
        let error = error_of(act).await;
        assert!(error.reason.contains(expected), "{error}");
        assert!(!error.reason.contains("secret"), "{error}");
    }
}
