//! `/mcp`: the server of the Model Context Protocol, behind the guard like every route.

use std::sync::Arc;

use axum::Router;
use tokio::sync::Semaphore;

use super::Shared;
use crate::mcp::Server;

/// The path of the endpoint.
pub(super) const PATH: &str = "/mcp";

pub(super) fn routes(shared: &Arc<Shared>, calls: &Arc<Semaphore>) -> Router<Arc<Shared>> {
    let setup = shared.local.setup();
    let settings = &setup.loaded.config.server;
    let server = Server::new(&shared.local, shared.stopping.clone(), calls.clone());
    let service = server.over_http(settings.body_limit_bytes as usize);
    Router::new().route_service(PATH, service)
}
