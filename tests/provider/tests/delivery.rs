//! How answers are framed, split, held and ended on the wire.

use unisono_fake_provider::{
    Act, Answer, At, Dialect, Ending, FakeProvider, Framing, Gate, Script, Splits, render_events,
    render_stream, render_whole,
};

use crate::client::{Client, End};

const ANTHROPIC: Dialect = Dialect::Anthropic;

fn answer() -> Answer {
    Answer::pieces(["One, ", "zwei, ", "三."])
}

/// The connection after a stream that was asked for in Anthropic's dialect.
async fn asked(act: Act) -> (FakeProvider, Client) {
    let provider = FakeProvider::play(act).await;
    let mut client = Client::of(&provider).await;
    client.ask(ANTHROPIC, true).await;
    (provider, client)
}

#[tokio::test]
async fn every_dialect_is_answered_in_the_form_it_asks_for() {
    let provider = FakeProvider::play(Act::answer(answer())).await;
    let mut client = Client::of(&provider).await;
    for dialect in Dialect::ALL {
        client.ask(dialect, true).await;
        let stream = client.response().await;
        assert_eq!(stream.status, 200);
        assert_eq!(
            stream.header("content-type"),
            Some("text/event-stream; charset=utf-8")
        );
        assert_eq!(
            stream.body,
            render_stream(dialect, &answer()),
            "{dialect:?}"
        );
        assert_eq!(stream.chunks.len(), 1, "a plain answer is written at once");

        client.ask(dialect, false).await;
        let whole = client.response().await;
        assert_eq!(whole.header("content-type"), Some("application/json"));
        assert_eq!(whole.body, render_whole(dialect, &answer()), "{dialect:?}");
    }
    assert_eq!(provider.connections(), 1, "the connection is kept");
    let requests = provider.requests();
    assert!(requests.iter().all(|request| request.connection == 0));
}

