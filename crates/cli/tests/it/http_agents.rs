//! Agents that are servers, asked by the real program.

use serde_json::Value;
use unisono_fake_provider::{Act, FakeProvider, Script};

use crate::support::{Done, Place, finish};

const TOKEN: &str = "a-token-of-ones-own-0123456789";
const ASK: [&str; 7] = [
    "run",
    "talk.json",
    "--agents",
    "far,facts",
    "--task",
    "When?",
    "--json",
];

fn server(script: Script) -> FakeProvider {
    FakeProvider::play_on_thread(script)
}

/// An agent behind that address, beside one that works.
fn place(url: &str, more: &str) -> Place {
    let place = Place::with_config(&format!(
        "[models]\ndefault = \"extractive\"\n\
         [agents.far]\ndescription = \"Far\"\nkind = \"http\"\n\
         url = \"{url}/v1/chat/completions?for=us\"\n\
         headers = {{ Authorization = \"Bearer ${{FAR_TOKEN}}\", X-Tenant = \"north\" }}\n{more}"
    ));
    place.talk();
    place
}

fn run(place: &Place) -> Done {
    let mut command = place.command(&ASK);
    command.env("FAR_TOKEN", TOKEN);
    finish(command.spawn().unwrap(), &ASK)
}

#[test]
fn a_server_is_given_the_task_and_answers() {
    let answer = r#"{"text":"On Friday, says the server.","partial":"no calendar"}"#;
    let server = server(Script::always(Act::json(200, answer)));
    let place = place(&server.url(), "");
    let report = run(&place).expect(0).json();
    let far = &report["runs"][0];
    assert_eq!(far["text"], "On Friday, says the server.");
    assert_eq!(
        (&far["state"], &far["reason"]),
        (&"partial".into(), &"no calendar".into())
    );

    let [asked] = &server.requests()[..] else {
        panic!("one request");
    };
    assert_eq!(
        (asked.method.as_str(), asked.query.as_str()),
        ("POST", "for=us")
    );
    let header = |name: &str| asked.header(name).unwrap_or_default();
    assert_eq!(header("authorization"), format!("Bearer {TOKEN}"));
    assert_eq!(header("x-tenant"), "north");
    assert_eq!(header("content-type"), "application/json");
    let document = asked.json();
    assert_eq!(document["agent"]["id"], "far");
    assert!(
        asked
            .body
            .windows(18)
            .any(|bytes| bytes == b"We ship on Friday.")
    );

    // The token is in the request and nowhere else.
    let session = report["session"].as_str().unwrap();
    let events = format!("{:?}", place.events(session));
    assert!(events.contains("Bearer ${FAR_TOKEN}"));
    assert!(!events.contains(TOKEN));
    let shown = place.call(&["agents", "show", "far"]).expect(0).stdout;
    assert!(shown.contains("http: http://127.0.0.1:"), "{shown}");
    let shown = place.json(&["agents", "show", "far"]);
    assert_eq!(shown["http"]["headers"]["X-Tenant"], "north");

    // No model of ours is shown.
    assert_eq!(shown["model"], Value::Null);
    let listed = place.json(&["agents", "list"]);
    let mut listed = listed.as_array().unwrap().iter();
    let listed = listed.find(|agent| agent["agent"] == "far").unwrap();
    assert_eq!(listed["model"], Value::Null, "{listed}");
    let run = far["run"].as_str().unwrap();
    assert_eq!(place.json(&["runs", "show", run])["model"], Value::Null);
    let shown = place.call(&["runs", "show", run]).expect(0).stdout;
    let mut lines = shown.lines();
    assert!(
        lines.any(|line| line.split_whitespace().eq(["agent", "far"])),
        "{shown}"
    );

    // What was sent is made again from the journal, byte for byte, and nothing is asked.
    let replayed = place.json(&["replay"]);
    assert_eq!(replayed["mismatches"], 0, "{replayed}");
    assert!(replayed.to_string().contains("for=us"), "{replayed}");
    assert_eq!(server.request_count(), 1);
}

#[test]
fn a_server_that_fails_is_asked_again_as_its_retries_say_under_one_key() {
    let answered = Act::document(200, "text/plain", "at last");
    let script = Script::sequence([
        Act::json(503, "{}").header("retry-after-ms", "5"),
        Act::json(500, "{}"),
        answered,
    ]);
    let server = server(script);
    let report = run(&place(&server.url(), "retries = 2\n")).expect(0).json();
    assert_eq!(report["runs"][0]["text"], "at last");
    let requests = server.requests();
    let keys: Vec<_> = requests
        .iter()
        .map(|r| r.header("idempotency-key"))
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(
        keys[0].is_some() && keys.iter().all(|key| *key == keys[0]),
        "{keys:?}"
    );

    // Once only where its definition says so, and where asking again is of no use.
    let table = rows! {
        (Act::json(500, "{}"), "retries = 0\n", "provider_unavailable", "HTTP 500"),
        (Act::json(403, "{}"), "retries = 2\n", "provider_rejected", "HTTP 403"),
        (Act::html(200), "retries = 0\n", "bad_output", "must be JSON or plain text"),
        (Act::silence(), "retries = 0\ntimeout = \"300ms\"\n", "timeout", "within 0.3 s"),
    };
    for (act, more, cause, words) in table {
        let server = self::server(Script::always(act));
        let done = run(&place(&server.url(), more)).expect(4);
        let report = done.says(&[words, "1 of 3 agents failed: far"]).json();
        assert_eq!(report["runs"][0]["cause"], cause);
        assert_eq!(report["runs"][1]["state"], "done");
        assert_eq!(server.request_count(), 1, "{words}");
    }
}

#[test]
fn a_variable_that_is_not_set_is_told_before_and_when_it_is_needed() {
    let place = place("http://127.0.0.1:9", "retries = 0\n");
    let words =
        "header `Authorization` takes its value from the variable FAR_TOKEN, which is not set";
    let checked = place.call(&["agents", "check"]);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    assert!(said.contains(words), "{said}");
    let report = place.call(&ASK).expect(4).says(&[words]).json();
    assert_eq!(report["runs"][0]["cause"], "bad_input");
}
