//! Removes the secrets of a provider's settings from the provider's message about a failed request.
//!
//! They are removed from the bytes of a response before any other processing: a message that was
//! shortened, or cleaned of likely API keys, may still contain a part of one.

use std::borrow::Cow;
use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::dialect::Failure;
use crate::provider::{Key, Settings};
use crate::redact::{REDACTED, redact};

/// Shorter keys and header values are words that servers without secrets want, such as `ollama`: they
/// may be part of an address, a name or any other word.
const SHORTEST: usize = 8;

/// The words before the credential of a header.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// The secrets of one provider, in every form in which a response may repeat them.
pub(super) struct Secrets {
    finder: Option<AhoCorasick>,
}

impl Secrets {
    pub(super) fn new(settings: &Settings) -> Secrets {
        Secrets::with_more(settings, &[])
    }

    pub(super) fn with_more(settings: &Settings, more: &[String]) -> Secrets {
        let key = settings.auth.key().map(Key::expose);
        let headers = settings.headers.iter();
        let values = headers.filter_map(|header| header.value().to_str().ok());
        let each = values.flat_map(|value| [Some(value), credential(value)]);
        let more = more.iter().map(String::as_str);
        let more = each.flatten().chain(more);
        let all = key.into_iter().chain(more);
        let secrets = all.filter(|secret| secret.len() >= SHORTEST);
        let forms: Vec<String> = secrets.flat_map(forms).collect();
        let mut builder = AhoCorasick::builder();
        let finder = builder.match_kind(MatchKind::LeftmostLongest).build(&forms);
        Secrets {
            // Fails only for gigabytes of forms; a key has at most 16 KiB.
            finder: finder.ok().filter(|_| !forms.is_empty()),
        }
    }

    /// A response without the secrets.
    pub(super) fn document<'b>(&self, body: &'b [u8]) -> Cow<'b, [u8]> {
        match &self.finder {
            Some(finder) if finder.is_match(body) => {
                let replaced = vec![REDACTED; finder.patterns_len()];
                Cow::Owned(finder.replace_all_bytes(body, &replaced))
            }
            Some(_) | None => Cow::Borrowed(body),
        }
    }

    /// Whether a text has one of the secrets.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let finder = self.finder.as_ref();
        finder.is_some_and(|finder| finder.is_match(text))
    }

    /// A text without the secrets and without likely keys.
    pub(super) fn text(&self, text: &str) -> String {
        let text = match &self.finder {
            Some(finder) => {
                let replaced = vec![REDACTED; finder.patterns_len()];
                Cow::Owned(finder.replace_all(text, &replaced))
            }
            None => Cow::Borrowed(text),
        };
        redact(&text).into_owned()
    }

    /// The failure of a response. If the response repeats a secret, it is parsed again without it
    /// (`reparse`).
    pub(super) fn without_secrets_in(
        &self,
        failure: Failure,
        body: &[u8],
        reparse: impl FnOnce(&[u8]) -> Option<Failure>,
    ) -> Failure {
        match self.document(body) {
            Cow::Borrowed(_) => failure,
            Cow::Owned(clean) => reparse(&clean).unwrap_or_else(|| {
                let reason = "the answer repeats the key and is not shown";
                Failure::new(failure.class, reason)
            }),
        }
    }
}

/// The credential in a header such as `Bearer <token>`, which a response may repeat alone.
fn credential(value: &str) -> Option<&str> {
    let (scheme, credential) = value.split_once(' ')?;
    let mut known = SCHEMES.iter();
    let is_known = known.any(|known| scheme.eq_ignore_ascii_case(known));
    is_known.then(|| credential.trim())
}

/// A secret in plain form, in JSON text, and in an address.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::Value::from(secret).to_string();
    let json = json.trim_matches('"').to_owned();
    let percent = |lower: bool| {
        let each = secret.bytes().map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ if lower => format!("%{byte:02x}"),
            _ => format!("%{byte:02X}"),
        });
        each.collect::<String>()
    };
    let mut forms = vec![
        secret.to_owned(),
        json.replace('/', r"\/"),
        json,
        percent(false),
        percent(true),
    ];
    forms.sort_unstable();
    forms.dedup();
    forms
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

