//! Everything that goes wrong at a provider.

use std::time::Duration;

use unisono_fake_provider::{
    Act, Answer, At, Dialect, Ending, Endless, ErrorEvent, FakeProvider, RateLimits, Refusal,
    RetryAfter, Script, Stage, Style, Window, render_events, render_stream,
};

use crate::client::{Client, End, Response};

async fn response(dialect: Dialect, stream: bool, act: Act) -> Response {
    let provider = FakeProvider::play(act).await;
    let mut client = Client::of(&provider).await;
    client.ask(dialect, stream).await;
    client.response().await
}

#[tokio::test]
async fn refusals_have_each_providers_status_and_words() {
    let overflow = Refusal::Overflow {
        limit: 200_000,
        actual: 205_012,
    };
    let cases = [
        (
            Dialect::OpenAiChat,
            400,
            "maximum context length is 200000 tokens",
        ),
        (Dialect::OpenAiResponses, 400, "exceeds the context window"),
        (
            Dialect::Anthropic,
            400,
            "prompt is too long: 205012 tokens > 200000 maximum",
        ),
        (
            Dialect::Gemini,
            400,
            "token count (205012) exceeds the maximum number of tokens allowed (200000)",
        ),
    ];
    for (dialect, status, words) in cases {
        let refused = response(dialect, true, Act::refuse(overflow.clone())).await;
        assert_eq!(refused.status, status, "{dialect:?}");
        assert_eq!(refused.header("content-type"), Some("application/json"));
        let error = &refused.json()["error"];
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(words), "{message}");
    }
    let statuses = |refusal: Refusal| Dialect::ALL.map(|dialect| refusal.status(dialect));
    assert_eq!(statuses(Refusal::Unauthorised), [401, 401, 401, 400]);
    assert_eq!(statuses(Refusal::Overloaded), [503, 503, 529, 503]);
    assert_eq!(statuses(Refusal::UnknownModel("m".into())), [404; 4]);
}

#[tokio::test]
async fn a_limit_says_when_to_come_back() {
    let limited = || Act::refuse(Refusal::RateLimited { seconds: Some(2) });
    let act = limited().retry_after(RetryAfter::Seconds(2));
    let refused = response(Dialect::Anthropic, true, act).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), Some("2"));

    let refused = response(Dialect::Gemini, true, limited()).await;
    assert_eq!(refused.header("retry-after"), None);
    assert_eq!(refused.json()["error"]["details"][0]["retryDelay"], "2s");

    let after = RetryAfter::DateIn(Duration::from_secs(30));
    let refused = response(Dialect::OpenAiChat, true, limited().retry_after(after)).await;
    let date = refused.header("retry-after").expect("a date");
    assert!(date.ends_with(" GMT"), "{date}");
}

#[tokio::test]
async fn headers_carry_ids_and_limits() {
    let window = Window {
        limit: 60,
        remaining: 0,
        reset: Duration::from_secs(1),
    };
    let limits = RateLimits {
        requests: Some(window),
        tokens: None,
    };
    let act = Act::answer("Hi.")
        .rate_limits(limits)
        .header("x-own", "yes");
    let openai = response(Dialect::OpenAiChat, false, act.clone()).await;
    assert_eq!(openai.header("x-request-id"), Some("req_0"));
    assert_eq!(openai.header("x-ratelimit-remaining-requests"), Some("0"));
    assert_eq!(openai.header("x-own"), Some("yes"));
    let anthropic = response(Dialect::Anthropic, false, act).await;
    assert_eq!(anthropic.header("request-id"), Some("req_0"));
    assert_eq!(
        anthropic.header("anthropic-ratelimit-requests-limit"),
        Some("60")
    );
}

