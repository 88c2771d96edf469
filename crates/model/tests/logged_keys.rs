//! A test that keys are in requests and nowhere else: not in errors, not in logs, and not in debug
//! output.
//!
//! The file has only this test: `tracing` may disable a log statement for good if another thread
//! reaches it first, without a subscriber.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is test code"
)]

#[path = "client/setup.rs"]
#[allow(dead_code, reason = "this test needs a part of it")]
mod setup;

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::filter::LevelFilter;
use unisono_fake_provider::{Act, FakeProvider, Refusal, Script};
use unisono_model::client::Client;
use unisono_model::dialect::Mode;
use unisono_model::provider::Header;

use setup::{DIALECTS, KEY, call, ms, settings, soon};

/// The value of an extra header, as secret as a key.
const TENANT: &str = "tenant-secret-0123";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

fn acts() -> Vec<Act> {
    let echo = format!(r#"{{"error":{{"type":"x","message":"bad key {KEY} of {TENANT}"}}}}"#);
    vec![
        Act::answer("Hello."),
        Act::refuse(Refusal::Unauthorised),
        Act::json(401, echo.clone()),
        Act::json(400, echo.clone()),
        Act::json(500, echo.clone()),
        Act::json(200, echo.clone()),
        Act::document(502, "text/html", format!("<html>{KEY} {TENANT}</html>")),
        Act::html(307).header("location", &format!("http://x/?key={KEY}")),
        Act::silence(),
    ]
}

#[tokio::test]
async fn a_key_is_in_no_error_and_no_log() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // The runtime of the test has one thread, so all events are logged in it.
    let _guard = tracing::subscriber::set_default(subscriber);
    for (dialect, _) in DIALECTS {
        for act in acts() {
            let provider = FakeProvider::play(Script::always(act)).await;
            let mut settings = settings(dialect, &provider.url());
            settings.timeouts.first_byte = ms(100);
            settings.headers = vec![Header::new("x-tenant", TENANT).unwrap()];
            let client = Client::new(settings).unwrap();
            let outcome = soon(client.reply(call(dialect, Mode::Stream))).await;
            let sent = provider.requests().pop().unwrap();
            assert!(sent.headers.iter().any(|(_, value)| value.contains(KEY)));
            if let Err(error) = outcome {
                let shown = format!("{error} {error:?} {error:#?}");
                assert!(!shown.contains(KEY) && !shown.contains(TENANT), "{shown}");
            }
            assert!(!format!("{client:?}").contains(KEY));
        }
    }
    let log = log.text();
    for secret in [KEY, TENANT] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
    }
    assert!(
        log.contains("model request{model=\"mine/fake-model\" attempt=1 status=200"),
        "{log}"
    );
    assert!(log.contains("request_id=\"req_0\""), "{log}");
    assert!(!log.contains("\"content\":\"Hello.\""), "no bodies either");
}
