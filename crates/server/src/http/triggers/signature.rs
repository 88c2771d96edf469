//! Verifies that a request knows a secret: pure, and in constant time for every kind of error.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::super::token::digest;

/// Maximum difference between the signer's clock and ours, in seconds.
const TOLERANCE_S: i64 = 300;
/// Maximum number of signatures that are checked: during the rotation of a secret there are two.
const MAX_SIGNATURES: usize = 8;
/// The prefix of Standard Webhooks before a Base64 secret.
const PREFIX: &str = "whsec_";

/// Whether a request proves that it knows the secret, in the way that its headers say. `now_s` is in
/// seconds since 1970.
pub(super) fn is_proven(secret: &str, headers: &HeaderMap, body: &[u8], now_s: i64) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(signatures) = text("webhook-signature") {
        let (Some(id), Some(at)) = (text("webhook-id"), text("webhook-timestamp")) else {
            return false;
        };
        let is_now = at
            .parse::<i64>()
            .is_ok_and(|at| at.abs_diff(now_s) <= TOLERANCE_S.unsigned_abs());
        let signed = [id.as_bytes(), b".", at.as_bytes(), b".", body];
        return is_now && is_of_standard(secret, signatures, &signed);
    }
    if let Some(signature) = text("x-hub-signature-256") {
        let hex = signature.strip_prefix("sha256=").and_then(unhex);
        return hex.is_some_and(|hex| is_signed(secret.as_bytes(), &hex, &[body]));
    }
    let bearer = text("authorization").and_then(|text| text.split_once(' '));
    bearer.is_some_and(|(scheme, token)| {
        // Digests are compared in constant time.
        scheme.eq_ignore_ascii_case("bearer") && digest(token.trim()) == digest(secret)
    })
}

/// Whether one of the signatures, `v1,<Base64>` each, is that of the secret.
fn is_of_standard(secret: &str, signatures: &str, signed: &[&[u8]]) -> bool {
    let key = match secret
        .strip_prefix(PREFIX)
        .map(|text| STANDARD.decode(text))
    {
        Some(Ok(key)) => key,
        // Any other text is the key itself.
        _ => secret.as_bytes().to_vec(),
    };
    let all = signatures.split(' ').take(MAX_SIGNATURES);
    let mut known = all.filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
    known.any(|signature| is_signed(&key, &signature, signed))
}

/// Whether `signature` is the HMAC-SHA256 of these bytes, compared in constant time.
fn is_signed(key: &[u8], signature: &[u8], signed: &[&[u8]]) -> bool {
    // It takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return false;
    };
    for part in signed {
        mac.update(part);
    }
    mac.verify_slice(signature).is_ok()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || text.len() != 64 {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    //! Requests as their senders sign them; numbers that others publish are among them.

    use super::*;

    const NOW: i64 = 1_614_265_330;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn github_signs_the_body() {
        // The example of GitHub's documentation.
        let secret = "It's a Secret to Everybody";
        let right = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let is = |secret: &str, signature: &str, body: &[u8]| {
            is_proven(
                secret,
                &headers(&[("x-hub-signature-256", signature)]),
                body,
                NOW,
            )
        };
        assert!(is(secret, right, b"Hello, World!"));
        assert!(!is(secret, right, b"Hello, World?"));
        assert!(!is("another", right, b"Hello, World!"));
        for wrong in rows! {
            "", "sha256=", &right[..70], &right[7..], "sha1=00", "sha256=zz",
        } {
            assert!(!is(secret, wrong, b"Hello, World!"), "{wrong}");
        }
    }

    #[test]
    fn standard_webhooks_sign_id_time_and_body() {
        // The example of the specification's libraries.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let (id, at) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
        let body = br#"{"test": 2432232314}"#;
        let right = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let is = |secret: &str, at: &str, signature: &str, body: &[u8], now: i64| {
            let pairs = [
                ("webhook-id", id),
                ("webhook-timestamp", at),
                ("webhook-signature", signature),
            ];
            is_proven(secret, &headers(&pairs), body, now)
        };
        assert!(is(secret, at, right, body, NOW));
        assert!(is(secret, at, right, body, NOW + TOLERANCE_S));
        let two = format!("v1a,AAAA {} {right}", "v1,AAAA");
        assert!(is(secret, at, &two, body, NOW), "one of several");
        assert!(
            !is(secret, at, right, body, NOW + TOLERANCE_S + 1),
            "too late"
        );
        assert!(
            !is(secret, at, right, body, NOW - TOLERANCE_S - 1),
            "too early"
        );
        assert!(!is(secret, "1614265331", right, body, NOW), "another time");
        assert!(!is(secret, "soon", right, body, NOW));
        assert!(!is(secret, at, right, b"{}", NOW));
        assert!(!is("whsec_AAAA", at, right, body, NOW));
        let many = format!("{} {right}", "v1,AAAA ".repeat(MAX_SIGNATURES).trim_end());
        assert!(!is(secret, at, &many, body, NOW), "too many to look at");
        let alone = headers(&[("webhook-signature", right)]);
        assert!(!is_proven(secret, &alone, body, NOW), "neither id nor time");
    }

    #[test]
    fn a_secret_can_be_sent_itself() {
        let secret = "0123456789abcdef";
        let is = |value: &str| is_proven(secret, &headers(&[("authorization", value)]), b"", NOW);
        assert!(is("Bearer 0123456789abcdef") && is("bearer  0123456789abcdef"));
        for wrong in [
            "",
            "Bearer",
            "Bearer 0123456789abcde",
            "Basic 0123456789abcdef",
            secret,
        ] {
            assert!(!is(wrong), "{wrong}");
        }
        assert!(!is_proven(secret, &HeaderMap::new(), b"", NOW));
        // Another valid credential does not make up for a wrong signature.
        let both = headers(&[
            ("authorization", "Bearer 0123456789abcdef"),
            ("x-hub-signature-256", "sha256=00"),
        ]);
        assert!(!is_proven(secret, &both, b"", NOW));
    }
}