#[tokio::test]
async fn what_is_not_json_or_not_an_answer_comes_as_it_is() {
    let proxy = response(Dialect::OpenAiChat, true, Act::html(502)).await;
    assert_eq!(
        (proxy.status, proxy.header("content-type")),
        (502, Some("text/html"))
    );
    assert!(proxy.text().starts_with("<html>"));
    let login = response(Dialect::Gemini, true, Act::html(200)).await;
    assert_eq!(
        (login.status, login.header("content-type")),
        (200, Some("text/html"))
    );
    let body = Refusal::Overloaded.body(Dialect::OpenAiChat);
    let error = response(Dialect::OpenAiChat, true, Act::json(200, body)).await;
    assert_eq!(error.status, 200);
    assert!(error.json()["error"]["message"].is_string());
}

#[tokio::test]
async fn an_error_event_ends_the_stream() {
    let ends = [
        (
            Dialect::OpenAiChat,
            "\"code\":\"server_is_overloaded\"}}\n\n",
        ),
        (
            Dialect::OpenAiResponses,
            "\"code\":\"server_is_overloaded\"}}\n\n",
        ),
        (
            Dialect::Anthropic,
            "\"message\":\"Overloaded\"},\"request_id\":\"req_fake\"}\n\n",
        ),
        (Dialect::Gemini, "\"status\":\"UNAVAILABLE\"}}\r\n\r\n"),
    ];
    for (dialect, end) in ends {
        let answer = Answer::pieces(["a", "b", "c"]);
        let events = render_events(dialect, &answer);
        let act = Act::answer(answer).fail_after(2, Refusal::Overloaded);
        let failed = response(dialect, true, act).await;
        let before = events[..2].concat();
        let (kept, error) = failed.body.split_at(before.len());
        assert_eq!(kept, before, "{dialect:?}");
        let error = String::from_utf8_lossy(error).into_owned();
        assert!(error.ends_with(end), "{error}");
        let data = error.lines().filter(|line| line.starts_with("data: "));
        assert_eq!(data.count(), 1, "one event: {error}");
    }
}

#[tokio::test]
async fn responses_tell_of_errors_in_three_forms() {
    let starts = [
        (
            ErrorEvent::Nested,
            "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"error\":{\"message\"",
        ),
        (
            ErrorEvent::Flat,
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_is_overloaded\"",
        ),
        (
            ErrorEvent::Failed,
            "event: response.failed\ndata: {\"type\":\"response.failed\"",
        ),
    ];
    for (form, start) in starts {
        let act = Act::answer("Hi.").fail_after_as(0, Refusal::Overloaded, form);
        let failed = response(Dialect::OpenAiResponses, true, act).await;
        assert!(failed.text().starts_with(start), "{}", failed.text());
    }
}

#[tokio::test]
async fn the_terminal_marker_can_be_missing() {
    for dialect in Dialect::ALL {
        let events = render_events(dialect, &Answer::text("Hi."));
        let (_, others) = events.split_last().expect("events");
        let ended = response(dialect, true, Act::answer("Hi.").unterminated()).await;
        assert_eq!(ended.body, others.concat(), "{dialect:?}");
    }
}

#[tokio::test]
async fn events_can_come_twice_and_in_another_style() {
    let events = render_events(Dialect::OpenAiChat, &Answer::text("Hi."));
    let doubled = response(Dialect::OpenAiChat, true, Act::answer("Hi.").double(1)).await;
    let expected = [&events[..2], &events[1..]].concat().concat();
    assert_eq!(doubled.body, expected);

    let style = Style {
        comments: true,
        empty_events: true,
        ..Style::PLAIN
    };
    let styled = response(Dialect::OpenAiChat, true, Act::answer("Hi.").style(style)).await;
    let lines = styled.text().lines();
    let data: Vec<&str> = lines.filter(|line| line.starts_with("data: ")).collect();
    let plain = render_stream(Dialect::OpenAiChat, &Answer::text("Hi."));
    let plain = String::from_utf8(plain).expect("text");
    let expected: Vec<&str> = plain.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(data, expected);
}