#[tokio::test]
async fn chat_streams_tell_usage_only_when_asked_to() {
    let provider = FakeProvider::play(Act::answer(answer())).await;
    let mut client = Client::of(&provider).await;
    client
        .post("/v1/chat/completions", r#"{"stream":true}"#)
        .await;
    let silent = client.response().await;
    assert!(!silent.text().contains("usage"), "{}", silent.text());
    client.ask(Dialect::OpenAiChat, true).await;
    assert!(client.response().await.text().contains("prompt_tokens"));
}

#[tokio::test]
async fn geminis_stream_without_sse_is_an_array() {
    let provider = FakeProvider::play(Act::answer(answer())).await;
    let mut client = Client::of(&provider).await;
    client
        .post("/v1beta/models/m:streamGenerateContent", "{}")
        .await;
    let array = client.response().await.json();
    let chunks = array.as_array().expect("an array");
    assert_eq!(chunks.len(), 4);
    assert_eq!(chunks[3]["candidates"][0]["finishReason"], "STOP");
}

#[tokio::test]
async fn each_event_can_be_a_write_of_its_own() {
    let (_provider, mut client) = asked(Act::answer(answer()).split(Splits::Events)).await;
    let response = client.response().await;
    assert_eq!(response.chunks, render_events(ANTHROPIC, &answer()));
}

#[tokio::test]
async fn each_byte_can_be_a_write_of_its_own() {
    let (_provider, mut client) = asked(Act::answer(answer()).split(Splits::Every(1))).await;
    let response = client.response().await;
    assert!(response.chunks.iter().all(|chunk| chunk.len() == 1));
    assert_eq!(response.body, render_stream(ANTHROPIC, &answer()));
}

#[tokio::test]
async fn a_stream_ends_at_every_byte_in_every_way() {
    let whole = render_stream(ANTHROPIC, &Answer::text("é"));
    for at in [0, 1, whole.len() / 2, whole.len() - 1] {
        let cut = |ending| Act::answer(Answer::text("é")).end_at(At::Body(at), ending);

        let (_provider, mut client) = asked(cut(Ending::Finish)).await;
        assert_eq!(client.response().await.body, whole[..at]);
        client.ask(ANTHROPIC, true).await;
        assert_eq!(
            client.response().await.status,
            200,
            "the connection is kept"
        );

        for (ending, end) in [(Ending::Close, End::Closed), (Ending::Reset, End::Reset)] {
            let (_provider, mut client) = asked(cut(ending)).await;
            let (bytes, ended) = client.rest().await;
            assert_eq!(ended, end);
            if end == End::Closed {
                let chunk = format!("{at:x}\r\n{}", String::from_utf8_lossy(&whole[..at]));
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(at == 0 || text.contains(&chunk), "{text}");
                assert!(!text.contains("\r\n0\r\n"), "the end is not marked: {text}");
            }
        }
    }
}

#[tokio::test]
async fn a_response_can_end_within_its_head() {
    let act = Act::answer(answer()).end_at(At::InHead(12), Ending::Close);
    let (_provider, mut client) = asked(act).await;
    assert_eq!(client.rest().await, (b"HTTP/1.1 200".to_vec(), End::Closed));
}

#[tokio::test]
async fn lengths_can_be_wrong_both_ways() {
    let document = render_whole(ANTHROPIC, &answer());
    for (by, announced) in [(10, document.len() + 10), (-10, document.len() - 10)] {
        let act = Act::answer(answer()).framing(Framing::WrongLength(by));
        let provider = FakeProvider::play(act).await;
        let mut client = Client::of(&provider).await;
        client.ask(ANTHROPIC, false).await;
        let head = client.head().await;
        assert_eq!(
            head.header("content-length"),
            Some(announced.to_string().as_str())
        );
        assert_eq!(client.rest().await, (document.clone(), End::Closed));
    }
}

#[tokio::test]
async fn a_body_can_end_with_its_connection() {
    let (_provider, mut client) = asked(Act::answer(answer()).framing(Framing::Close)).await;
    let head = client.head().await;
    assert_eq!(head.header("connection"), Some("close"));
    let whole = render_stream(ANTHROPIC, &answer());
    assert_eq!(client.rest().await, (whole, End::Closed));
}

#[tokio::test]
async fn gates_hold_the_head_the_first_event_and_the_end() {
    let [head, first, end] = [Gate::new(), Gate::new(), Gate::new()];
    let act = Act::answer(answer())
        .hold(&head)
        .hold_at(At::Body(0), &first)
        .hold_at(At::LastEvent, &end);
    let (provider, mut client) = asked(act).await;

    head.reached(1).await;
    assert!(
        client.come().is_empty(),
        "nothing before the first gate is open"
    );
    assert_eq!(provider.in_flight(), 1);
    head.open();
    assert_eq!(client.head().await.status, 200);

    first.reached(1).await;
    assert!(
        client.come().is_empty(),
        "no event before the second gate is open"
    );
    first.open();
    let events = render_events(ANTHROPIC, &answer());
    let (last, others) = events.split_last().expect("events");
    assert_eq!(client.chunk().await, Some(others.concat()));

    end.reached(1).await;
    assert!(
        client.come().is_empty(),
        "no terminal marker before the third is open"
    );
    end.open();
    assert_eq!(client.chunk().await.as_ref(), Some(last));
    assert_eq!(client.chunk().await, None);
    provider.wait_for_quiet().await;
}

#[tokio::test]
async fn one_gate_holds_many_and_opens_once() {
    let gate = Gate::new();
    let provider = FakeProvider::play(Act::answer(answer()).hold(&gate)).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Client::of(&provider).await;
        client.ask(ANTHROPIC, true).await;
        clients.push(client);
    }
    gate.reached(3).await;
    assert_eq!(provider.max_in_flight(), 3);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().await.status, 200);
    }
}

#[tokio::test]
async fn a_sequence_is_played_in_order_and_then_refuses() {
    let provider = FakeProvider::play(Script::sequence(["one", "two"])).await;
    let mut client = Client::of(&provider).await;
    for expected in ["one", "two"] {
        client.ask(ANTHROPIC, false).await;
        assert_eq!(
            client.response().await.json()["content"][0]["text"],
            expected
        );
    }
    client.ask(ANTHROPIC, false).await;
    let over = client.response().await;
    assert_eq!(over.status, 400);
    assert!(over.text().contains("no act for this request"));

    provider.set_script(Script::sequence(["three"]).then("ever"));
    for expected in ["three", "ever", "ever"] {
        client.ask(ANTHROPIC, false).await;
        assert_eq!(
            client.response().await.json()["content"][0]["text"],
            expected
        );
    }
}
