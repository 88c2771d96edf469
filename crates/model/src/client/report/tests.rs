//! Tests of error messages, and that they never contain a key.

use std::ffi::OsString;

use super::*;
use crate::provider::{Header, Key, Kind};
use crate::redact::REDACTED;

const KEY: &str = "k-0123456789";

fn settings(kind: Kind, with_key: bool) -> Settings {
    let address = kind.address().unwrap_or("http://127.0.0.1:9");
    let key = Key::from_variables(&["SOME_KEY"], |_| with_key.then(|| OsString::from(KEY)));
    Settings::new("mine", kind, Some(address), key.unwrap()).unwrap()
}

fn message(settings: &Settings, failure: &Failure, ending: &str) -> String {
    reason(settings, &Secrets::new(settings), failure, ending)
}

fn unauthorised(reason: &str) -> Failure {
    Failure::new(Class::Unauthorised, reason)
}

#[test]
fn a_wrong_key_is_named_by_where_it_came_from() {
    let text = message(
        &settings(Kind::OpenAi, true),
        &unauthorised("invalid key"),
        "",
    );
    assert_eq!(
        text,
        "provider `mine` refuses the key from the variable SOME_KEY: invalid key; put a valid \
         key there"
    );
}

#[test]
fn a_missing_key_is_named_by_where_it_is_looked_for() {
    let text_for = |kind| message(&settings(kind, false), &unauthorised("no key"), "");
    let openai = text_for(Kind::OpenAi);
    assert!(openai.ends_with("no key; set OPENAI_API_KEY"), "{openai}");
    let gemini = text_for(Kind::Gemini);
    assert!(
        gemini.ends_with("set GEMINI_API_KEY or GOOGLE_API_KEY"),
        "{gemini}"
    );
    let local = text_for(Kind::Compatible);
    assert!(local.contains("name a variable or a file"), "{local}");
}

#[test]
fn a_key_in_the_response_is_removed() {
    let mut settings = settings(Kind::OpenAi, true);
    settings.headers = vec![Header::new("x-tenant", "tenant-secret-1").unwrap()];
    let text = message(
        &settings,
        &unauthorised(&format!(
            "`{KEY}` is wrong, so is sk-abcdefghijklmnopqrstuvwx"
        )),
        &format!("; then {KEY} and tenant-secret-1 again"),
    );
    assert!(!text.contains(KEY) && !text.contains("sk-abc"), "{text}");
    assert!(!text.contains("tenant-secret-1"), "{text}");
    assert_eq!(text.matches(REDACTED).count(), 4, "{text}");
}

#[test]
fn long_reasons_are_cut_between_characters() {
    let failure = Failure::new(Class::BadReply, "ß".repeat(LONGEST + 1));
    let text = message(&settings(Kind::OpenAi, true), &failure, "; the end");
    assert_eq!(text.chars().count(), LONGEST + "…; the end".chars().count());
    assert!(text.ends_with("ß…; the end"));
}

#[test]
fn a_proxy_is_named_by_its_variable() {
    let rows: [(&str, &[&str], Option<&str>); 5] = [
        ("https://api.test", &["HTTPS_PROXY"], Some("HTTPS_PROXY")),
        ("https://api.test", &["HTTP_PROXY"], None),
        (
            "http://api.test",
            &["HTTP_PROXY", "all_proxy"],
            Some("HTTP_PROXY"),
        ),
        ("http://api.test", &["ALL_PROXY"], Some("ALL_PROXY")),
        ("http://127.0.0.1:9", &["HTTP_PROXY"], None),
    ];
    for (address, variables, expected) in rows {
        let address = Address::parse(address).unwrap();
        let found = proxy_variable(&address, |name| variables.contains(&name));
        assert_eq!(found, expected, "{address:?}");
    }
}
