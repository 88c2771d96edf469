#![doc = include_str!("../README.md")]
//!
//! ```text
//! browser ─► server (host, token, login) ─► router ─► Service
//! ```
//!
//! Pages are rendered on the server. Only live updates and copy buttons need scripts. The templates
//! escape all text of conversations and models, and the content policy allows no inline script or
//! style. The page uses only the [`Service`] and its types. The server that mounts [`router`]
//! authenticates browsers, and shows [`refused`] to the others.

/// A table of a test: a row a line.
#[cfg(test)]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

mod agent_import;
mod agent_list;
mod agents;
mod approvals;
mod assets;
mod blob;
mod branch_view;
mod caller_header;
mod changes;
mod cluster;
mod compact;
mod compare;
mod composer;
mod compress;
mod context;
mod conversation_list;
mod deletion;
mod diff;
mod doctor;
mod error;
mod estimate;
mod export;
mod extract;
mod finished_page;
#[cfg(test)]
mod fixture;
mod history;
mod import_results;
mod importing;
mod layout;
mod list;
mod lists;
mod markdown;
mod message;
mod parts;
mod permissions;
mod pictures;
mod refusal;
mod run;
mod schedules;
mod session;
mod session_settings;
mod settings;
mod snapshot;
mod summaries;
mod text_limit;
mod text_parts;
mod turn;
mod usage;
mod waiting_calls;
mod waiting_count;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::{get, post};
use unisono_api::Service;

pub use assets::is_asset;
pub use caller_header::with_viewer;
pub use compress::compress;
pub use error::{problem, refused, unknown};
pub use permissions::Viewer;
pub use refusal::{is_opened, opened_page, refused_with_way_back, with_way_back};

/// The routes of the page over a service, for a viewer. The page logs out by `POST /logout`, a route
/// of the server, which also puts [`with_way_back`] around its own checks.
pub fn router<S: Clone + Send + Sync + 'static>(
    service: Arc<dyn Service>,
    viewer: Viewer,
) -> Router<S> {
    let counting = service.clone();
    let with_count = move |request: Request, next: Next| {
        let service = counting.clone();
        async move { waiting_count::with_count(&*service, next.run(request).await).await }
    };
    let with_viewer = move |request: Request, next: Next| {
        let viewer = viewer.clone();
        async move { caller_header::with_viewer(&viewer, next.run(request).await).await }
    };
    routes()
        .layer(from_fn(with_count))
        .layer(from_fn(with_viewer))
        .layer(from_fn(refusal::with_way_back))
        .layer(from_fn(compress::compress))
        .with_state(service)
}

/// Whether a path is a page for people, and not a resource for programs.
pub fn is_page(path: &str) -> bool {
    let below = |start| path.starts_with(start);
    let pages = [
        "/",
        "/agents",
        "/approvals",
        "/cluster",
        "/doctor",
        "/examples",
        "/import",
        "/schedules",
        "/settings",
        "/usage",
    ];
    pages.contains(&path)
        || below("/agents/")
        || below("/sessions/")
        || below("/blobs/")
        || below("/approvals/")
        || below("/cluster/")
        || below("/import/")
        || below("/schedules/")
}

fn routes() -> Router<Arc<dyn Service>> {
    Router::new()
        .route("/", get(list::show).post(list::create))
        .route("/sessions/{session}", get(session::show))
        .route(
            "/sessions/{session}/ask",
            get(session::redirect_to_conversation).post(session::ask),
        )
        .route(
            "/sessions/{session}/delete",
            get(deletion::confirm).post(deletion::delete),
        )
        .route("/sessions/{session}/fork", post(changes::fork))
        .route("/sessions/{session}/seal", post(changes::seal))
        .route("/sessions/{session}/pin", post(changes::pin))
        .route(
            "/sessions/{session}/settings",
            get(settings::show_own).post(settings::save_own),
        )
        .route("/sessions/{session}/context", get(context::show))
        .route(
            "/sessions/{session}/calls/{call}",
            get(approvals::show_call),
        )
        .route("/sessions/{session}/messages/{ordinal}", get(message::page))
        .route("/sessions/{session}/history", get(history::show))
        .route("/sessions/{session}/tree", get(history::tree))
        .route(
            "/sessions/{session}/compact",
            get(compact::confirm).post(compact::compact),
        )
        .merge(parts_of_sessions())
        .merge(agents())
        .route(
            "/import/agents",
            get(agent_import::show).post(agent_import::import),
        )
        .route("/import", get(importing::show).post(importing::import))
        .route("/examples", post(importing::example))
        .route("/doctor", get(doctor::show))
        .route("/cluster", get(cluster::show))
        .route("/cluster/{member}", get(cluster::show_member))
        .route("/approvals", get(approvals::show))
        .route("/approvals/count", get(waiting_count::show))
        .route("/approvals/{call}", post(approvals::decide))
        .route("/schedules", get(schedules::show))
        .route("/schedules/{schedule}", post(schedules::order))
        .route("/schedules/{schedule}/run", post(schedules::run))
        .route("/usage", get(usage::show))
        .route("/settings", get(settings::show).post(settings::save))
        .route("/blobs/{digest}", get(blob::show))
        .route("/static/{version}/{file}", get(assets::show))
}

fn agents() -> Router<Arc<dyn Service>> {
    Router::new()
        .route("/agents", get(agent_list::list))
        .route("/agents/{agent}", get(agents::show))
        .route("/agents/{agent}/try", post(agents::attempt))
        .route("/agents/{agent}/edit", get(agents::edit).post(agents::save))
}

fn parts_of_sessions() -> Router<Arc<dyn Service>> {
    let checkpoint = |rest: &str| format!("/sessions/{{session}}/checkpoints/{{number}}{rest}");
    Router::new()
        .route("/sessions/{session}/checkpoints", get(summaries::list))
        .route(&checkpoint(""), get(summaries::show))
        .route(&checkpoint("/edit"), post(summaries::edit))
        .route(&checkpoint("/regenerate"), post(summaries::regenerate))
        .route(&checkpoint("/compare"), get(compare::show))
        .route("/sessions/{session}/estimate", post(estimate::show))
        .route("/sessions/{session}/export", get(export::choose))
        .route("/sessions/{session}/export/file", get(export::file))
        .route(
            &checkpoint("/revert"),
            get(summaries::undo).post(summaries::revert),
        )
        .route(
            "/sessions/{session}/snapshots/{snapshot}",
            get(snapshot::show),
        )
        .route("/sessions/{session}/turns", get(session::turns))
        .route("/sessions/{session}/turns/{turn}", get(turn::show))
        .route(
            "/sessions/{session}/turns/{turn}/retry",
            post(summaries::retry),
        )
        .route(
            "/sessions/{session}/turns/{turn}/cancel",
            post(turn::cancel),
        )
        .route(
            "/sessions/{session}/turns/{turn}/again",
            post(session::ask_again),
        )
        .route("/sessions/{session}/runs/{run}", get(run::show))
        .route("/sessions/{session}/runs/{run}/cancel", post(run::cancel))
}
