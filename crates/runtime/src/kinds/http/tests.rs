//! Agents behind an address, with a real server on loopback.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use unisono_fake_provider::{Act, At, Ending, Endless, FakeProvider, Script, Stage};
use unisono_session::agent::AgentKind;

use super::*;
use crate::agent::fixture::{Attempt, run_in_time, task};

async fn serving(script: impl Into<Script>) -> FakeProvider {
    FakeProvider::builder().script(script.into()).start().await
}

fn http(server: &FakeProvider, headers: &[(&str, &str)]) -> Http {
    let headers = headers.iter();
    Http {
        // A path that the server knows as a provider's; here it is an agent's.
        url: format!("{}/v1/chat/completions?tenant=a%20b", server.url()).into(),
        headers: headers
            .map(|(n, v)| ((*n).into(), (*v).into()))
            .collect::<BTreeMap<Arc<str>, Arc<str>>>(),
    }
}

async fn ask(http: Http, timeout_ms: u64) -> Result<Answer, Failure> {
    let mut attempt = Attempt::new(AgentKind::Http(http.clone()), &["where is it?", "there"]);
    attempt.definition.timeout_ms = timeout_ms;
    run_in_time(&HttpAgent::new(http), &attempt).await
}

#[tokio::test]
async fn a_server_gets_the_document_of_program_agents() {
    let server = serving(Script::always(Act::json(
        200,
        r#"{"text":"here","partial":"no map"}"#,
    )))
    .await;
    let kind = http(
        &server,
        &[("X-Tenant", "north $$"), ("Accept-Language", "de")],
    );
    let attempt = Attempt::new(AgentKind::Http(kind.clone()), &["where is it?", "there"]);
    let answer = HttpAgent::new(kind.clone())
        .run(task(), attempt.ctx())
        .await
        .unwrap();
    assert_eq!(
        (&*answer.text, answer.partial.as_deref()),
        ("here", Some("no map"))
    );
    HttpAgent::new(kind)
        .run(task(), attempt.ctx())
        .await
        .unwrap();

    let [first, again] = &server.requests()[..] else {
        panic!("two requests");
    };
    let ctx = attempt.ctx();
    assert_eq!(
        first.body,
        request::document(ctx.assignment(), ctx.prefix()).concat()
    );
    let read: Value = first.json();
    assert_eq!(
        (&read["task"], &read["agent"]["id"]),
        (&"list the risks".into(), &"risks".into())
    );
    assert_eq!(
        (first.method.as_str(), first.query.as_str()),
        ("POST", "tenant=a%20b")
    );
    assert_eq!(first.header("content-type"), Some("application/json"));
    assert_eq!(first.header("x-tenant"), Some("north $"));
    let key = first.header("idempotency-key").unwrap();
    assert!(key.len() == KEY_DIGITS && again.header("idempotency-key") == Some(key));
}

