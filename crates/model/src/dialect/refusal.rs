//! Shared parsing of error responses.

use crate::language::Class;
use crate::redact::redact;

use super::Failure;

/// The longest reason, in characters.
const MAX_REASON: usize = 300;
/// The bytes of a body that are read.
const MAX_READ: usize = 16 * 1024;

/// The class of a status, for a body without a class.
pub(super) const fn by_status(status: u16) -> Class {
    match status {
        401 | 403 => Class::Unauthorised,
        402 => Class::OutOfQuota,
        404 => Class::UnknownModel,
        413 => Class::Overflow { limit: None },
        429 => Class::RATE_LIMITED,
        408 | 409 | 500..=599 => Class::UNAVAILABLE,
        400..=499 => Class::BadRequest,
        _ => Class::BadReply,
    }
}

/// A failure whose body is not an error of the dialect: a proxy's page, plain text, nothing.
pub(crate) fn foreign(status: u16, body: &[u8]) -> Failure {
    let text = readable(body);
    if let Some(title) = page(&text) {
        // Not the model but the address is wrong.
        let class = match by_status(status) {
            Class::UnknownModel => Class::BadRequest,
            class => class,
        };
        return Failure::new(
            class,
            format!("HTTP {status} with {title}; check the address"),
        );
    }
    let said = reason(&text);
    let reason = if said.is_empty() {
        format!("HTTP {status} without a reason")
    } else {
        format!("HTTP {status}: {said}")
    };
    let class = by_status(status);
    // A server without that path does not speak of a model.
    let advice = match class == Class::UnknownModel && !said.to_ascii_lowercase().contains("model")
    {
        true => "; check the address",
        false => "",
    };
    Failure::new(class, format!("{reason}{advice}"))
}

/// A body or event that could not be read as the JSON it should be.
pub(super) fn unreadable(body: &[u8], error: &serde_json::Error) -> Failure {
    let reason = match page(&readable(body)) {
        Some(title) => format!("{title} came instead of a reply; check the address"),
        None => format!("the reply cannot be read: {}", reason(&error.to_string())),
    };
    Failure::new(Class::BadReply, reason)
}

/// The words of a provider on one line of bounded length, without control characters and
/// credentials.
pub(super) fn reason(text: &str) -> String {
    let text = redact(text);
    let words = text
        .split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty());
    let mut line = words.collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(MAX_REASON) {
        line.truncate(end);
        line.push('…');
    }
    line
}

pub(super) fn first_number(text: &str) -> Option<u64> {
    let digits = text.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|digits| digits.parse().ok()).next()
}

/// The start of a body as text.
fn readable(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(MAX_READ)]).into_owned()
}

/// The title of a web page; none: the text is not one.
fn page(text: &str) -> Option<String> {
    let lower = text.trim_start().to_ascii_lowercase();
    if !lower.starts_with("<!doctype") && !lower.starts_with("<html") {
        return None;
    }
    let title = lower.find("<title>").and_then(|at| {
        // Only ASCII is changed, so that positions are the same in both texts.
        let from = at + "<title>".len();
        let end = from + lower[from..].find('<')?;
        Some(reason(&text.trim_start()[from..end]))
    });
    Some(match title.filter(|title| !title.is_empty()) {
        Some(title) => format!("a web page (\"{title}\")"),
        None => "a web page".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    //! A reason is one bounded line without credentials; the page of a proxy is recognised.

    use super::*;

    #[test]
    fn a_reason_is_one_bounded_line() {
        assert_eq!(reason(" a\r\n\tb\u{0}\u{1b}[31mc "), "a b [31mc");
        let long = reason(&"é".repeat(1_000));
        assert_eq!(long.chars().count(), MAX_REASON + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_reason_holds_no_key() {
        let said = reason("wrong key sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWx given");
        assert!(!said.contains("AbCdEf"), "{said}");
        assert!(said.ends_with(" given"), "{said}");
    }

    #[test]
    fn a_page_of_a_proxy_is_named() {
        let page = "\n<!DOCTYPE html><html><head><TITLE>502 Bad\nGateway</TITLE></head></html>";
        assert_eq!(
            foreign(502, page.as_bytes()),
            Failure::new(
                Class::UNAVAILABLE,
                "HTTP 502 with a web page (\"502 Bad Gateway\"); check the address"
            )
        );
        assert_eq!(foreign(404, b"<html>").class, Class::BadRequest);
        assert_eq!(foreign(404, b"no such path").class, Class::UnknownModel);
    }

    #[test]
    fn an_address_without_a_model_behind_it_is_named() {
        for (body, reason) in [
            // Of Ollama, if the base URL lacks `/v1`.
            (
                "404 page not found",
                "HTTP 404: 404 page not found; check the address",
            ),
            ("", "HTTP 404 without a reason; check the address"),
            ("No such Model", "HTTP 404: No such Model"),
        ] {
            assert_eq!(foreign(404, body.as_bytes()).reason, reason);
        }
    }

    #[test]
    fn any_body_has_a_reason() {
        assert_eq!(foreign(418, b"").reason, "HTTP 418 without a reason");
        assert_eq!(foreign(503, b"\xffbusy\n").reason, "HTTP 503: \u{fffd}busy");
        assert_eq!(foreign(302, b"x").class, Class::BadReply);
        let cut = foreign(500, &[b'x'; 1 << 20]);
        assert!(cut.reason.chars().count() < MAX_REASON + 20);
    }

    #[test]
    fn numbers() {
        assert_eq!(first_number(" 200000 maximum, 3"), Some(200_000));
        assert_eq!(first_number("none"), None);
        assert_eq!(first_number("99999999999999999999999 7"), Some(7));
    }
}
