//! Remote agents with a real server on loopback: its requests, and its errors.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use unisono_fake_provider::{Act, FakeProvider, Script};
use unisono_session::agent::AgentKind;
use unisono_session::run::Step;

use super::*;
use crate::agent::fixture::{Attempt, run_in_time, task, until};

fn result(result: Value) -> Act {
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    Act::json(200, answer.to_string())
}

fn stream(updates: &[Value]) -> Act {
    let events = updates.iter().map(|update| {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": update});
        format!("data: {answer}\n\n")
    });
    Act::document(200, "text/event-stream", events.collect::<String>())
}

/// A remote agent with scripted responses.
struct Server {
    provider: FakeProvider,
    url: String,
    /// The number of the first call that is not forgotten.
    first: Cell<usize>,
}

impl Server {
    async fn start(
        card: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
        script: impl Fn(&str, &Value) -> Act + Send + Sync + 'static,
    ) -> Server {
        let script = Script::by(move |request| {
            if request.method == "GET" {
                let url = format!("http://{}", request.header("host").unwrap());
                return Act::json(200, card(&url));
            }
            let call = request.json();
            script(call["method"].as_str().unwrap(), &call["params"])
        });
        let server = FakeProvider::builder().script(script).every_path();
        let provider = server.start().await;
        Server {
            url: provider.url(),
            provider,
            first: Cell::new(0),
        }
    }

    /// The calls that are not forgotten: their methods and parameters.
    fn calls(&self) -> Vec<(String, Value)> {
        let requests = self.provider.requests().into_iter();
        let calls = requests.filter(|request| request.method == "POST" && request.complete);
        let calls = calls.skip(self.first.get()).map(|request| {
            let call = request.json();
            let method = call["method"].as_str().unwrap().to_owned();
            (method, call["params"].clone())
        });
        calls.collect()
    }

    fn forget_calls(&self) {
        self.first.set(self.first.get() + self.calls().len());
    }

    fn remote(&self) -> A2a {
        A2a {
            url: self.url.as_str().into(),
            headers: BTreeMap::from([("X-Tenant".into(), "north".into())]),
            card_digest: None,
            contract: Contract::AtMostOnce,
        }
    }

    fn methods(&self) -> Vec<String> {
        self.calls().into_iter().map(|(method, _)| method).collect()
    }
}

