#![doc = include_str!("../README.md")]
//!
//! ```text
//! browser ─► server (host, token, login) ─► router ─► Service
//! ```
//!
//! Rendered here; without scripts everything works but live updates. All text of conversations
//! and models is escaped by the templates, and the content policy allows no inline script or style.
//! The page knows nothing but the [`Service`] and its types. Whoever mounts [`router`] decides who may
//! see it, and shows [`refused`] to everybody else.

mod approvals;
mod configured;
mod extract;
mod history;
mod layout;
mod list;
mod lists;
mod parts;
mod place;
mod run;
mod session;
mod settings;
mod snapshot;
mod summaries;
mod trouble;
mod turn;
mod usage;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use unisono_api::Service;

pub use trouble::{problem, refused};

/// Addresses that need no login.
pub const OPEN: [&str; 4] = [
    "/static/page.css",
    "/static/live.js",
    "/static/dialog.js",
    "/static/icon.svg",
];

/// The page over a service, as routes of a server.
pub fn router<S: Clone + Send + Sync + 'static>(service: Arc<dyn Service>) -> Router<S> {
    routes().with_state(service)
}

/// Whether a page is shown at that address, and not something for programs.
pub fn is_page(path: &str) -> bool {
    let below = |start| path.starts_with(start);
    ["/", "/approvals", "/usage", "/settings"].contains(&path)
        || below("/sessions/")
        || below("/approvals/")
}

fn routes() -> Router<Arc<dyn Service>> {
    Router::new()
        .route("/", get(list::show).post(list::create))
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

fn parts_of_sessions() -> Router<Arc<dyn Service>> {
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
        include_str!("../assets/page.css"),
    )
}

async fn live() -> Response {
    script(include_str!("../assets/live.js"))
}

async fn dialog() -> Response {
    script(include_str!("../assets/dialog.js"))
}

fn script(text: &'static str) -> Response {
    asset("text/javascript; charset=utf-8", text)
}

async fn icon() -> Response {
    asset("image/svg+xml", include_str!("../assets/icon.svg"))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text).into_response()
}
