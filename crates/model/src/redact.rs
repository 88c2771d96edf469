//! Removes credentials from text that is kept.
//!
//! Known forms of API keys (`sk-…`, `AKIA…`, `ghp_…`, bearer tokens, JSON web tokens, private key
//! blocks), values of `password=`-like settings, and passwords in addresses. A text without any of
//! these beginnings is returned unchanged, after one pass over its bytes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Replaces a credential.
pub const REDACTED: &str = "[redacted]";

/// The maximum length of a credential on one line. It bounds the search, so that hostile texts take
/// linear time.
const MAX_SCAN: usize = 8 * 1024;
/// The maximum length of a setting or of an address with a password.
const MAX_SETTING: usize = 256;

/// How a credential with a known beginning continues.
#[derive(Clone, Copy)]
enum Shape {
    /// The beginning and at least this many key characters.
    Key(usize),
    /// After the beginning, at least this many key characters; the beginning is kept.
    After(usize),
    /// Three parts joined by points.
    WebToken,
    /// Up to the end of its block.
    Block,
    /// The value of a setting.
    Setting,
    /// `user:password@` after the beginning.
    Address,
}

const SIGNS: &[(&str, Shape)] = &[
    ("sk-", Shape::Key(16)),
    ("sk_live_", Shape::Key(16)),
    ("sk_test_", Shape::Key(16)),
    ("rk_live_", Shape::Key(16)),
    ("AKIA", Shape::Key(16)),
    ("ASIA", Shape::Key(16)),
    ("AIza", Shape::Key(30)),
    ("ghp_", Shape::Key(20)),
    ("gho_", Shape::Key(20)),
    ("ghs_", Shape::Key(20)),
    ("github_pat_", Shape::Key(20)),
    ("glpat-", Shape::Key(16)),
    ("xoxb-", Shape::Key(10)),
    ("xoxp-", Shape::Key(10)),
    ("hf_", Shape::Key(20)),
    ("npm_", Shape::Key(20)),
    ("Bearer ", Shape::After(16)),
    ("bearer ", Shape::After(16)),
    ("eyJ", Shape::WebToken),
    ("-----BEGIN ", Shape::Block),
    ("password", Shape::Setting),
    ("passwd", Shape::Setting),
    ("PASSWORD", Shape::Setting),
    ("Password", Shape::Setting),
    ("secret", Shape::Setting),
    ("SECRET", Shape::Setting),
    ("api_key", Shape::Setting),
    ("API_KEY", Shape::Setting),
    ("apikey", Shape::Setting),
    ("access_token", Shape::Setting),
    ("ACCESS_TOKEN", Shape::Setting),
    ("://", Shape::Address),
];

/// The text with every credential replaced by [`REDACTED`].
pub fn redact(text: &str) -> Cow<'_, str> {
    let Some(signs) = signs() else {
        return Cow::Borrowed(text);
    };
    let mut out = String::new();
    let mut copied = 0;
    // A run of key characters that is not a web token contains none later either.
    let mut no_token_before = 0;
    for sign in signs.find_iter(text) {
        if sign.start() < copied {
            continue;
        }
        let shape = SIGNS[sign.pattern().as_usize()].1;
        if matches!(shape, Shape::WebToken) && sign.start() < no_token_before {
            continue;
        }
        if let Some(secret) = secret(text, sign.start()..sign.end(), shape) {
            out.push_str(&text[copied..secret.start]);
            out.push_str(REDACTED);
            copied = secret.end;
        } else if matches!(shape, Shape::WebToken) {
            no_token_before = key_end(text, sign.end());
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

fn signs() -> Option<&'static AhoCorasick> {
    static SIGN: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let build = || {
        let patterns = SIGNS.iter().map(|(sign, _)| sign);
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::DFA))
            .build(patterns)
            .ok()
    };
    SIGN.get_or_init(build).as_ref()
}

