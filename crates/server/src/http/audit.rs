//! `/v1/audit`, and the recording of requests in the audit log.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{Method, Uri};
use unisono_api::Page;
use unisono_api::audit::{AuditEntry, AuditQuery};
use unisono_api::service::Audit as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::problem::ApiError;
use super::{Shared, login, mcp, scopes};
use crate::a2a;
use crate::audit::{Changes, Note};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Lists changes and refused requests, newest first. The log has neither reads nor content. A page
/// examines a bounded number of entries: with `caller` it may have fewer than `limit` entries although
/// it has a `next`.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "A page of the log", body = Page<AuditEntry>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<AuditQuery>,
) -> Result<Json<Page<AuditEntry>>, ApiError> {
    Ok(Json(shared.local.audit(&query).await?))
}

/// Records a request when it is dropped, even if the client disconnected.
pub(super) struct Recording<'s> {
    shared: &'s Shared,
    method: Method,
    uri: Uri,
    note: Note,
    status: Option<u16>,
}

impl<'s> Recording<'s> {
    /// Attaches a [`Note`] to a request. Later stages complete it.
    pub(super) fn begin(shared: &'s Shared, request: &mut Request) -> Recording<'s> {
        let note = Note::default();
        request.extensions_mut().insert(note.clone());
        Recording {
            shared,
            method: request.method().clone(),
            uri: request.uri().clone(),
            note,
            status: None,
        }
    }

    pub(super) fn finish(mut self, status: u16) {
        self.status = Some(status);
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let path = self.uri.path();
        if self.note.route().is_none()
            && let Some(route) = scopes::pattern(&self.method, path)
            && self.status.is_some_and(|status| status != 404)
        {
            // The request was refused before routing.
            self.note.set_route(route);
        }
        let changes = changes(&self.method, path, self.note.route().as_deref());
        let action = self
            .note
            .entry(self.method.as_str(), path, self.status, changes);
        if let Some(action) = action {
            self.shared.local.audit_log().record(action);
        }
    }
}

fn changes(method: &Method, path: &str, route: Option<&str>) -> Changes {
    let is_read = method.is_safe() && path != login::PATH;
    if is_read || route.is_some_and(|route| scopes::only_reads(method, route)) {
        return Changes::Never;
    }
    match path == mcp::PATH || a2a::is_under(path) || path == login::PATH {
        true => Changes::ByOperation,
        false => Changes::Always,
    }
}
