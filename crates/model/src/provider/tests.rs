//! Tests of settings: addresses, keys and headers, their errors, and that a key is never shown.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::*;
use crate::client::Client;

const SECRET: &str = "topsecret-0123456789";

fn key() -> Key {
    Key::from_variables(&["SOME_KEY"], |_| Some(OsString::from(SECRET)))
        .unwrap()
        .unwrap()
}

fn url(base: &str, path: &str) -> String {
    Address::parse(base).unwrap().url("m", path).to_string()
}

#[test]
fn urls_of_requests() {
    let table = rows! {
        (
            "https://api.openai.com/v1",
            "/chat/completions",
            "https://api.openai.com/v1/chat/completions",
        ),
        ("https://api.openai.com/v1/", "/responses", "https://api.openai.com/v1/responses"),
        (
            "http://localhost:11434/v1//",
            "/chat/completions",
            "http://localhost:11434/v1/chat/completions",
        ),
        ("http://localhost:8080", "/chat/completions", "http://localhost:8080/chat/completions"),
        (" https://h/a/b ", "/v1/messages", "https://h/a/b/v1/messages"),
        ("https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v", "/v1/messages", "https://api.anthropic.com/v/v1/messages"),
        (
            "https://generativelanguage.googleapis.com",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
        (
            "https://h/v1beta/",
            "/v1beta/models/m:countTokens",
            "https://h/v1beta/models/m:countTokens",
        ),
        ("http://[::1]:8080/v1", "/responses", "http://[::1]:8080/v1/responses"),
        ("https://h/chat", "/chat/completions", "https://h/chat/chat/completions"),
    };
    for (base, path, expected) in table {
        assert_eq!(url(base, path), expected);
    }
}

#[test]
fn urls_of_azure() {
    let mut address = Address::parse("https://res.openai.azure.com/").unwrap();
    address.deployments = true;
    address.api_version = Some("2024-10-21".to_owned());
    assert_eq!(
        address.url("my gpt", "/chat/completions").as_str(),
        "https://res.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"
    );
    // A deployment's name is no version.
    assert_eq!(
        address.url("chat", "/chat/completions").as_str(),
        "https://res.openai.azure.com/openai/deployments/chat/chat/completions?api-version=2024-10-21"
    );
    assert_eq!(
        address.url("my gpt", "/responses").as_str(),
        "https://res.openai.azure.com/openai/responses?api-version=2024-10-21"
    );
    let mut newer = Address::parse("https://res.openai.azure.com/openai/v1").unwrap();
    newer.api_version = Some("preview".to_owned());
    for deployments in [false, true] {
        newer.deployments = deployments;
        assert_eq!(
            newer.url("m", "/responses?a=b").as_str(),
            "https://res.openai.azure.com/openai/v1/responses?a=b&api-version=preview"
        );
    }
}

#[test]
fn invalid_addresses_are_rejected() {
    let table = rows! {
        ("localhost:11434/v1", "has no scheme; write http://… or https://…"),
        ("api.openai.com", "has no scheme"),
        ("", "has no scheme"),
        ("ftp://h/v1", "has the scheme `ftp`"),
        ("http://", "cannot be read"),
        ("http://h:port/", "cannot be read"),
        ("https://h/v1?key=topsecret", "has a query or fragment"),
        ("https://h/v1#topsecret", "has a query or fragment"),
        ("https://user:topsecret@h/v1", "contains a user or password"),
        ("https://topsecret@h/v1", "contains a user or password"),
        ("topsecret@h", "has no scheme"),
        ("https://h/v1/chat/completions", "ends in `/chat/completions`"),
        ("https://h/v1/messages/", "ends in `/messages`"),
    };
    for (text, expected) in table {
        let error = Address::parse(text).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(expected), "{text}: {shown}");
        assert!(
            !shown.contains("topsecret") && !format!("{error:?}").contains("topsecret"),
            "{shown}"
        );
    }
}

