//! Tests that a key is removed from errors, wherever a provider repeats it, and that a key can be
//! replaced.

use std::sync::{Arc, Mutex};

use unisono_fake_provider::{Act, Answer, FakeProvider, Refusal, Script};
use unisono_model::client::Client;
use unisono_model::dialect::{Dialect, Mode};
use unisono_model::language::Class;
use unisono_model::provider::{Auth, Key};

use crate::setup::{DIALECTS, call, reply, settings, soon};

/// A self-hosted server may use any key: this one begins like a known kind of key and continues
/// differently, so that only a part of it looks like a key.
const UNUSUAL: &str = r#"sk-0123456789abcdefghij/"\$%{and-the-rest-of-it}"#;

#[tokio::test]
async fn an_unusual_key_is_removed_everywhere() {
    let error = |message: String| {
        serde_json::json!({"type": "error", "error": {"type": "x", "code": 400, "message": message}})
            .to_string()
    };
    // Reasons are truncated after 300 characters, here within the key.
    let late = format!("{} {UNUSUAL}", "x".repeat(280));
    let event = |data: String| {
        let events = format!("event: error\ndata: {data}\n\n");
        Act::document(200, "text/event-stream", events)
    };
    let acts = [
        Act::json(401, error(format!("bad key {UNUSUAL}"))),
        Act::json(400, error("x".to_owned())).header("x-request-id", UNUSUAL),
        Act::json(400, error(late.clone())),
        Act::json(200, error(late.clone())),
        Act::document(502, "text/plain", late.clone()),
        Act::document(400, "text/plain", error(late.clone()).replace('}', "")),
        event(error(late)),
    ];
    for (dialect, _) in DIALECTS {
        for act in &acts {
            let provider = FakeProvider::play(Script::always(act.clone())).await;
            let key = Key::from_variables(&["TEST_KEY"], |_| Some(UNUSUAL.into())).unwrap();
            let mut settings = settings(dialect, &provider.url());
            settings.retry.attempts = 1;
            settings.auth = Auth::Bearer(key.unwrap());
            let client = Client::new(settings).unwrap();
            let outcome = soon(client.reply(call(dialect, Mode::Stream))).await;
            let shown = outcome.unwrap_err().to_string();
            for part in ["0123456789", "$%", "and-the", "rest-of-it"] {
                assert!(!shown.contains(part), "{dialect:?} {act:?}: {shown}");
            }
        }
    }
}

#[tokio::test]
async fn a_refused_key_is_read_again_from_its_file() {
    let (old, new) = ("first-key-0123456789", "second-key-0123456789");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, old).unwrap();
    let valid = Arc::new(Mutex::new(old));
    let known = valid.clone();
    let script = Script::by(move |asked| {
        let expected = format!("Bearer {}", known.lock().unwrap());
        match asked.header("authorization") == Some(expected.as_str()) {
            true => Act::answer(Answer::text("Yes.")),
            false => Act::refuse(Refusal::Unauthorised),
        }
    });
    let provider = FakeProvider::play(script).await;
    let mut settings = settings(Dialect::OpenAiChat, &provider.url());
    settings.auth = Auth::Bearer(Key::from_file(&file).unwrap());
    settings.breaker.failures = 2;
    let client = Client::new(settings).unwrap();
    assert!(reply(&client).await.is_ok());

    *valid.lock().unwrap() = new;
    let refused = reply(&client).await.unwrap_err();
    assert_eq!(refused.class, Class::Unauthorised);
    assert_eq!(provider.request_count(), 2, "the file has the same key");
    std::fs::write(&file, format!("{new}\n")).unwrap();
    // The first one is sent with both keys.
    for requests in [4, 5] {
        assert!(reply(&client).await.is_ok());
        assert_eq!(provider.request_count(), requests);
    }

    let repeated = format!(r#"{{"error":{{"message":"{old} or {new}"}}}}"#);
    provider.set_script(Script::always(Act::json(400, repeated)));
    let shown = reply(&client).await.unwrap_err().to_string();
    assert!(!shown.contains("-key-0123456789"), "{shown}");
}
