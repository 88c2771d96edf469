//! Clients with short timeouts, and calls for them.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use unisono_context::Tokens;
use unisono_fake_provider::Dialect as Fake;
use unisono_model::client::{Call, Client};
use unisono_model::dialect::{Dialect, Mode};
use unisono_model::language::{Error, Listener, Reply};
use unisono_model::provider::{Key, Kind, RetryPolicy, Settings, Timeouts};

pub(crate) const KEY: &str = "test-key-0123456789";

/// A time within which everything ends, even on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// The dialects, and their names in the scripted provider.
pub(crate) const DIALECTS: [(Dialect, Fake); 4] = [
    (Dialect::OpenAiChat, Fake::OpenAiChat),
    (Dialect::OpenAiResponses, Fake::OpenAiResponses),
    (Dialect::Anthropic, Fake::Anthropic),
    (Dialect::Gemini, Fake::Gemini),
];

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Settings with short timeouts, three quick attempts and no circuit breaker.
pub(crate) fn settings(dialect: Dialect, url: &str) -> Settings {
    let kind = match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => Kind::OpenAi,
        Dialect::Anthropic => Kind::Anthropic,
        Dialect::Gemini => Kind::Gemini,
    };
    let key = Key::from_variables(&["TEST_KEY"], |_| Some(OsString::from(KEY))).unwrap();
    let mut settings = Settings::new("mine", kind, Some(url), key).unwrap();
    settings.dialect = dialect;
    settings.timeouts = Timeouts {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(10),
    };
    settings.retry = RetryPolicy {
        attempts: 3,
        base: ms(4),
        cap: ms(10),
        longest_wait: Duration::from_secs(3),
    };
    settings.breaker.failures = 0;
    settings
}

pub(crate) fn client(dialect: Dialect, url: &str) -> Client {
    Client::new(settings(dialect, url)).unwrap()
}

/// The beginning and the end of a body.
pub(crate) fn body(dialect: Dialect, mode: Mode) -> [Bytes; 2] {
    let (head, tail) = match dialect {
        Dialect::OpenAiChat => (
            r#"{"model":"fake-model","messages":["#,
            r#"{"role":"user","content":"Hello."}]"#,
        ),
        Dialect::OpenAiResponses => (
            r#"{"model":"fake-model","input":["#,
            r#"{"role":"user","content":"Hello."}]"#,
        ),
        Dialect::Anthropic => (
            r#"{"model":"fake-model","messages":["#,
            r#"{"role":"user","content":"Hello."}],"max_tokens":9"#,
        ),
        Dialect::Gemini => (
            r#"{"model":"models/fake-model","contents":["#,
            r#"{"role":"user","parts":[{"text":"Hello."}]}]"#,
        ),
    };
    let end = match (dialect, mode) {
        (Dialect::Gemini, _) | (_, Mode::Whole | Mode::Count) => "}",
        (Dialect::OpenAiChat, Mode::Stream) => {
            r#","stream":true,"stream_options":{"include_usage":true}}"#
        }
        (_, Mode::Stream) => r#","stream":true}"#,
    };
    [
        Bytes::from_static(head.as_bytes()),
        Bytes::from(format!("{tail}{end}")),
    ]
}

pub(crate) fn call(dialect: Dialect, mode: Mode) -> Call {
    Call {
        model: Arc::from("mine/fake-model"),
        name: Arc::from("fake-model"),
        mode,
        body: body(dialect, mode),
        tokens: Tokens(100),
        listener: Listener::NONE,
        patience: None,
        bounded: false,
        think_opened: false,
        on_first_event: None,
        on_interrupted: None,
    }
}

/// The reports to a call's listener.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    pub(crate) fn listener(&self) -> Listener {
        let heard = self.0.clone();
        Listener::new(move |text| heard.lock().unwrap().push(text.to_owned()))
    }

    pub(crate) fn pieces(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A streamed reply, which must arrive soon.
pub(crate) async fn reply(client: &Client) -> Result<Reply, Error> {
    soon(client.reply(call(client.settings().dialect, Mode::Stream))).await
}

/// The result of a future, which must end soon.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("still not over after {SOON:?}"),
    }
}