#[test]
fn loopback_addresses_are_recognised() {
    let table = [
        ("http://localhost:1", true),
        ("http://api.localhost", true),
        ("http://127.0.0.1:8080/v1", true),
        ("http://127.8.8.8", true),
        ("http://[::1]:80", true),
        ("http://10.0.0.1", false),
        ("https://api.openai.com/v1", false),
        ("http://notlocalhost", false),
    ];
    for (text, expected) in table {
        assert_eq!(
            Address::parse(text).unwrap().is_loopback(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn every_kind_has_its_defaults() {
    let table: Vec<String> = Kind::ALL
        .iter()
        .map(|kind| {
            assert_eq!(Kind::from_name(kind.name()), Some(*kind));
            let auth = match kind.auth(key()) {
                Auth::Header(name, _) => name.to_string(),
                Auth::Bearer(_) => "bearer".to_owned(),
                Auth::None => "none".to_owned(),
            };
            let address = kind.address().unwrap_or("-");
            let variables = kind.key_variables().join(", ");
            format!(
                "{kind}: {address} {} {auth} {variables}",
                kind.dialect().name()
            )
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"), @r"
    openai: https://api.openai.com/v1 openai-chat bearer OPENAI_API_KEY
    anthropic: https://api.anthropic.com anthropic x-api-key ANTHROPIC_API_KEY
    gemini: https://generativelanguage.googleapis.com gemini x-goog-api-key GEMINI_API_KEY, GOOGLE_API_KEY
    azure: - openai-chat api-key AZURE_OPENAI_API_KEY
    openai-compatible: - openai-chat bearer
    ");
    assert_eq!(Kind::from_name("open-ai"), None);
}

#[test]
fn invalid_settings_are_rejected() {
    let none = Settings::new("local", Kind::Compatible, None, None).unwrap_err();
    assert_eq!(
        none.to_string(),
        "provider `local`: openai-compatible has no default address; set its base URL"
    );
    let bad = Settings::new("local", Kind::Compatible, Some("localhost:1"), None).unwrap_err();
    assert_eq!(
        bad.to_string(),
        "provider `local`: the address `localhost:1` has no scheme; write http://… or https://…"
    );
    let mut zero = Settings::new("openai", Kind::OpenAi, None, None).unwrap();
    assert_eq!(zero.check(), Ok(()));
    zero.timeouts.idle = Duration::ZERO;
    assert_eq!(
        zero.check().unwrap_err().to_string(),
        "provider `openai`: the idle timeout is zero; no request could ever be answered"
    );
}

#[test]
fn keys_from_variables() {
    let look = |value: &'static str| {
        let name = |name: &str| (name == "B").then(|| OsString::from(value));
        Key::from_variables(&["A", "B"], name)
    };
    let found = look(" abc\n").unwrap().unwrap();
    assert_eq!(
        (found.expose(), found.source().to_string()),
        ("abc", "the variable B".to_owned())
    );
    assert!(
        look("").unwrap().is_none() && look("  ").unwrap().is_none(),
        "empty is unset"
    );
    assert!(Key::from_variables(&["A"], |_| None).unwrap().is_none());
    let first = Key::from_variables(&["A", "B"], |name| Some(OsString::from(name))).unwrap();
    assert_eq!(first.unwrap().expose(), "A");
    for (value, what) in [
        ("topsecret\nkey", "a line break"),
        ("topsecret key", "a space"),
        ("topsecret\u{7}", "a control character"),
        ("topsecretß", "a character beyond ASCII"),
    ] {
        let error = look(value).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains(what) && shown.contains("the variable B"),
            "{shown}"
        );
        assert!(!shown.contains("topsecret"), "{shown}");
    }
}

fn private(path: &Path, mode: u32) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let _ = (path, mode);
}

#[test]
fn keys_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let write = |text: &str| {
        fs::write(&path, text).unwrap();
        private(&path, 0o600);
        Key::from_file(&path)
    };
    let key = write("\n abc \r\n").unwrap();
    assert_eq!((key.expose(), key.warning()), ("abc", None));
    assert_eq!(key.source(), &KeySource::File(Arc::from(path.as_path())));
    let empty = write(" \n").unwrap_err().to_string();
    assert!(
        empty.contains("is empty") && empty.contains("key"),
        "{empty}"
    );
    let two = write("topsecret\ntopsecret\n").unwrap_err().to_string();
    assert!(
        two.contains("a line break") && !two.contains("topsecret"),
        "{two}"
    );
    let long = write(&"x".repeat(20_000)).unwrap_err().to_string();
    assert!(long.contains("more than 16384 bytes"), "{long}");
    let missing = Key::from_file(&folder.path().join("none"))
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("none") && missing.contains("cannot be read"),
        "{missing}"
    );
}

#[cfg(unix)]
#[test]
fn a_key_file_readable_by_others_gives_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, "abc").unwrap();
    for (mode, exposed) in [(0o600, false), (0o640, true), (0o604, true), (0o400, false)] {
        private(&path, mode);
        let key = Key::from_file(&path).unwrap();
        assert_eq!(key.warning().is_some(), exposed, "{mode:o}");
    }
    private(&path, 0o644);
    let warning = Key::from_file(&path)
        .unwrap()
        .warning()
        .unwrap()
        .to_string();
    assert!(warning.contains("chmod 600"), "{warning}");
}

#[test]
fn headers_that_settings_may_add() {
    let header = Header::new("X-Title", "unisono").unwrap();
    assert_eq!(header.name().as_str(), "x-title");
    for (name, value, expected) in [
        ("bad name", "x", "`bad name` is not a header's name"),
        ("", "x", "is not a header's name"),
        ("x-a", "topsecret\n", "the value of header `x-a`"),
        ("Content-Length", "1", "cannot be set"),
        ("host", "h", "cannot be set"),
    ] {
        let error = Header::new(name, value).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains(expected) && !shown.contains("topsecret"),
            "{shown}"
        );
    }
}

#[test]
fn no_key_is_ever_shown() {
    for kind in Kind::ALL {
        let mut settings =
            Settings::new("mine", kind, Some("http://127.0.0.1:9"), Some(key())).unwrap();
        settings.headers = vec![Header::new("x-extra", SECRET).unwrap()];
        let client = Client::new(settings.clone()).unwrap();
        let shown = [
            format!("{:?} {:#?}", key(), key()),
            format!("{:?} {:#?}", settings.auth, settings.auth),
            format!("{settings:?} {settings:#?}"),
            format!("{client:?} {client:#?}"),
        ];
        for shown in shown {
            assert!(!shown.contains(SECRET), "{shown}");
            assert!(shown.contains("[redacted]"), "{shown}");
            assert!(shown.contains("SOME_KEY"), "{shown}");
        }
    }
}