#[tokio::test]
async fn silence_lasts_until_the_client_leaves() {
    for (place, comes) in [(At::Head, false), (At::Body(0), true), (At::Event(1), true)] {
        let act = Act::answer("Hi.").end_at(place, Ending::Silence);
        let provider = FakeProvider::play(act).await;
        let mut client = Client::of(&provider).await;
        client.ask(Dialect::Anthropic, true).await;
        provider.wait_for(1).await;
        if comes {
            assert_eq!(client.head().await.status, 200);
        }
        assert_eq!(provider.abandoned(), 0);
        drop(client);
        provider.wait_for_abandoned(1).await;
        provider.wait_for_quiet().await;
    }
}

#[tokio::test]
async fn silence_ends_with_the_server() {
    let provider = FakeProvider::play(Act::silence()).await;
    let mut client = Client::of(&provider).await;
    client.ask(Dialect::Gemini, true).await;
    provider.wait_for(1).await;
    assert!(client.come().is_empty());
    drop(provider);
    let (bytes, _) = client.rest().await;
    assert!(bytes.is_empty());
}

#[tokio::test]
async fn it_can_hang_up_before_a_request_is_read() {
    for (stage, requests) in [(Stage::Accept, 0), (Stage::Headers, 1)] {
        let script = Script::sequence([Act::hang_up(stage), Act::answer("Hi.")]);
        let provider = FakeProvider::play(script).await;
        let mut client = Client::of(&provider).await;
        if stage == Stage::Headers {
            client
                .send("POST /v1/messages HTTP/1.1\r\ncontent-length: 1000\r\n\r\n{")
                .await;
        }
        let (bytes, _) = client.rest().await;
        assert!(bytes.is_empty(), "{stage:?}");
        assert_eq!(provider.request_count(), requests);
        assert!(provider.requests().iter().all(|request| !request.complete));

        let mut next = Client::of(&provider).await;
        next.ask(Dialect::Anthropic, true).await;
        assert_eq!(next.response().await.status, 200, "{stage:?}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_read_in_bounded_memory() {
    const BYTES: u64 = 8 << 20;
    for dialect in Dialect::ALL {
        for form in [Endless::Text, Endless::Line] {
            let provider = FakeProvider::play(Act::endless(BYTES, form)).await;
            let mut client = Client::of(&provider).await;
            client.ask(dialect, true).await;
            assert_eq!(client.head().await.status, 200);
            let (mut text, mut last) = (0, Vec::new());
            while let Some(chunk) = client.chunk().await {
                text += chunk.iter().filter(|byte| **byte == b'a').count() as u64;
                last = chunk;
            }
            assert!(text >= BYTES, "{dialect:?} {form:?}: {text}");
            let end = render_events(dialect, &Answer::pieces([""]))
                .pop()
                .expect("events");
            assert!(last.ends_with(&end), "{dialect:?} {form:?}");
        }
        let provider = FakeProvider::play(Act::endless(BYTES, Endless::Text)).await;
        let mut client = Client::of(&provider).await;
        client.ask(dialect, false).await;
        let whole = client.response().await;
        assert!(whole.body.len() as u64 >= BYTES);
        whole.json();
    }
}

#[tokio::test]
async fn a_client_may_leave_an_endless_answer() {
    let provider = FakeProvider::play(Act::endless(u64::MAX >> 8, Endless::Text)).await;
    let mut client = Client::of(&provider).await;
    client.ask(Dialect::OpenAiResponses, true).await;
    client.chunk_after_head().await;
    drop(client);
    provider.wait_for_abandoned(1).await;
}

impl Client {
    async fn chunk_after_head(&mut self) {
        self.head().await;
        assert!(self.chunk().await.is_some());
    }
}

#[tokio::test]
async fn a_reset_is_one() {
    let act = Act::answer("Hi.").end_at(At::Event(1), Ending::Reset);
    let provider = FakeProvider::play(act).await;
    let mut client = Client::of(&provider).await;
    client.ask(Dialect::Anthropic, true).await;
    assert_eq!(client.rest().await.1, End::Reset);
}
