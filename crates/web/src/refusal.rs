//! The way back from a refused form, with what was written in it.
//!
//! A problem page is rendered without the request. This replaces a placeholder in the finished page.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use crate::finished_page::{changed, is_page};

/// The placeholder in a page. Text of conversations is escaped and cannot have it.
pub(crate) const PLACEHOLDER: &str = "<!--way-back-->";

/// Maximum bytes of a form that is shown again.
const MAX_BYTES: u64 = 256 * 1024;
/// Fields that a person does not write.
const HIDDEN: [&str; 11] = [
    "at",
    "back",
    "branch",
    "confirmed",
    "decision",
    "digest",
    "key",
    "message",
    "part",
    "pinned",
    "seen",
];
/// Texts from this length on get a field of several lines.
const LONG: usize = 80;

/// Lets the page of a refused form lead back to where the form is, with what was written in it.
pub async fn with_way_back(request: Request, next: Next) -> Response {
    let from = came_from(request.headers());
    if request.method() != Method::POST || !is_form(request.headers()) {
        let response = next.run(request).await;
        return put(response, from.as_deref(), None).await;
    }
    let action = request.uri().to_string();
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_BYTES as usize).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let request = Request::from_parts(parts, Body::from(bytes.clone()));
    let response = next.run(request).await;
    put(response, from.as_deref(), Some((&action, bytes))).await
}

/// The same for a request that was refused before its form was read.
pub async fn refused_with_way_back(request: Request, refusal: Response) -> Response {
    let from = came_from(request.headers());
    let action = request.uri().to_string();
    let form = match request.method() == Method::POST && is_form(request.headers()) {
        true => to_bytes(request.into_body(), MAX_BYTES as usize).await.ok(),
        false => None,
    };
    let form = form.map(|form| (action.as_str(), form));
    put(refusal, from.as_deref(), form).await
}

/// Whether the body is a form without files that is small enough to be kept.
fn is_form(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    kind.starts_with("application/x-www-form-urlencoded")
        && length.is_some_and(|length| length <= MAX_BYTES)
}

/// The path of the page of this server that a request came from.
fn came_from(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name)?.to_str().ok();
    let (referer, host) = (text(header::REFERER)?, text(header::HOST)?);
    let (_, rest) = referer.split_once("://")?;
    let path = rest.strip_prefix(host)?;
    let path = path.split('#').next().unwrap_or_default();
    (path.starts_with('/') && !path.starts_with("//") && !path.contains('\\'))
        .then(|| path.to_owned())
}

/// The page that a request came from, with its query, if a link can lead to it.
pub fn opened_page(headers: &HeaderMap) -> Option<String> {
    came_from(headers).filter(|address| is_opened(address))
}

/// Whether a link can lead to an address: it is a page of this server, and no file, no part of a page
/// and not the address of a form.
pub fn is_opened(address: &str) -> bool {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let Some(path) = path.strip_prefix('/') else {
        return false;
    };
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["sessions", _, "checkpoints", _, part] => ["compare", "revert"].contains(&part),
        ["sessions", _, part] => [
            "ask",
            "checkpoints",
            "compact",
            "context",
            "delete",
            "export",
            "history",
            "settings",
            "tree",
            "turns",
        ]
        .contains(&part),
        ["sessions", _, kind, _] => [
            "calls",
            "checkpoints",
            "messages",
            "runs",
            "snapshots",
            "turns",
        ]
        .contains(&kind),
        ["agents", _, "edit"] | ["import", "agents"] | ["sessions" | "agents" | "cluster", _] => {
            true
        }
        [page] => [
            "",
            "agents",
            "approvals",
            "cluster",
            "doctor",
            "import",
            "schedules",
            "settings",
            "usage",
        ]
        .contains(&page),
        _ => false,
    }
}

/// Puts the way back into the page of a problem.
async fn put(response: Response, from: Option<&str>, form: Option<(&str, Bytes)>) -> Response {
    // A compressed page has its way back already.
    let is_compressed = response.headers().contains_key(header::CONTENT_ENCODING);
    let status = response.status();
    let is_problem = status.is_client_error() || status.is_server_error();
    if !is_page(&response) || is_compressed || !is_problem {
        return response;
    }
    let form = match form {
        Some((action, bytes)) => Some((action, fields(bytes).await)),
        None => None,
    };
    let form = form.as_ref().map(|(action, all)| (*action, &all[..]));
    let way = way_back(from, form).into_string();
    changed(response, |page| page.replacen(PLACEHOLDER, &way, 1)).await
}

/// The fields of a form; none if it cannot be read.
async fn fields(form: Bytes) -> Vec<(String, String)> {
    let mut request = Request::new(Body::from(form));
    *request.method_mut() = Method::POST;
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    let read = axum::Form::from_request(request, &()).await;
    read.map_or_else(|_| Vec::new(), |axum::Form(fields)| fields)
}