#[cfg(test)]
mod tests {
    //! A secret is found in every form in which an answer may repeat it.

    use std::ffi::OsString;

    use super::*;
    use crate::language::Class;
    use crate::provider::{Header, Kind};

    /// The beginning looks like a known kind of key, and the end does not match that kind.
    const KEY: &str = r#"sk-0123456789abcdefghij/"\$%{tail}"#;

    fn secrets(key: &str) -> Secrets {
        let key = Key::from_variables(&["SOME_KEY"], |_| Some(OsString::from(key))).unwrap();
        Secrets::new(&Settings::new("mine", Kind::OpenAi, None, key).unwrap())
    }

    #[test]
    fn every_form_of_a_secret_is_removed() {
        let body = |form: &str| secrets(KEY).text(&format!("<{form}> is wrong"));
        for form in forms(KEY) {
            assert_eq!(body(&form), format!("<{REDACTED}> is wrong"), "{form}");
        }
        assert_eq!(forms("plain-key"), ["plain-key"]);
    }

    #[test]
    fn the_credential_of_a_header_is_removed_without_its_scheme() {
        let key = Key::from_variables(&["SOME_KEY"], |_| Some(OsString::from(KEY))).unwrap();
        let mut settings = Settings::new("mine", Kind::OpenAi, None, key).unwrap();
        let headers = [
            ("X-Auth", "bearer 0f3a9c7e55"),
            ("X-Team", "Northern Application"),
        ];
        let headers = headers.map(|(name, value)| Header::new(name, value).unwrap());
        settings.headers = headers.into();
        let secrets = Secrets::new(&settings);
        for (text, clean) in [
            ("<bearer 0f3a9c7e55> is old", format!("<{REDACTED}> is old")),
            ("<0f3a9c7e55> is old", format!("<{REDACTED}> is old")),
            ("an Application", "an Application".to_owned()),
        ] {
            assert_eq!(secrets.text(text), clean);
        }
    }

    #[test]
    fn a_document_stays_valid() {
        let document = serde_json::json!({"error": format!("{KEY} is wrong")}).to_string();
        let clean = secrets(KEY).document(document.as_bytes()).into_owned();
        let clean: serde_json::Value = serde_json::from_slice(&clean).unwrap();
        assert_eq!(clean["error"], format!("{REDACTED} is wrong"));
    }

    /// Such as the keys that local servers ignore: they would match addresses and names of fields.
    #[test]
    fn a_short_key_is_not_removed_from_other_words() {
        let text = r#"{"error": "nothing answers at `providers.ollama.base_url`"}"#;
        for key in ["e", "err", "ollama"] {
            let short = secrets(key);
            assert_eq!(short.text(text), text, "{key}");
            assert!(matches!(short.document(text.as_bytes()), Cow::Borrowed(_)));
        }
        assert_eq!(
            secrets("12345678").text("12345678!"),
            format!("{REDACTED}!")
        );
    }

    #[test]
    fn a_failure_is_parsed_again_without_the_secret() {
        let failure = |reason: &str| Failure::new(Class::BadReply, reason);
        let secrets = secrets(KEY);
        let clean = secrets.without_secrets_in(failure("as it was"), b"nothing of it", |_| None);
        assert_eq!(clean.reason, "as it was");
        let reparse = |body: &[u8]| Some(failure(&String::from_utf8_lossy(body)));
        let retold = secrets.without_secrets_in(failure("half a k"), KEY.as_bytes(), reparse);
        assert_eq!(retold.reason, REDACTED);
        let retold = secrets.without_secrets_in(failure("half a k"), KEY.as_bytes(), |_| None);
        assert_eq!(retold.reason, "the answer repeats the key and is not shown");
    }
}
