//! `/v1/sessions/{session}/branches`: paths through the conversation.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use unisono_api::session::{Branch, NewBranch, Stretch};
use unisono_api::{Code, Page};
use unisono_context::{MessageId, Ordinal};
use unisono_session::State as SessionState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::messages::unknown_branch;
use super::part::{Part, no_cursor};
use super::problem::Fault;
use super::{Shared, sessions};
use unisono::outline;
use unisono::short;

/// Characters of a stretch's first message that are told.
const TEXT_CHARS: usize = 80;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(tree))
}

/// The branches of a session, by name.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/branches", tag = "branches",
    params(("session" = String, Path, description = "The session's id"), Part),
    responses((status = 200, description = "A part of the list", body = Page<Branch>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(part): Query<Part>,
) -> Result<Json<Page<Branch>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let (after, limit) = (part.cursor.clone(), part.limit());
    let look = move |state: &SessionState| {
        let tree = state.tree();
        if let Some(after) = &after {
            // A branch is never taken away.
            tree.head(after)?;
        }
        let all = tree.branches();
        let left = all.filter(|(name, _)| after.as_deref().is_none_or(|after| *name > after));
        let left = left.map(|(name, head)| unisono::service::sessions::branch(state, name, head));
        Some(Page::first(left, limit, |last| last.name.clone()))
    };
    let found = session.inspect(look).await?;
    Ok(Json(found.ok_or_else(|| no_place(&part))?))
}

/// What a cursor names that is no place of the list.
fn no_place(part: &Part) -> Fault {
    no_cursor(part.cursor.as_deref().unwrap_or_default())
}

/// Starts a branch at a message, or sets it there. Nothing is copied.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/branches", tag = "branches",
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewBranch,
    responses((status = 201, description = "The branch", body = Branch))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<NewBranch>,
) -> Result<(StatusCode, Json<Branch>), Fault> {
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
    let look = move |state: &SessionState| unisono::service::sessions::branch(state, &new.name, at);
    Ok((StatusCode::CREATED, Json(session.inspect(look).await?)))
}

/// The tree of a session's messages: stretches between forks, in the order in which they are drawn.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/tree", tag = "branches",
    params(("session" = String, Path, description = "The session's id"), Part),
    responses((status = 200, description = "A part of the list", body = Page<Stretch>))
)]
async fn tree(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(part): Query<Part>,
) -> Result<Json<Page<Stretch>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let (after, limit) = (part.after::<MessageId>()?, part.limit());
    let look = move |state: &SessionState| {
        let stretches = outline::stretches(state.tree(), false);
        let told = match after {
            None => 0,
            Some(after) => 1 + stretches.iter().position(|one| one.first.id == after)?,
        };
        let left = stretches.into_iter().skip(told).map(stretch);
        Some(Page::first(left, limit, |last| last.first.clone()))
    };
    let found = session.inspect(look).await?;
    Ok(Json(found.ok_or_else(|| no_place(&part))?))
}

/// The tree of a session's messages.
pub(super) fn outlined(state: &SessionState) -> Vec<Stretch> {
    let stretches = outline::stretches(state.tree(), false).into_iter();
    stretches.map(stretch).collect()
}

fn stretch(of: outline::Stretch) -> Stretch {
    Stretch {
        depth: u32::try_from(of.depth).unwrap_or(u32::MAX),
        first: of.first.id.to_string(),
        last: of.last.id.to_string(),
        first_ordinal: of.first.ordinal.0,
        last_ordinal: of.last.ordinal.0,
        messages: of.messages as u64,
        role: of.first.role.name().to_owned(),
        text: short::line(&of.first.countable_text(), TEXT_CHARS),
        branches: of.heads,
    }
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
