//! The page: sessions, what the model sees, who works on what.
//!
//! Rendered here; without scripts everything works but live updates. All text of conversations
//! and models is escaped by the templates, and the content policy allows no inline script or style.

mod list;
pub(super) mod login;
mod parts;
mod session;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use maud::{DOCTYPE, Markup, html};
use unisono_api::Code;

use super::Shared;
use super::problem::Fault;

/// What the page may load: its own style and script, and events of its own daemon.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                      connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Addresses that need no login.
pub(super) const OPEN: [&str; 4] = [
    "/login",
    "/static/page.css",
    "/static/live.js",
    "/static/icon.svg",
];

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(list::show).post(list::create))
        .route("/login", get(login::enter))
        .route("/sessions/{session}", get(session::show))
        .route("/sessions/{session}/ask", post(session::ask))
        .route("/sessions/{session}/compact", post(session::compact))
        .route("/sessions/{session}/fork", post(session::fork))
        .route(
            "/sessions/{session}/turns/{turn}/cancel",
            post(session::cancel),
        )
        .route("/static/page.css", get(style))
        .route("/static/live.js", get(script))
        .route("/static/icon.svg", get(icon))
}

async fn style() -> Response {
    asset(
        "text/css; charset=utf-8",
        include_str!("../../assets/page.css"),
    )
}

async fn script() -> Response {
    asset(
        "text/javascript; charset=utf-8",
        include_str!("../../assets/live.js"),
    )
}

async fn icon() -> Response {
    asset("image/svg+xml", include_str!("../../assets/icon.svg"))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text).into_response()
}

/// A whole page.
fn layout(title: &str, body: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · unisono" }
                link rel="icon" href="/static/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/static/page.css";
                script type="module" src="/static/live.js" {}
            }
            body {
                a class="skip" href="#main" { "To the content" }
                header class="top" {
                    a class="brand" href="/" { "unisono" }
                    span class="quiet" { "one context, many agents" }
                    span id="link" class="link" role="status" hidden { "disconnected; trying again" }
                }
                main id="main" { (body) }
            }
        }
    };
    let policy = [(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    )];
    (policy, Html(page.into_string())).into_response()
}

/// Why a page cannot be shown, as a page.
struct Trouble(Fault);

impl<E> From<E> for Trouble
where
    Fault: From<E>,
{
    fn from(error: E) -> Trouble {
        Trouble(error.into())
    }
}

/// Whether a page is shown at that address, and not something for programs.
pub(super) fn is_one(path: &str) -> bool {
    path == "/" || path.starts_with("/sessions/")
}

/// Why a page cannot be shown.
pub(super) fn trouble(fault: Fault) -> Response {
    if fault.problem().code == Code::Unauthorized {
        return login::refused("Nothing is shown to a browser that did not come by a link.");
    }
    Trouble(fault).into_response()
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let (problem, status) = (self.0.problem().clone(), self.0.status());
        let body = html! {
            section class="card trouble" {
                h1 { (problem.title) }
                p { (problem.detail) }
                @if problem.code == Code::Busy { p { "Try again in a moment." } }
                p { a href="/" { "Back to the sessions" } }
            }
        };
        (status, layout(&problem.title, &body)).into_response()
    }
}
