//! `/v1/sessions/{session}/branches`: paths through the conversation.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use unisono_api::session::{Branch, NewBranch, Stretch};
use unisono_api::{Code, Problem};
use unisono_context::{MessageId, Ordinal};
use unisono_session::State as SessionState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::messages::unknown_branch;
use super::problem::Fault;
use super::{Shared, sessions};
use crate::{outline, short};

/// Characters of a stretch's first message that are told.
const TEXT_CHARS: usize = 80;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(tree))
}

/// The branches of a session.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/branches", tag = "branches", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id")),
    responses((status = 200, description = "The branches, by name", body = Vec<Branch>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<Branch>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    Ok(Json(session.inspect(sessions::branches).await?))
}

/// Starts a branch at a message, or sets it there. Nothing is copied.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/branches", tag = "branches", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewBranch,
    responses((status = 201, description = "The branches, by name", body = Vec<Branch>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<NewBranch>,
) -> Result<(StatusCode, Json<Vec<Branch>>), Fault> {
    if new.name.trim().is_empty() {
        return Err(Fault::new(Code::Refused, "a branch has a name"));
    }
    let session = sessions::open(&shared, &id).await?;
    let at = match new.at.strip_prefix('#').map(str::parse) {
        Some(Ok(ordinal)) => {
            let from = new.from.clone();
            let look = move |state: &SessionState| placed(state, &from, ordinal);
            session.inspect(look).await??
        }
        Some(Err(_)) => {
            let detail = format!("{:?} is not #n", new.at);
            return Err(Fault::new(Code::InvalidRequest, detail));
        }
        None => extract::id("message", &new.at)?,
    };
    session.fork(&new.name, at).await?;
    let branches = session.inspect(sessions::branches).await?;
    Ok((StatusCode::CREATED, Json(branches)))
}

/// The tree of a session's messages: stretches between forks, in the order in which they are drawn.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/tree", tag = "branches", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id")),
    responses((status = 200, description = "The stretches", body = Vec<Stretch>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn tree(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<Stretch>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    Ok(Json(session.inspect(outlined).await?))
}

/// The tree of a session's messages.
pub(super) fn outlined(state: &SessionState) -> Vec<Stretch> {
    let stretches = outline::stretches(state.tree(), false).into_iter();
    let each = stretches.map(|stretch| Stretch {
        depth: u32::try_from(stretch.depth).unwrap_or(u32::MAX),
        first: stretch.first.id.to_string(),
        last: stretch.last.id.to_string(),
        first_ordinal: stretch.first.ordinal.0,
        last_ordinal: stretch.last.ordinal.0,
        messages: stretch.messages as u64,
        role: stretch.first.role.name().to_owned(),
        text: short::line(&stretch.first.countable_text(), TEXT_CHARS),
        branches: stretch.heads,
    });
    each.collect()
}

/// The message at a place of a branch.
pub(super) fn placed(state: &SessionState, branch: &str, ordinal: u32) -> Result<MessageId, Fault> {
    let ordinal = Ordinal(ordinal);
    let head = state.tree().head(branch);
    let head = head.ok_or_else(|| unknown_branch(branch))?;
    let node = state.tree().at(head, ordinal);
    let missing = || Fault::not_found("message", format!("{ordinal} on branch {branch:?}"));
    node.map(|node| node.message.id).ok_or_else(missing)
}
