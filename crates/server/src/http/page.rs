//! The page: sessions, what the model sees, who works on what.
//!
//! Rendered here; without scripts everything works but live updates. All text of conversations
//! and models is escaped by the templates, and the content policy allows no inline script or style.

mod approvals;
mod history;
mod list;
pub(super) mod login;
mod parts;
mod run;
mod session;
mod settings;
mod snapshot;
mod summaries;
mod turn;
mod usage;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use maud::{DOCTYPE, Markup, html};
use unisono_api::Code;

use super::Shared;
use super::problem::ApiError;
use unisono_api::harmless::for_html;

/// What the page may load: its own style and script, and events of its own daemon.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                      connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Addresses that need no login.
pub(super) const OPEN: [&str; 5] = [
    "/login",
    "/static/page.css",
    "/static/live.js",
    "/static/dialog.js",
    "/static/icon.svg",
];

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(list::show).post(list::create))
        .route("/login", get(login::enter))
        .route("/sessions/{session}", get(session::show))
        .route("/sessions/{session}/ask", post(session::ask))
        .route("/sessions/{session}/fork", post(session::fork))
        .route("/sessions/{session}/seal", post(session::seal))
        .route("/sessions/{session}/pin", post(session::pin))
        .route(
            "/sessions/{session}/settings",
            get(settings::show_own).post(settings::save_own),
        )
        .route("/sessions/{session}/history", get(history::show))
        .route("/sessions/{session}/tree", get(history::tree))
        .route(
            "/sessions/{session}/compact",
            get(summaries::confirm).post(summaries::compact),
        )
        .merge(parts_of_sessions())
        .route("/approvals", get(approvals::show))
        .route("/approvals/{call}", post(approvals::decide))
        .route("/usage", get(usage::show))
        .route("/settings", get(settings::show).post(settings::save))
        .route("/static/page.css", get(style))
        .route("/static/live.js", get(live))
        .route("/static/dialog.js", get(dialog))
        .route("/static/icon.svg", get(icon))
}

fn parts_of_sessions() -> Router<Arc<Shared>> {
    let checkpoint = |rest: &str| format!("/sessions/{{session}}/checkpoints/{{number}}{rest}");
    Router::new()
        .route(&checkpoint(""), get(summaries::show))
        .route(&checkpoint("/edit"), post(summaries::edit))
        .route(&checkpoint("/regenerate"), post(summaries::regenerate))
        .route(&checkpoint("/restore"), post(summaries::restore))
        .route(
            "/sessions/{session}/snapshots/{snapshot}",
            get(snapshot::show),
        )
        .route("/sessions/{session}/turns", get(session::turns))
        .route("/sessions/{session}/turns/{turn}", get(turn::show))
        .route(
            "/sessions/{session}/turns/{turn}/again",
            post(summaries::again),
        )
        .route(
            "/sessions/{session}/turns/{turn}/cancel",
            post(turn::cancel),
        )
        .route("/sessions/{session}/runs/{run}", get(run::show))
        .route("/sessions/{session}/runs/{run}/cancel", post(run::cancel))
}

async fn style() -> Response {
    asset(
        "text/css; charset=utf-8",
        include_str!("../../assets/page.css"),
    )
}

async fn live() -> Response {
    script(include_str!("../../assets/live.js"))
}

async fn dialog() -> Response {
    script(include_str!("../../assets/dialog.js"))
}

fn script(text: &'static str) -> Response {
    asset("text/javascript; charset=utf-8", text)
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
                script type="module" src="/static/dialog.js" {}
            }
            body {
                a class="skip" href="#main" { "To the content" }
                header class="top" {
                    a class="brand" href="/" { "unisono" }
                    nav aria-label="Main" {
                        a href="/" { "Sessions" } a href="/approvals" { "Approvals" }
                        a href="/usage" { "Usage" } a href="/settings" { "Settings" }
                    }
                    p id="link" class="link" role="status" {}
                }
                main id="main" { (body) }
                p id="said" class="hidden" role="status" {}
            }
        }
    };
    let policy = [(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    )];
    (policy, Html(for_html(&page.into_string()).into_owned())).into_response()
}

/// Why a page cannot be shown, as a page.
struct Trouble(ApiError);

impl<E> From<E> for Trouble
where
    ApiError: From<E>,
{
    fn from(error: E) -> Trouble {
        Trouble(error.into())
    }
}

/// Whether a page is shown at that address, and not something for programs.
pub(super) fn is_one(path: &str) -> bool {
    let below = |start| path.starts_with(start);
    ["/", "/approvals", "/usage", "/settings"].contains(&path)
        || below("/sessions/")
        || below("/approvals/")
}

/// Why a page cannot be shown.
pub(super) fn trouble(fault: ApiError) -> Response {
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
