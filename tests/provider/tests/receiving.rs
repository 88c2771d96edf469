//! What is recorded of requests, whole or broken.

use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Keep, Script, Usage, block_on};

use crate::client::Client;

#[tokio::test]
async fn a_request_is_recorded_byte_for_byte() {
    let provider = FakeProvider::start().await;
    let mut client = Client::of(&provider).await;
    let head =
        "POST /v1/messages?beta=true HTTP/1.1\r\nX-Api-Key: k \r\nContent-Length: 11\r\n\r\n";
    client.send(head).await;
    client.send(b"{\"a\":\"\xff\xfe\"}\n").await;
    client.response().await;
    let [request] = <[_; 1]>::try_from(provider.requests()).expect("one request");
    assert_eq!(request.method, "POST");
    assert_eq!(
        (request.path.as_str(), request.query.as_str()),
        ("/v1/messages", "beta=true")
    );
    assert_eq!(request.header("x-api-key"), Some("k"));
    assert_eq!(request.body, &b"{\"a\":\"\xff\xfe\"}\n"[..11]);
    assert!(request.complete);
}

#[tokio::test]
async fn bodies_in_chunks_are_put_together() {
    let provider = FakeProvider::start().await;
    let mut client = Client::of(&provider).await;
    let head = "POST /v1/responses HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = "5\r\n{\"mod\r\nA;x=y\r\nel\":\"\r\n\"} \r\n0\r\ntrailer: t\r\n\r\n";
    // Every byte by itself, so that no boundary is lucky.
    for byte in format!("{head}{body}").as_bytes() {
        client.send([*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.response().await.status, 200);
    assert_eq!(provider.requests()[0].body, "{\"model\":\"\r\n\"} ");
    client.post("/v1/responses", "{}").await;
    assert_eq!(
        client.response().await.status,
        200,
        "the connection is in step"
    );
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_turn() {
    let provider = FakeProvider::play(Script::sequence(["one", "two"])).await;
    let mut client = Client::of(&provider).await;
    let request = "POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
    client.send(request.repeat(2)).await;
    assert!(client.response().await.text().contains("one"));
    assert!(client.response().await.text().contains("two"));
}

#[tokio::test]
async fn a_request_that_breaks_off_is_kept_as_far_as_it_came() {
    let provider = FakeProvider::start().await;
    let mut client = Client::of(&provider).await;
    client
        .send("POST /v1/messages HTTP/1.1\r\ncontent-length: 100\r\n\r\n{\"half\"")
        .await;
    drop(client);
    let requests = provider.wait_for(1).await;
    assert_eq!(requests[0].body, "{\"half\"");
    assert!(!requests[0].complete);
    provider.wait_for_abandoned(1).await;
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let provider = FakeProvider::start().await;
    let mut client = Client::of(&provider).await;
    client.send("PRI * HTTP/2.0\r\n\r\n").await;
    assert_eq!(client.response().await.status, 400);
    assert_eq!(provider.request_count(), 0);
}

#[tokio::test]
async fn a_path_no_provider_has_is_not_found_and_recorded() {
    let provider = FakeProvider::play(Script::sequence(["one"])).await;
    let mut client = Client::of(&provider).await;
    client.post("/v1/embeddings", "{}").await;
    assert_eq!(client.response().await.status, 404);
    client.send("GET /v1/messages HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.response().await.status, 404);
    client.post("/v1/messages", "{}").await;
    assert!(
        client.response().await.text().contains("one"),
        "the script was not touched"
    );
    assert_eq!(
        provider.request_count(),
        2,
        "a look at the server is no request"
    );
}

#[tokio::test]
async fn a_server_that_is_no_provider_plays_its_script_for_every_path() {
    let acts = ["one", "two"].map(|text| Act::document(200, "text/plain", text));
    let server = FakeProvider::builder().script(Script::sequence(acts));
    let server = server.every_path().start().await;
    let mut client = Client::of(&server).await;
    client.post("/hook?of=me", "{}").await;
    assert_eq!(client.response().await.text(), "one");
    client.send("GET /cat.png HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.response().await.text(), "two");
    let requests = server.requests();
    assert_eq!(
        (&*requests[0].path, &*requests[0].query),
        ("/hook", "of=me")
    );
    assert_eq!((&*requests[1].method, requests.len()), ("GET", 2));
}

#[tokio::test]
async fn a_client_that_asks_to_is_let_go() {
    let provider = FakeProvider::start().await;
    let mut client = Client::of(&provider).await;
    let head = "POST /v1/messages HTTP/1.1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    client.send(head).await;
    client.response().await;
    assert!(client.rest().await.0.is_empty());
    assert_eq!(provider.abandoned(), 0);
}

#[tokio::test]
async fn a_client_that_waits_to_send_its_body_is_told_to() {
    let provider = FakeProvider::start().await;
    let mut client = Client::of(&provider).await;
    let head = "POST /v1/messages HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    client.send(head).await;
    assert_eq!(client.head().await.status, 100);
    client.send("{}").await;
    assert_eq!(client.response().await.status, 200);
}

#[tokio::test]
async fn counts_are_a_quarter_of_the_bytes_or_scripted() {
    let paths = [
        ("/v1/responses/input_tokens", "input_tokens"),
        ("/v1/messages/count_tokens", "input_tokens"),
        ("/v1beta/models/m:countTokens", "totalTokens"),
    ];
    let provider = FakeProvider::play(Script::sequence([Act::answer("untouched")])).await;
    let scripted = Act::answer(Answer::empty().usage(Usage::new(77, 0)));
    let counting = FakeProvider::builder().counts(scripted).start().await;
    for (path, field) in paths {
        let mut client = Client::of(&provider).await;
        client.post(path, &"x".repeat(41)).await;
        assert_eq!(client.response().await.json()[field], 11, "{path}");
        let mut client = Client::of(&counting).await;
        client.post(path, "{}").await;
        assert_eq!(client.response().await.json()[field], 77, "{path}");
    }
}

#[tokio::test]
async fn a_closure_sees_the_request() {
    let script = Script::by(|request| {
        let name = request.json()["name"]
            .as_str()
            .unwrap_or("nobody")
            .to_owned();
        Act::answer(format!("Hello {name}.").as_str())
    });
    let provider = FakeProvider::play(script).await;
    let mut client = Client::of(&provider).await;
    client.post("/v1/messages", r#"{"name":"Ada"}"#).await;
    assert!(client.response().await.text().contains("Hello Ada."));
}

#[tokio::test]
async fn less_is_kept_when_told_so() {
    for keep in [Keep::Heads, Keep::Nothing] {
        let provider = FakeProvider::builder().keep(keep).start().await;
        let mut client = Client::of(&provider).await;
        client.post("/v1/messages", r#"{"stream":true}"#).await;
        assert!(
            client.response().await.text().contains("event: "),
            "bodies are still looked at"
        );
        assert_eq!(provider.request_count(), 1);
        let kept = provider.requests();
        assert_eq!(kept.len(), usize::from(keep == Keep::Heads));
        assert!(
            kept.iter()
                .all(|request| request.body.is_empty() && request.complete)
        );
    }
}

#[test]
fn a_server_on_a_thread_needs_no_runtime() {
    use std::io::{Read, Write};
    let gate = Gate::new();
    let held = Act::answer("At last.").hold(&gate);
    let provider = FakeProvider::play_on_thread(held);
    let mut socket = std::net::TcpStream::connect(provider.address()).expect("connects");
    let head = "POST /v1/messages HTTP/1.1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    socket.write_all(head.as_bytes()).expect("sends");
    block_on(gate.reached(1));
    assert_eq!(block_on(provider.wait_for(1)).len(), 1);
    gate.open();
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("reads");
    assert!(text.contains("At last."), "{text}");
    let address = provider.address();
    drop(provider);
    let refused = std::net::TcpStream::connect(address);
    assert!(refused.is_err(), "it has stopped");
}
