//! Turns that other programs begin, each with the secret of its trigger.

use std::collections::BTreeSet;
use std::thread;

use serde_json::Value;

use crate::http::{Daemon, Reply, head, send_to};
use crate::support::{HasAll as _, Place};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const BODY: &[u8] = b"{\"ref\":\"main\",\n\"by\":\"Ada\"}";
/// HMAC-SHA256 of the body under the secret, as `openssl dgst -sha256 -hmac` gives it.
const SIGNATURE: &str = "sha256=e1fad3ac45405e8138297d3b5d668e0de249766dc134061021edc8bc4b0ba484";

fn place() -> Place {
    let place = Place::with_config(
        "[agents.says]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"echo\"\n\
         args = [\"Done.\"]\n[turn]\nlead = \"says\"\nagents = []\n[triggers.deploy]\n\
         secret_file = \"secret\"\ntask = \"Look at ${name}:\\n\\n${body}\"\n",
    );
    place.write("secret", SECRET);
    let path = place.path("secret");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, mode).unwrap();
    place
}

fn post(daemon: &Daemon, name: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut all = vec![
        ("Host", daemon.address.as_str()),
        ("Content-Type", "application/json"),
    ];
    all.extend(headers);
    let path = format!("/v1/triggers/{name}");
    daemon.send(&head("POST", &path, &all, body.len()), body)
}

/// Waits for the end of a turn.
fn ended(daemon: &Daemon, begun: &Value) -> Value {
    let (session, turn) = (begun["session"].as_str(), begun["turn"].as_str());
    let path = format!("/v1/sessions/{}/turns/{}", session.unwrap(), turn.unwrap());
    daemon.awaited(&path, |turn| !turn["ended_at"].is_null())
}