/// The form with its fields as they were written, and the link to its page. A form that came from no
/// page of this server is not shown: a click would send it with the viewer's login.
fn way_back(from: Option<&str>, form: Option<(&str, &[(String, String)])>) -> Markup {
    let is_written = |(name, value): &&(String, String)| {
        !HIDDEN.contains(&name.as_str()) && !value.trim().is_empty()
    };
    let form =
        form.filter(|(_, fields)| from.is_some() && fields.iter().any(|field| is_written(&field)));
    html! {
        @if let Some((action, fields)) = form {
            form method="post" action=(action) {
                p { "What you wrote is not lost. Change it and send it again:" }
                @for (at, (name, value)) in fields.iter().enumerate() {
                    @if !is_written(&&(name.clone(), value.clone())) {
                        input type="hidden" name=(name) value=(value);
                    } @else {
                        label for={ "again-" (at) } { (name) }
                        @if value.len() >= LONG || value.contains('\n') {
                            textarea id={ "again-" (at) } name=(name) rows="6" { "\n" (value) }
                        } @else {
                            input id={ "again-" (at) } name=(name) value=(value);
                        }
                    }
                }
                button class="small" { "Send again" }
            }
        }
        @if let Some(from) = from { p { a class="button" href=(from) { "Back to where you were" } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;

    fn headers(referer: &'static str) -> HeaderMap {
        let host = (header::HOST, HeaderValue::from_static("127.0.0.1:7"));
        let referer = (header::REFERER, HeaderValue::from_static(referer));
        [host, referer].into_iter().collect()
    }

    #[test]
    fn only_a_page_of_this_server_is_gone_back_to() {
        let own = headers("http://127.0.0.1:7/sessions/s?branch=main#m1");
        assert_eq!(came_from(&own).as_deref(), Some("/sessions/s?branch=main"));
        for foreign in [
            "http://evil.example/sessions/s",
            "http://127.0.0.1:77/",
            "http://127.0.0.1:7//evil.example",
            "http://127.0.0.1:7",
            "x",
        ] {
            assert_eq!(came_from(&headers(foreign)), None, "{foreign}");
        }
    }

    #[test]
    fn a_login_leads_to_the_page_that_was_opened() {
        for (path, is_opened) in rows! {
            ("http://127.0.0.1:7/sessions/s?branch=b", true),
            ("http://127.0.0.1:7/sessions/s/turns/t", true),
            ("http://127.0.0.1:7/usage?by=model", true),
            ("http://127.0.0.1:7/?q=moon", true),
            ("http://127.0.0.1:7/sessions/s/checkpoints/1/compare?with=2", true),
            ("http://127.0.0.1:7/login", false),
            ("http://127.0.0.1:7/logout", false),
            ("http://127.0.0.1:7/approvals/c", false),
            ("http://127.0.0.1:7/sessions/s/pin", false),
            ("http://127.0.0.1:7/sessions/s/turns/t/again", false),
            ("http://127.0.0.1:7/v1/sessions", false),
            ("http://127.0.0.1:7//evil.example", false),
            ("http://evil.example/sessions/s", false),
        } {
            assert_eq!(opened_page(&headers(path)).is_some(), is_opened, "{path}");
        }
    }

    #[test]
    fn a_form_of_another_site_is_not_shown_again() {
        let all = [("text".to_owned(), "yes".to_owned())];
        let shown = |from| way_back(from, Some(("/approvals/c", &all))).into_string();
        assert!(shown(Some("/sessions/s")).contains("<form"));
        assert!(!shown(None).contains("<form"));
    }

    #[test]
    fn what_was_written_is_in_the_page_as_text_only() {
        let all = [
            ("branch", "main"),
            ("name", "<b>"),
            ("of", "opnai"),
            ("text", "a\nb"),
            ("empty", ""),
        ];
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let shown = way_back(Some("/x"), Some(("/sessions/s/fork", &all))).into_string();
        shown.has_all(&["name=\"name\" value=\"&lt;b&gt;\""]);
        // A provider or a model, which may be what is wrong.
        assert!(shown.contains("name=\"of\" value=\"opnai\""), "{shown}");
        assert!(!shown.contains("type=\"hidden\" name=\"of\""), "{shown}");
        assert!(shown.contains("type=\"hidden\" name=\"branch\""), "{shown}");
        assert!(shown.contains("<textarea") && shown.contains("href=\"/x\""));
        assert!(
            !way_back(Some("/x"), Some(("/x", &all[..1])))
                .into_string()
                .contains("<form")
        );
    }
}
