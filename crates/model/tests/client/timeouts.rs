//! Tests of the timeouts of each stage and of the whole call, and of calls that are cancelled.

use std::time::{Duration, Instant};

use unisono_fake_provider::{Act, At, Ending, FakeProvider, Gate, Refusal, Script};
use unisono_model::client::Client;
use unisono_model::dialect::{Dialect, Mode};
use unisono_model::language::{Class, Stage};

use crate::setup::{Heard, call, client, ms, reply, settings, soon};

const DIALECT: Dialect = Dialect::Anthropic;

#[tokio::test]
async fn the_total_timeout_ends_a_call_without_a_retry() {
    let provider = FakeProvider::play(Act::silence()).await;
    let mut settings = settings(DIALECT, &provider.url());
    settings.timeouts.total = ms(200);
    let start = Instant::now();
    let error = reply(&Client::new(settings).unwrap()).await.unwrap_err();
    assert_eq!(error.class, Class::Timeout(Stage::Total));
    assert!(start.elapsed() >= ms(200), "{:?}", start.elapsed());
    assert_eq!(provider.request_count(), 1);
    assert!(
        error
            .reason
            .contains("the reply was not complete within 0.2 s, in attempt 1"),
        "{error}"
    );
    provider.wait_for_abandoned(1).await;
}

#[tokio::test]
async fn a_timeout_names_the_earlier_failure() {
    let script = Script::sequence([Act::refuse(Refusal::Internal)]).then(Act::silence());
    let provider = FakeProvider::play(script).await;
    let mut settings = settings(DIALECT, &provider.url());
    settings.timeouts.total = ms(300);
    let error = reply(&Client::new(settings).unwrap()).await.unwrap_err();
    assert_eq!(error.class, Class::Timeout(Stage::Total));
    assert!(
        error.reason.contains("in attempt 2; before that: "),
        "{error}"
    );
}

#[tokio::test]
async fn no_wait_exceeds_the_total_timeout() {
    let provider = FakeProvider::play(Act::refuse(Refusal::Internal)).await;
    let mut settings = settings(DIALECT, &provider.url());
    settings.retry.base = Duration::from_secs(3_600);
    settings.retry.cap = Duration::from_secs(3_600);
    settings.timeouts.total = ms(500);
    let start = Instant::now();
    let error = reply(&Client::new(settings).unwrap()).await.unwrap_err();
    // A random wait of less than half a second out of an hour: once in seven thousand runs.
    assert!(
        matches!(error.class, Class::Unavailable { .. }),
        "{error:?}"
    );
    assert!(error.reason.contains("no time is left"), "{error}");
    assert!(start.elapsed() < ms(450), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_flowing_stream_is_not_idle() {
    // Each event arrives within the idle time, all of them take much longer.
    let gates: Vec<Gate> = (0..4).map(|_| Gate::new()).collect();
    let mut act = Act::answer(unisono_fake_provider::Answer::pieces(["a", "b", "c"]));
    for (event, gate) in gates.iter().enumerate() {
        act = act.hold_at(At::Event(event + 1), gate);
    }
    let provider = FakeProvider::play(act).await;
    let mut settings = settings(DIALECT, &provider.url());
    settings.timeouts.idle = ms(1_000);
    let client = Client::new(settings).unwrap();
    let start = Instant::now();
    let reply = tokio::spawn(async move { client.reply(call(DIALECT, Mode::Stream)).await });
    for gate in gates {
        gate.reached(1).await;
        tokio::time::sleep(ms(300)).await;
        gate.open();
    }
    let outcome = soon(reply).await.unwrap();
    assert!(outcome.is_ok(), "{outcome:?}");
    assert!(start.elapsed() > ms(1_000), "{:?}", start.elapsed());
}

#[tokio::test]
async fn cancelling_a_call_drops_its_connection_at_every_stage() {
    for at in [At::Head, At::Body(0), At::Event(1)] {
        let gate = Gate::new();
        let provider = FakeProvider::play(Act::answer("Hello.").hold_at(at, &gate)).await;
        let client = client(DIALECT, &provider.url());
        let call = tokio::spawn(async move { client.reply(call(DIALECT, Mode::Stream)).await });
        gate.reached(1).await;
        call.abort();
        provider.wait_for_abandoned(1).await;
        assert!(soon(call).await.unwrap_err().is_cancelled(), "{at:?}");
        provider.wait_for_quiet().await;
    }
}

#[tokio::test]
async fn a_failed_call_leaves_no_connection_open() {
    let provider = FakeProvider::play(Act::silence()).await;
    let mut settings = settings(DIALECT, &provider.url());
    settings.timeouts.first_byte = ms(100);
    let client = Client::new(settings).unwrap();
    assert!(reply(&client).await.is_err());
    provider.wait_for_abandoned(3).await;
    provider.wait_for_quiet().await;
}

#[tokio::test]
async fn the_text_starts_again_with_the_next_attempt() {
    let answer = || unisono_fake_provider::Answer::pieces(["One ", "two."]);
    let cut = Act::answer(answer()).end_at(At::LastEvent, Ending::Finish);
    let provider = FakeProvider::play(Script::sequence([cut, Act::answer(answer())])).await;
    let heard = Heard::default();
    let mut call = call(DIALECT, Mode::Stream);
    call.listener = heard.listener();
    let client = client(DIALECT, &provider.url());
    assert!(soon(client.reply(call)).await.is_ok());
    assert_eq!(heard.pieces(), ["One ", "two.", "One ", "two."]);
}

#[tokio::test]
async fn an_endless_error_page_is_read_for_a_limited_time() {
    let act = Act::html(502).end_at(At::Body(30), Ending::Silence);
    let provider = FakeProvider::play(act).await;
    let mut settings = settings(DIALECT, &provider.url());
    settings.timeouts.idle = ms(100);
    let error = reply(&Client::new(settings).unwrap()).await.unwrap_err();
    assert!(
        matches!(error.class, Class::Unavailable { .. }),
        "{error:?}"
    );
    assert_eq!(provider.request_count(), 3);
}

/// A listener whose backlog is full: the next connection is never accepted.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connect_timeout() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(Ok(connection)) =
        tokio::time::timeout(ms(200), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(connection);
        assert!(waiting.len() < 100, "the queue never fills");
    }
    let mut settings = settings(DIALECT, &format!("http://{address}"));
    settings.timeouts.connect = ms(100);
    settings.retry.attempts = 2;
    let start = Instant::now();
    let error = reply(&Client::new(settings).unwrap()).await.unwrap_err();
    assert_eq!(error.class, Class::Timeout(Stage::Connect), "{error}");
    assert!(
        error
            .reason
            .contains(&format!("no connection to http://{address} within 0.1 s"))
    );
    assert!(
        start.elapsed() >= ms(200),
        "two attempts: {:?}",
        start.elapsed()
    );
}
