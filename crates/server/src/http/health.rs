//! `/healthz` and `/readyz`: liveness and readiness.

use std::sync::Arc;

use axum::extract::State;
use unisono_api::Code;
use unisono_store::Health;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
}

/// Whether the daemon runs.
#[utoipa::path(
    get, path = "/healthz", tag = "about",
    responses((status = 200, description = "The daemon runs", body = String, content_type = "text/plain"))
)]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the daemon accepts requests: it is not stopping, its store accepts writes, and new sessions
/// are taken by it or, if it is drained, by another daemon.
#[utoipa::path(
    get, path = "/readyz", tag = "about",
    responses((status = 200, description = "The daemon accepts requests", body = String, content_type = "text/plain"))
)]
async fn readyz(State(shared): State<Arc<Shared>>) -> Result<String, ApiError> {
    if *shared.stopping.borrow() {
        return Err(ApiError::new(Code::Unavailable, "the program is stopping"));
    }
    match shared.local.journal().health() {
        Health::Ok => ready(&shared),
        Health::Unreachable { reason } => {
            let detail = format!("the database of the store does not respond: {reason}");
            Err(ApiError::new(Code::Unavailable, detail))
        }
        Health::DiskFull { reason } | Health::ReadOnly { reason } => {
            let detail = format!("the store takes no writes: {reason}");
            Err(ApiError::new(Code::Unavailable, detail))
        }
    }
}

/// The text for a ready daemon. It names daemons on the same database with other agent definitions.
fn ready(shared: &Shared) -> Result<String, ApiError> {
    let beats = shared.local.beats();
    let beat = beats.map(|beats| beats.borrow().clone());
    let beat = beat.unwrap_or_default();
    if beat.is_draining && !beat.others_take_sessions {
        let detail = "this daemon is drained, and no other daemon takes new sessions; let one in again \
                      (`unisono cluster drain MEMBER --undo`)";
        return Err(ApiError::new(Code::Unavailable, detail));
    }
    let lines = beat.differing.iter();
    let lines =
        lines.map(|name| format!("the agents of {name} differ from the agents of this daemon\n"));
    Ok("ready\n".to_owned() + &lines.collect::<String>())
}
