//! `/v1/sessions/{session}/topics`: what a conversation was about, one thing after the other.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::topic::{Seal, Topic};
use unisono_api::{Code, Page};
use unisono_session::State as SessionState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::part::OnBranch;
use super::problem::Fault;
use super::{Shared, sessions};
use unisono::context::topics;
use unisono::service::messages::unknown_branch;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(seal))
}

/// The topics of a branch, the oldest first; none where nothing was decided about topics.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/topics", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"), OnBranch),
    responses((status = 200, description = "A part of the list", body = Page<Topic>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(on): Query<OnBranch>,
) -> Result<Json<Page<Topic>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let (branch, part) = on.split();
    let (after, limit) = (part.after::<u32>()?, part.limit());
    let on = branch.clone();
    let look = move |state: &SessionState| {
        let left = topics::to_api(state, &on)?.into_iter();
        let left = left.filter(|topic| after.is_none_or(|after| topic.first > after));
        Some(Page::first(left, limit, |last| last.first.to_string()))
    };
    let found = session.inspect(look).await?;
    Ok(Json(found.ok_or_else(|| unknown_branch(&branch))?))
}

/// Lets the current topic of a branch end: what is said next opens another one.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/topics/seal", tag = "compaction",
    params(("session" = String, Path, description = "The session's id")),
    request_body = Seal,
    responses((status = 200, description = "The topic that has ended", body = Topic))
)]
async fn seal(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<Seal>,
) -> Result<Json<Topic>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    session.seal(&new.branch).await?;
    let look = move |state: &SessionState| topics::to_api(state, &new.branch)?.pop();
    let sealed = session.inspect(look).await?;
    let gone = || Fault::new(Code::Conflict, "the branch was set elsewhere meanwhile");
    Ok(Json(sealed.ok_or_else(gone)?))
}