#[test]
fn a_request_that_knows_the_secret_begins_one_turn() {
    let place = place();
    let daemon = Daemon::start(&place);
    let signed = [
        ("X-Hub-Signature-256", SIGNATURE),
        ("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
    ];
    let begun = post(&daemon, "deploy", &signed, BODY).expect(202).json();
    let turn = ended(&daemon, &begun);
    assert_eq!(turn["state"], "answered", "{turn}");
    let task = "Look at deploy:\n\n> {\"ref\":\"main\",\n> \"by\":\"Ada\"}";
    assert_eq!(turn["task"], task);
    assert_eq!(begun.as_object().unwrap().len(), 2, "only where it is");
    // The same request again, also after the daemon was killed.
    assert_eq!(
        post(&daemon, "deploy", &signed, BODY).expect(202).json(),
        begun
    );
    daemon.kill();
    let daemon = Daemon::start(&place);
    assert_eq!(
        post(&daemon, "deploy", &signed, BODY).expect(202).json(),
        begun
    );
    // Another one.
    let bearer = format!("Bearer {SECRET}");
    let with_key = |key| [("Authorization", bearer.as_str()), ("Idempotency-Key", key)];
    let other = post(&daemon, "deploy", &with_key("1"), b"{}")
        .expect(202)
        .json();
    assert_ne!(other["turn"], begun["turn"]);
    assert_eq!(
        post(&daemon, "deploy", &with_key("1"), b"{}")
            .expect(202)
            .json(),
        other
    );
    let reused = post(&daemon, "deploy", &with_key("1"), b"{\"ref\":\"other\"}").expect(422);
    assert!(reused.problem("key_reused").contains("use a new key"));
    let third = post(&daemon, "deploy", &with_key("2"), b"{}")
        .expect(202)
        .json();
    assert_ne!(third, other);
    let listed = daemon
        .get("/v1/sessions?label=trigger%3Ddeploy")
        .expect(200);
    assert_eq!(listed.json()["items"].as_array().unwrap().len(), 3);
    daemon.stop();
}

#[test]
fn who_does_not_know_the_secret_learns_nothing() {
    let place = place();
    let daemon = Daemon::start(&place);
    let token = format!("Bearer {}", daemon.token);
    let secret = format!("Bearer {SECRET}");
    let mut other = SIGNATURE.to_owned();
    other.replace_range(
        7..8,
        if other.as_bytes()[7] == b'0' {
            "1"
        } else {
            "0"
        },
    );
    let response_to = |name: &str, headers: &[(&str, &str)], body: &[u8]| {
        let reply = post(&daemon, name, headers, body).expect(401);
        assert!(reply.header("www-authenticate").is_some());
        reply.text()
    };
    let unknown = response_to("nobody", &[("Authorization", &secret)], BODY);
    type Case<'c> = (&'c [(&'c str, &'c str)], &'c [u8]);
    let table: [Case<'_>; 6] = [
        (&[], BODY),
        (&[("Authorization", &token)], BODY),
        (&[("X-Hub-Signature-256", &other)], BODY),
        (&[("X-Hub-Signature-256", SIGNATURE)], b"{}"),
        (&[("Authorization", "Bearer x")], b"no JSON at all"),
        (&[("webhook-signature", "v1,AAAA")], BODY),
    ];
    for (headers, body) in table {
        assert_eq!(response_to("deploy", headers, body), unknown, "{headers:?}");
        assert_eq!(response_to("nobody", headers, body), unknown, "{headers:?}");
    }
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    assert_eq!(sessions["items"], serde_json::json!([]));
    // The secret of a trigger opens nothing else.
    let headers = [
        ("Host", daemon.address.as_str()),
        ("Authorization", &secret),
    ];
    daemon
        .send(&head("GET", "/v1/sessions", &headers, 0), b"")
        .expect(401);
    // Nor does a browser's page of somewhere else.
    let evil = [
        ("Authorization", secret.as_str()),
        ("Origin", "http://evil.example"),
    ];
    post(&daemon, "deploy", &evil, BODY).expect(403);
    daemon.stop();
}

#[test]
fn a_body_that_is_no_object_or_too_long_begins_nothing() {
    let place = place();
    let daemon = Daemon::start(&place);
    let secret = format!("Bearer {SECRET}");
    let bearer = [("Authorization", secret.as_str())];
    for (body, status) in [
        (&b"[]"[..], 400),
        (b"{", 400),
        (b"", 400),
        (b"{\"a\":\"\xff\"}", 400),
    ] {
        assert_eq!(
            post(&daemon, "deploy", &bearer, body).status,
            status,
            "{body:?}"
        );
    }
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(131_072));
    let too_large = post(&daemon, "deploy", &bearer, long.as_bytes());
    assert!(too_large.refused(413, "too_large").contains("131072"));
    let plain = [
        ("Host", daemon.address.as_str()),
        ("Authorization", &secret),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let head = head("POST", "/v1/triggers/deploy", &plain, 2);
    daemon.send(&head, b"{}").expect(415);
    let long = "x".repeat(129);
    let keyed = [("Authorization", secret.as_str()), ("webhook-id", &long)];
    post(&daemon, "deploy", &keyed, b"{}").expect(400);
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    assert_eq!(sessions["items"], serde_json::json!([]));
    daemon.stop();
}

#[test]
fn a_ping_of_github_begins_no_turn() {
    let place = place();
    let daemon = Daemon::start(&place);
    let of_kind = |event| {
        [
            ("X-Hub-Signature-256", SIGNATURE),
            ("X-GitHub-Event", event),
        ]
    };
    post(&daemon, "deploy", &of_kind("ping"), BODY).expect(204);
    post(&daemon, "deploy", &[("X-GitHub-Event", "ping")], BODY).expect(401);
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    assert_eq!(sessions["items"], serde_json::json!([]));
    post(&daemon, "deploy", &of_kind("push"), BODY).expect(202);
    daemon.stop();
}

#[test]
fn a_session_that_does_not_exist_is_told_to_who_knows_the_secret() {
    for session in ["dead-beef", "01921111-0000-7000-8000-000000000002"] {
        let place = place();
        let target = format!("session = {session:?}\ntask = ");
        place.set_config(place.config().replace("task = ", &target));
        let daemon = Daemon::start(&place);
        let secret = format!("Bearer {SECRET}");
        let keyed = [("Authorization", secret.as_str()), ("Idempotency-Key", "1")];
        // The request may come again, as its sender does after an error.
        for _ in 0..2 {
            let missing = post(&daemon, "deploy", &keyed, b"{}").expect(404);
            assert!(missing.problem("not_found").contains(session));
        }
        let wrong = [("Authorization", "Bearer x")];
        let refused = post(&daemon, "deploy", &wrong, b"{}").expect(401).text();
        assert!(!refused.contains(session), "{refused}");
        let sessions = daemon.get("/v1/sessions").expect(200).json();
        assert_eq!(sessions["items"], serde_json::json!([]));
        daemon.stop();
    }
}

#[test]
fn requests_at_the_same_time_have_one_session_with_the_label_of_their_trigger() {
    let place = place();
    let target = "session = \"purpose=deploys\"\ntask = ";
    place.set_config(place.config().replace("task = ", target));
    let daemon = Daemon::start(&place);
    let (address, secret) = (daemon.address.as_str(), format!("Bearer {SECRET}"));
    let headers = [
        ("Host", address),
        ("Content-Type", "application/json"),
        ("Authorization", secret.as_str()),
    ];
    let request = head("POST", "/v1/triggers/deploy", &headers, BODY.len());
    let sessions: BTreeSet<String> = thread::scope(|scope| {
        let sent: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| send_to(address, &request, BODY).expect(202).json()))
            .collect();
        let begun = sent.into_iter().map(|sent| sent.join().unwrap());
        begun.map(|begun| begun["session"].to_string()).collect()
    });
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let listed = daemon.get("/v1/sessions?label=purpose%3Ddeploys");
    let listed = listed.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    daemon.stop();
}

#[test]
fn a_trigger_without_a_secret_is_told_with_its_place() {
    let table: [(&str, &str); 3] = [
        ("", "has no secret"),
        ("secret_file = \"short\"", "shorter than 16"),
        ("secret_file = \"nowhere\"", "cannot be read"),
    ];
    for (secret, words) in table {
        let text = format!("[triggers.deploy]\ntask = \"Look.\"\n{secret}\n");
        let place = Place::with_config(&text);
        place.write("short", "abc");
        let checked = place.call(&["config", "check"]).expect(2);
        let output = &checked.stdout;
        output.has_all(&["unisono.toml:", words]);
    }
}

#[test]
fn a_trigger_whose_variable_is_not_set_refuses_requests_and_no_other_command() {
    let place = Place::with_config(
        "[triggers.deploy]\ntask = \"Look.\"\nsecret_env = \"NOT_SET_ANYWHERE\"\n",
    );
    let checked = place.call(&["config", "check"]).expect(0);
    for words in ["unisono.toml:", "warning", "NOT_SET_ANYWHERE is not set"] {
        assert!(checked.stdout.contains(words), "{}", checked.stdout);
    }
    place.says(&["sessions", "list"], &["NOT_SET_ANYWHERE is not set"]);
    let daemon = Daemon::start(&place);
    for secret in [
        "Bearer ",
        "Bearer NOT_SET_ANYWHERE",
        "Bearer 0123456789abcdef0123456789abcdef",
    ] {
        post(&daemon, "deploy", &[("Authorization", secret)], b"{}").expect(401);
    }
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    assert_eq!(sessions["items"], serde_json::json!([]));
    daemon.stop();
}