fn secret(text: &str, sign: Range<usize>, shape: Shape) -> Option<Range<usize>> {
    let inside_word = text[..sign.start].ends_with(|c: char| c.is_ascii_alphanumeric());
    match shape {
        Shape::Key(least) if !inside_word => {
            let end = key_end(text, sign.end);
            (end - sign.end >= least).then_some(sign.start..end)
        }
        Shape::After(least) if !inside_word => {
            let end = key_end(text, sign.end);
            (end - sign.end >= least).then_some(sign.end..end)
        }
        Shape::WebToken if !inside_word => {
            let end = key_end(text, sign.end);
            let parts = text[sign.start..end]
                .split('.')
                .filter(|part| part.len() >= 8)
                .count();
            (parts >= 3).then_some(sign.start..end)
        }
        Shape::Block => block_end(text, sign.clone()).map(|end| sign.start..end),
        Shape::Setting => setting_value(text, sign.end),
        Shape::Address => address_password(text, sign.end),
        _ => None,
    }
}

/// The nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|&i| text.is_char_boundary(i))
        .unwrap_or(0)
}

fn key_end(text: &str, from: usize) -> usize {
    let is_key = |b: &u8| b.is_ascii_alphanumeric() || b"_-./+=~".contains(b);
    let bytes = text.as_bytes()[from..].iter().take(MAX_SCAN);
    let length = bytes.take_while(|b| is_key(b)).count();
    from + text[from..from + length]
        .trim_end_matches(['.', '-', '=', '/'])
        .len()
}

fn block_end(text: &str, sign: Range<usize>) -> Option<usize> {
    let first_line = &text[sign.end..floor(text, sign.end + 40)];
    first_line.contains("PRIVATE KEY-----").then(|| {
        let close = text[sign.end..]
            .find("-----END ")
            .map(|at| sign.end + at + 5);
        let end = close.and_then(|at| text[at..].find("-----").map(|n| at + n + 5));
        end.unwrap_or(text.len())
    })
}

/// `password = "…"`, `"password": "…"`: a value without spaces that has letters and digits.
fn setting_value(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = &text[from..floor(text, from + MAX_SETTING)];
    let gap = rest.trim_start_matches(['"', '\'', '`']).trim_start();
    let value = gap
        .strip_prefix(['=', ':'])?
        .trim_start_matches([' ', '"', '\'', '`', '=']);
    let start = from + rest.len() - value.len();
    let stop = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '}' | ')');
    let value = &value[..value.find(stop).unwrap_or(value.len())];
    let digit = value.bytes().any(|b| b.is_ascii_digit());
    let letter = value.bytes().any(|b| b.is_ascii_alphabetic());
    (value.len() >= 8 && digit && letter).then_some(start..start + value.len())
}

fn address_password(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = &text.as_bytes()[from..];
    let end = rest
        .iter()
        .take(MAX_SETTING)
        .position(|b| b.is_ascii_whitespace() || *b == b'/');
    let host = &rest[..end.unwrap_or(rest.len().min(MAX_SETTING))];
    let at = host.iter().rposition(|&b| b == b'@')?;
    let colon = host[..at].iter().position(|&b| b == b':')?;
    (at > colon + 1).then_some(from + colon + 1..from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_replaced() {
        let rows = rows! {
            ("use sk-proj-abcdefghij0123456789 now", "use [redacted] now"),
            ("key AKIAIOSFODNN7EXAMPLE.", "key [redacted]."),
            ("Authorization: Bearer abcdef0123456789abcd", "Authorization: Bearer [redacted]"),
            ("t=eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM4 end", "t=[redacted] end"),
            ("DB_PASSWORD=hunter2hunter2; x", "DB_PASSWORD=[redacted]; x"),
            ("{\"api_key\": \"a1b2c3d4e5\"}", "{\"api_key\": \"[redacted]\"}"),
            ("postgres://app:s3cret@db:5432/x", "postgres://app:[redacted]@db:5432/x"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nb",
                "a\n[redacted]\nb",
            ),
        };
        for (text, expected) in rows {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn ordinary_text_stays() {
        let rows = [
            "the task-based risk-free sk-learn",
            "the password policy: at least 12 characters",
            "https://example.org/a:b@c and user@example.org",
            "-----BEGIN CERTIFICATE-----",
            "Bearer of bad news, secret: nobody knows",
            "AKIAs are birds",
        ];
        for text in rows {
            assert_eq!(redact(text), text);
        }
    }
}