#[tokio::test]
async fn what_is_no_answer_says_why() {
    let table = rows! {
        (Act::json(200, "[1"), None),
        (Act::document(200, "text/plain", " plain "), None),
        (Act::json(200, r#"{"answer":1}"#), Some(("bad_output", "has no `text`"))),
        (Act::document(200, "text/plain", ""), Some(("bad_output", "is empty"))),
        (Act::document(200, "text/plain", vec![0xff, 0xfe]), Some(("bad_output", "not UTF-8"))),
        (
            Act::document(200, "image/png", "x"),
            Some(("bad_output", "is `image/png`; it must be JSON")),
        ),
        (Act::html(200), Some(("bad_output", "is `text/html`"))),
        (Act::document(200, "text/html", ""), Some(("bad_output", "is empty"))),
        (Act::json(401, r#"{"error":"who?"}"#), Some(("provider_rejected", "HTTP 401"))),
        (Act::html(404), Some(("provider_rejected", "a web page"))),
        (
            Act::document(302, "text/plain", "")
                .header("location", "http://elsewhere.test/x?secret=1"),
            Some(("provider_rejected", "redirects to http://elsewhere.test/x (status 302)")),
        ),
        (
            Act::endless(100_000_000, Endless::Text),
            Some(("bad_output", "larger than 4194304 bytes")),
        ),
    };
    for (act, expected) in table {
        let shown = format!("{act:?}");
        let server = serving(Script::always(act)).await;
        let result = ask(http(&server, &[]), 60_000).await;
        match (result, expected) {
            (Ok(_), None) => {}
            (Err(failure), Some((code, words))) => {
                assert_eq!(failure.cause.code(), code, "{failure}");
                assert!(failure.reason.contains(words), "{words:?}: {failure}");
                assert!(failure.reason.starts_with(&server.url()), "{failure}");
                assert!(!failure.reason.contains("secret=1"), "{failure}");
            }
            (result, expected) => panic!("{result:?} instead of {expected:?}: {shown}"),
        }
        assert_eq!(server.request_count(), 1, "{shown}");
    }
}

#[tokio::test]
async fn a_failing_server_is_called_once_per_attempt() {
    let refused = Act::json(503, r#"{"error":"later"}"#).header("retry-after", "7");
    let table = [
        (refused, Some(7_000), "HTTP 503"),
        (Act::json(500, "{}"), None, "HTTP 500"),
        (Act::json(409, "{}"), None, "HTTP 409"),
        (Act::hang_up(Stage::Headers), None, "broke"),
    ];
    for (act, wait_ms, words) in table {
        let server = serving(Script::always(act)).await;
        let failure = ask(http(&server, &[]), 60_000).await.unwrap_err();
        assert_eq!(failure.cause.code(), "provider_unavailable", "{failure}");
        assert_eq!(failure.wait_ms, wait_ms, "{failure}");
        assert!(failure.reason.contains(words), "{words}: {failure}");
        assert!(failure.cause.is_retryable());
        assert_eq!(server.request_count(), 1, "{failure}");
    }
}

/// A value that a header took from the environment, in a server's response.
#[tokio::test]
async fn secrets_in_a_servers_response_are_redacted() {
    let secret = std::env::var("PATH").unwrap();
    let said = secret.clone();
    let echo = move |status| {
        let body = serde_json::json!({ "text": said, "error": said }).to_string();
        Act::json(status, body)
    };
    for status in [200, 401] {
        let server = serving(Script::always(echo(status))).await;
        let result = ask(http(&server, &[("X-Path", "p ${PATH} q")]), 60_000).await;
        let sent = server.requests();
        let sent = sent[0].header("x-path").unwrap();
        assert_eq!(sent, format!("p {secret} q"));
        let result = match result {
            Ok(answer) => answer.text.to_string(),
            Err(failure) => failure.to_string(),
        };
        assert!(result.contains("[redacted]"), "{result}");
        assert!(!result.contains(&secret), "{result}");
    }
}

#[tokio::test]
async fn a_hanging_server_times_out() {
    for at in [At::Head, At::Body(3)] {
        let hanging = Act::document(200, "text/plain", "never").end_at(at, Ending::Silence);
        let server = serving(Script::always(hanging)).await;
        let failure = ask(http(&server, &[]), 200).await.unwrap_err();
        assert_eq!(failure.cause.code(), "provider_unavailable", "{failure}");
        assert!(failure.reason.contains("within 0.7 s"), "{failure}");
    }
    // Nobody listens there any more.
    let gone = serving(Script::always(Act::silence())).await;
    let nowhere = http(&gone, &[]);
    drop(gone);
    let failure = ask(nowhere, 60_000).await.unwrap_err();
    assert_eq!(failure.cause.code(), "provider_unavailable", "{failure}");
}

#[tokio::test]
async fn a_cancelled_attempt_closes_its_connection() {
    let server = serving(Script::always(Act::silence())).await;
    let asking = tokio::spawn(ask(http(&server, &[]), 60_000));
    server.wait_for(1).await;
    asking.abort();
    server.wait_for_abandoned(1).await;
}

#[test]
fn values_of_headers_come_from_the_environment() {
    let attempt = Attempt::new(AgentKind::Llm, &["hello"]);
    let ctx = attempt.ctx();
    let http = |value: &str| Http {
        url: "https://agents.test/risks".into(),
        headers: [("Authorization".into(), value.into())].into(),
    };
    let look = |name: &str| (name == "TOKEN").then(|| "s3cret-s3cret".to_owned());
    let read = server(ctx.assignment(), &http("Bearer ${TOKEN}"), look).unwrap();
    assert_eq!(read.settings.headers[0].name().as_str(), "authorization");
    assert!(!format!("{:?}", read.settings).contains("s3cret"));
    assert_eq!(read.secrets, ["s3cret-s3cret"]);
    for (value, expected) in [
        ("Bearer ${OTHER}", "the variable OTHER, which is not set"),
        ("${", "write $$ for a dollar sign"),
        ("a\nb", "characters that a header cannot contain"),
    ] {
        let failure = super::server(ctx.assignment(), &http(value), look).unwrap_err();
        assert_eq!(failure.cause, RunCause::BadInput);
        assert!(failure.reason.contains(expected), "{failure}");
    }
}