fn card(url: &str) -> Value {
    json!({"name": "far", "description": "Far", "version": "1", "supportedInterfaces": [
            {"url": format!("{url}/rpc"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {}, "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain"], "skills": []})
}

fn plain(url: &str) -> Vec<u8> {
    card(url).to_string().into_bytes()
}

fn streaming(url: &str) -> Vec<u8> {
    let mut card = card(url);
    card["capabilities"] = json!({"streaming": true});
    card.to_string().into_bytes()
}

fn remote_task(state: &str, said: &str) -> Value {
    json!({"id": "t1", "contextId": "c1", "status": {"state": format!("TASK_STATE_{state}"),
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": said}]}},
        "artifacts": [{"artifactId": "a", "parts": [{"text": format!("It is {said}.")}]}]})
}

/// Answers at once, or after this number of polls.
fn answering(after: usize) -> impl Fn(&str, &Value) -> Act + Send + Sync {
    let asked = Mutex::new(0);
    move |method, _| match method {
        "SendMessage" => result(json!({"task": remote_task("SUBMITTED", "begun")})),
        "GetTask" => {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            let is_done = *asked > after;
            result(remote_task(
                if is_done { "COMPLETED" } else { "WORKING" },
                "there",
            ))
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_text_may_be_cut_in_the_middle_of_a_character() {
    let server = Server::start(plain, |method, _| {
        let task = remote_task("COMPLETED", "there");
        let result = match method {
            "SendMessage" => json!({"task": task}),
            _ => task,
        };
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        Act::json(200, answer.replace("It is there.", "It is there\\ud83d."))
    });
    let answer = asked(&server.await).await.unwrap();
    assert_eq!(&*answer.text, "It is there\u{fffd}.");
}

async fn ask(remote: &A2a, attempt: &Attempt) -> Result<Answer, Failure> {
    run_in_time(&A2aAgent::new(remote.clone()), attempt).await
}

fn attempt(remote: &A2a) -> Attempt {
    Attempt::new(AgentKind::A2a(remote.clone()), &["where is it?", "there"])
}

/// The answer of the server's agent to a first attempt.
async fn asked(server: &Server) -> Result<Answer, Failure> {
    let remote = server.remote();
    ask(&remote, &attempt(&remote)).await
}

fn later(attempt: &Attempt, remote: &A2a) -> Attempt {
    let mut later = self::attempt(remote);
    later.steps = attempt.session.steps();
    later
}

fn names(attempt: &Attempt) -> Vec<String> {
    let steps = attempt.session.steps();
    let names = steps.iter().filter_map(|step| match &**step {
        Step::Named { name, .. } => Some(name.to_string()),
        _ => None,
    });
    names.collect()
}

#[tokio::test]
async fn a_remote_agent_gets_the_task_once_and_is_followed_to_its_answer() {
    let server = Server::start(plain, answering(2)).await;
    let remote = server.remote();
    let first = attempt(&remote);
    let answer = ask(&remote, &first).await.unwrap();
    assert_eq!(&*answer.text, "It is there.");
    assert_eq!(
        server.methods(),
        ["SendMessage", "GetTask", "GetTask", "GetTask"]
    );
    assert_eq!(names(&first), ["a2a.sending.1", "a2a.begun.1"]);
    let (_, sent) = server.calls()[0].clone();
    let message = &sent["message"];
    assert_eq!(message["parts"][0]["text"], "list the risks");
    let document = &message["parts"][1]["data"];
    assert!(document.to_string().contains("where is it?"), "{document}");
    assert_eq!(sent["configuration"]["returnImmediately"], true);
    assert!(message["messageId"].as_str().unwrap().ends_with("-1"));
    for request in server.provider.requests() {
        assert_eq!(request.header("x-tenant"), Some("north"), "{request:?}");
        let version = request.header("a2a-version");
        assert!(
            request.method == "GET" || version == Some("1.0"),
            "{request:?}"
        );
    }
    // Another attempt or process follows the journaled task.
    server.forget_calls();
    let again = ask(&remote, &later(&first, &remote)).await.unwrap();
    assert_eq!(&*again.text, "It is there.");
    assert_eq!(server.methods(), ["GetTask"]);
}

#[tokio::test]
async fn a_card_may_have_a_tenant_and_lack_what_is_not_used() {
    let card = |url: &str| {
        let mut card = card(url);
        let interfaces = card["supportedInterfaces"].as_array_mut().unwrap();
        interfaces[0]["tenant"] = "harbour".into();
        interfaces.insert(0, json!({"url": "https://old.example"}));
        card["skills"] = json!([{"id": "look", "name": "look"}]);
        card["securitySchemes"] = json!({"own": {"laterSecurityScheme": {}}});
        card.to_string().into_bytes()
    };
    // A task need not have a context.
    let done = json!({"id": "t1", "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": "a", "parts": [{"text": "It is there."}]}]});
    let answering = move |method: &str, _: &Value| match method {
        "SendMessage" => result(json!({"task": done})),
        _ => result(done.clone()),
    };
    let server = Server::start(card, answering).await;
    let answer = asked(&server).await.unwrap();
    assert_eq!(&*answer.text, "It is there.");
    assert_eq!(server.methods(), ["SendMessage", "GetTask"]);
    for (method, params) in &server.calls() {
        assert_eq!(params["tenant"], "harbour", "{method}");
    }
}

#[tokio::test]
async fn files_of_an_answer_are_in_either_alphabet_of_base64() {
    for raw in ["+/8=", "+/8", "-_8=", "-_8"] {
        let files = json!([{"text": "Here."}, {"raw": raw, "filename": "a.bin"}]);
        let text = "Here.\n\n[file a.bin, 2 bytes: not kept]";
        let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": files});
        let script = move |_: &str, _: &Value| result(json!({"message": message.clone()}));
        let server = Server::start(plain, script).await;
        let answer = asked(&server).await.unwrap();
        assert_eq!(&*answer.text, text, "{raw}");

        let task = json!({"id": "t1", "contextId": "c1",
            "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": files}]});
        let script = move |method: &str, _: &Value| match method {
            "SendMessage" => result(json!({"task": task.clone()})),
            _ => result(task.clone()),
        };
        let server = Server::start(plain, script).await;
        let answer = asked(&server).await.unwrap();
        assert_eq!(&*answer.text, text, "{raw}");
    }
}

#[tokio::test]
async fn a_message_without_a_text_is_no_answer() {
    for said in [" \n", "\u{200b}"] {
        let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": said}]});
        let script = move |_: &str, _: &Value| result(json!({"message": message.clone()}));
        let server = Server::start(plain, script).await;
        let remote = server.remote();
        let first = attempt(&remote);
        let failed = ask(&remote, &first).await.unwrap_err();
        assert_eq!(failed.cause, RunCause::BadOutput, "{}", failed.reason);
        // Another attempt sends a new message.
        assert_eq!(names(&first).last().unwrap(), "a2a.over.1");
    }
}

#[tokio::test]
async fn a_message_that_may_have_arrived_is_repeated_only_if_idempotent() {
    let broken = |method: &str, _: &Value| match method {
        "SendMessage" => Act::json(200, ""),
        other => panic!("{other}"),
    };
    let server = Server::start(plain, broken).await;
    let remote = server.remote();
    let first = attempt(&remote);
    let failed = ask(&remote, &first).await.unwrap_err();
    assert!(!failed.cause.is_retryable(), "{}", failed.reason);
    assert_eq!(names(&first), ["a2a.sending.1"]);
    let doubt = ask(&remote, &later(&first, &remote)).await.unwrap_err();
    assert_eq!(doubt.cause, RunCause::BadInput);
    assert!(doubt.reason.contains("nobody knows"), "{}", doubt.reason);
    assert_eq!(server.methods(), ["SendMessage"]);

    let server = Server::start(plain, answering(0)).await;
    let remote = A2a {
        contract: Contract::Idempotent,
        ..server.remote()
    };
    let answer = ask(&remote, &later(&first, &remote)).await.unwrap();
    assert_eq!(&*answer.text, "It is there.");
    let Step::Named { result, .. } = &*first.session.steps()[0] else {
        panic!("a named step");
    };
    let sent = server.calls()[0].1.clone();
    let journaled: Value = serde_json::from_str(result).unwrap();
    assert_eq!(sent["message"]["messageId"], journaled["id"], "the same id");
    assert_eq!(journaled["card"].as_str().unwrap().len(), 64);
    assert!(journaled["url"].as_str().unwrap().ends_with("/rpc"));
}

#[tokio::test]
async fn a_task_is_not_followed_at_another_address() {
    let server = Server::start(plain, answering(usize::MAX)).await;
    let (remote, mut first) = (server.remote(), attempt(&server.remote()));
    // A task of an earlier program, which journaled no address, is followed.
    let done = Server::start(plain, answering(0)).await;
    let named = |name: &str, result: &str| Arc::new(Step::named(name, result));
    first.steps = vec![
        named("a2a.sending.1", "\"m\""),
        named("a2a.begun.1", "{\"task\":\"t1\"}"),
    ];
    let answer = ask(&done.remote(), &first).await.unwrap();
    assert_eq!(&*answer.text, "It is there.");
    first.steps[1] = named(
        "a2a.begun.1",
        "{\"task\":\"t1\",\"url\":\"http://old/rpc\"}",
    );
    server.forget_calls();
    let moved = ask(&remote, &first).await.unwrap_err();
    assert_eq!(moved.cause, RunCause::BadInput);
    for part in ["http://old/rpc", &server.url, "card_digest = "] {
        assert!(moved.reason.contains(part), "{}", moved.reason);
    }
    assert!(server.methods().is_empty());
}

#[tokio::test]
async fn a_failed_remote_task_is_sent_again_by_the_next_attempt() {
    let rows = [
        ("FAILED", RunCause::Exit),
        ("REJECTED", RunCause::Refused),
        ("CANCELED", RunCause::Rejected),
        ("INPUT_REQUIRED", RunCause::Rejected),
    ];
    for (state, cause) in rows {
        let script = move |method: &str, _: &Value| match method {
            "SendMessage" => result(json!({"task": remote_task("SUBMITTED", "begun")})),
            _ => result(remote_task(state, "too dear")),
        };
        let server = Server::start(plain, script).await;
        let remote = server.remote();
        let first = attempt(&remote);
        let failed = ask(&remote, &first).await.unwrap_err();
        assert_eq!(failed.cause, cause);
        assert!(failed.reason.contains("too dear"), "{}", failed.reason);
        assert_eq!(names(&first).last().unwrap(), "a2a.over.1");
        let is_cancelled = server.methods().contains(&"CancelTask".to_owned());
        assert_eq!(is_cancelled, state == "INPUT_REQUIRED");
        server.forget_calls();
        ask(&remote, &later(&first, &remote)).await.unwrap_err();
        let sent = server.calls()[0].clone();
        assert_eq!(sent.0, "SendMessage");
        let text = sent.1["message"]["messageId"].as_str().unwrap();
        assert!(text.ends_with("-2"));
    }
    let refuses = |_: &str, _: &Value| {
        let error = json!({"code": -32005, "message": "no data here"});
        Act::json(
            200,
            json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string(),
        )
    };
    let server = Server::start(plain, refuses).await;
    let refused = asked(&server).await.unwrap_err();
    assert!(refused.reason.contains("no data here"), "{refused}");
}

#[tokio::test]
async fn progress_of_a_remote_agent_is_forwarded() {
    let asked = Mutex::new(0);
    let update = |state: &str, said: &str| {
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c1",
            "status": remote_task(state, said)["status"]}})
    };
    let events = vec![
        json!({"task": remote_task("WORKING", "begun")}),
        update("WORKING", "reads the map"),
        json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1", "artifact":
            {"artifactId": "a", "parts": [{"text": "It is"}]}}}),
        update("COMPLETED", "there"),
        json!({"never": "read"}),
    ];
    let script = move |method: &str, _: &Value| match method {
        "SendMessage" => result(json!({"task": remote_task("SUBMITTED", "begun")})),
        "SubscribeToTask" => stream(&events),
        _ => {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            let state = if *asked > 1 { "COMPLETED" } else { "WORKING" };
            result(remote_task(state, "there"))
        }
    };
    let server = Server::start(streaming, script).await;
    let remote = server.remote();
    let asking = attempt(&remote);
    assert_eq!(&*ask(&remote, &asking).await.unwrap().text, "It is there.");
    assert_eq!(
        server.methods(),
        ["SendMessage", "GetTask", "SubscribeToTask", "GetTask"]
    );
    let progress = asking.session.progress();
    assert!(
        progress.iter().any(|text| &**text == "reads the map"),
        "{progress:?}"
    );
}

#[tokio::test]
async fn a_task_that_works_after_its_stream_has_ended_is_polled_with_pauses() {
    let polls = answering(3);
    let script = move |method: &str, params: &Value| match method {
        "SubscribeToTask" => stream(&[json!({"task": remote_task("COMPLETED", "there")})]),
        other => polls(other, params),
    };
    let server = Server::start(streaming, script).await;
    let since = std::time::Instant::now();
    let answer = asked(&server).await.unwrap();
    assert_eq!(&*answer.text, "It is there.");
    let calls = server.methods();
    let polls = calls.iter().filter(|method| *method == "GetTask").count();
    assert_eq!(polls, 4, "{calls:?}");
    // The second poll follows the stream at once, the third and the fourth after a pause.
    assert!(since.elapsed() >= POLL_PAUSES.0 * 3);
}

#[tokio::test]
async fn an_agent_with_a_changed_or_invalid_card_is_not_called() {
    let never = |method: &str, _: &Value| -> Act { panic!("{method}") };
    let server = Server::start(plain, never).await;
    let pinned = A2a {
        card_digest: Some("0".repeat(64).into()),
        ..server.remote()
    };
    let changed = ask(&pinned, &attempt(&pinned)).await.unwrap_err();
    let text = &changed.reason;
    assert!(text.contains("another one than `card_digest`"), "{changed}");
    assert!(!changed.cause.is_retryable());
    let cards: [fn(&str) -> Vec<u8>; 3] = [
        |_| b"<html>nothing</html>".to_vec(),
        |_| Vec::new(),
        |_| vec![b' '; CARD_BYTES + 1],
    ];
    for card in cards {
        let server = Server::start(card, never).await;
        let failed = asked(&server).await.unwrap_err();
        assert_eq!(failed.cause, RunCause::BadOutput, "{}", failed.reason);
        assert!(server.methods().is_empty());
    }
    let gone = A2a {
        url: "http://127.0.0.1:1".into(),
        ..server.remote()
    };
    let gone_attempt = attempt(&gone);
    let failed = ask(&gone, &gone_attempt).await.unwrap_err();
    assert_eq!(failed.cause, RunCause::Unavailable);
    assert!(names(&gone_attempt).is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_reply_that_is_garbage_or_too_large_ends_the_attempt() {
    let begins = || result(json!({"task": remote_task("SUBMITTED", "begun")}));
    let bodies: [(u16, Vec<u8>, RunCause); 4] = rows! {
        (200, b"nonsense".to_vec(), RunCause::BadOutput),
        (200, b"{\"result\": {\"id\": 1}}".to_vec(), RunCause::BadOutput),
        (200, vec![b'x'; MAX_OUTPUT_BYTES + 1], RunCause::BadOutput),
        (401, b"{}".to_vec(), RunCause::Rejected),
    };
    for (status, body, cause) in bodies {
        let script = move |method: &str, _: &Value| match method {
            "SendMessage" => begins(),
            _ => Act::json(status, body.clone()),
        };
        let server = Server::start(plain, script).await;
        let failed = asked(&server).await.unwrap_err();
        assert_eq!(failed.cause, cause, "{status}: {}", failed.reason);
    }
}

#[tokio::test]
async fn a_message_without_a_result_fails_with_its_first_reason() {
    let large = || vec![b'x'; MAX_OUTPUT_BYTES + 1];
    let once = Contract::AtMostOnce;
    type Row = (u16, Vec<u8>, Contract, bool, [&'static str; 2]);
    let rows: [Row; 5] = rows! {
        (200, b"nonsense".to_vec(), once, false, ["invalid response", "not given it again"]),
        (200, large(), once, false, ["larger than 4194304 bytes", "not given it again"]),
        (200, large(), Contract::Idempotent, false, ["larger than", "not given it again"]),
        (503, b"{}".to_vec(), once, false, ["503", "nobody knows"]),
        (503, b"{}".to_vec(), Contract::Idempotent, true, ["503", ""]),
    };
    for (status, body, contract, is_retried, says) in rows {
        let script = move |_: &str, _: &Value| Act::json(status, body.clone());
        let server = Server::start(plain, script).await;
        let remote = A2a {
            contract,
            ..server.remote()
        };
        let failed = ask(&remote, &attempt(&remote)).await.unwrap_err();
        assert_eq!(failed.cause.is_retryable(), is_retried, "{}", failed.reason);
        for part in says {
            assert!(failed.reason.contains(part), "{}", failed.reason);
        }
    }
}

#[tokio::test]
async fn a_message_beyond_a_limit_of_the_server_was_not_taken() {
    for (status, cause) in [(429, RunCause::Unavailable), (413, RunCause::Overflow)] {
        let full = move |_: &str, _: &Value| Act::json(status, "it is too much");
        let server = Server::start(plain, full).await;
        let first = attempt(&server.remote());
        let failed = ask(&server.remote(), &first).await.unwrap_err();
        assert_eq!(failed.cause, cause, "{}", failed.reason);
        assert!(
            failed.reason.ends_with("it is too much"),
            "{}",
            failed.reason
        );
        assert_eq!(names(&first), ["a2a.sending.1", "a2a.over.1"]);

        let server = Server::start(plain, answering(0)).await;
        let remote = server.remote();
        let answer = ask(&remote, &later(&first, &remote)).await.unwrap();
        assert_eq!(&*answer.text, "It is there.");
        assert_eq!(server.methods(), ["SendMessage", "GetTask"]);
    }
}

#[tokio::test]
async fn an_agent_that_answers_with_a_message_has_the_time_of_its_definition() {
    let server = Server::start(plain, |_: &str, _: &Value| Act::silence()).await;
    let mut asking = attempt(&server.remote());
    asking.definition.timeout_ms = 100;
    let failed = ask(&server.remote(), &asking).await.unwrap_err();
    for part in ["no response was received within 0.6 s", "nobody knows"] {
        assert!(failed.reason.contains(part), "{}", failed.reason);
    }
}

#[tokio::test]
async fn a_run_that_is_cancelled_has_the_remote_task_cancelled() {
    let script = |method: &str, _: &Value| match method {
        "SendMessage" => result(json!({"task": remote_task("SUBMITTED", "begun")})),
        "SubscribeToTask" => Act::silence(),
        "CancelTask" => result(remote_task("CANCELED", "so")),
        _ => result(remote_task("WORKING", "never ends")),
    };
    let server = Server::start(streaming, script).await;
    let remote = server.remote();
    let mut asking = attempt(&remote);
    asking.definition.retries = 3;
    let ctx = asking.ctx();
    let agent = A2aAgent::new(remote.clone());
    let running = tokio::spawn(async move { agent.run(task(), ctx).await.is_ok() });
    let called = async |method: &str, times: usize| {
        let count = || server.methods().iter().filter(|one| *one == method).count();
        until(method, || count() >= times).await;
    };
    called("SubscribeToTask", 1).await;
    running.abort();
    let _ = running.await;
    // If the program ends, the task is dropped without being cancelled.
    assert!(!server.methods().contains(&"CancelTask".to_owned()));

    let again = later(&asking, &remote);
    let ctx = again.ctx();
    let cancelled = ctx.cancelled().clone();
    let agent = A2aAgent::new(remote);
    let end = cancelled.clone();
    let running = tokio::spawn(async move {
        let running = end.run_until_cancelled(agent.run(task(), ctx));
        running.await.is_none()
    });
    called("SubscribeToTask", 2).await;
    cancelled.cancel();
    assert!(running.await.unwrap());
    called("CancelTask", 1).await;
}
