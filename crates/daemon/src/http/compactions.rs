//! `/v1/sessions/{session}/compactions` and `…/checkpoints`: summaries on request, and those
//! there are.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::Problem;
use unisono_api::context::Checkpoint;
use unisono_api::turn::{NewCompaction, Turn};
use unisono_context::checkpoint::{self, Body};
use unisono_session::State as SessionState;
use unisono_session::state::MAIN;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::problem::Fault;
use super::{Shared, sessions, turns, words};
use crate::ask::Ask;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(list))
}

/// Compacts a branch: all before its newest user message is summarised.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/compactions", tag = "compaction",
    security(("token" = [])),
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewCompaction,
    responses((status = 200, description = "The turn that did it, ended", body = Turn),
              (status = "default", description = "A problem", body = Problem))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<NewCompaction>,
) -> Result<Json<Turn>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let ask = Ask::compaction(None, new.instructions).branch(new.branch);
    let turn = turns::begin(&shared, &session, &ask).await?;
    shared.daemon.wait(&session, turn).await?;
    Ok(Json(turns::read(&shared, &session, turn).await?))
}

/// The checkpoints of a session, the oldest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/checkpoints", tag = "compaction",
    security(("token" = [])),
    params(("session" = String, Path, description = "The session's id")),
    responses((status = 200, description = "The checkpoints", body = Vec<Checkpoint>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<Checkpoint>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    Ok(Json(session.inspect(checkpoints).await?))
}

pub(super) fn checkpoints(state: &SessionState) -> Vec<Checkpoint> {
    let head = state.tree().head(MAIN);
    let view = head.and_then(|head| state.view(head, false));
    let active = |checkpoint: &checkpoint::Checkpoint| {
        let active = view.as_ref().map_or(&[][..], |view| view.active());
        active.iter().any(|active| active.id == checkpoint.id)
    };
    let all = state.checkpoints().iter();
    all.map(|checkpoint| described(checkpoint, active(checkpoint)))
        .collect()
}

fn described(checkpoint: &checkpoint::Checkpoint, active: bool) -> Checkpoint {
    let counted = checkpoint.counts.iter().next();
    Checkpoint {
        number: checkpoint.number,
        active,
        first: checkpoint.first().0,
        last: checkpoint.cutoff.0,
        messages: checkpoint.messages_included,
        tokens_before: checkpoint.original.0,
        tokens_after: counted.map_or(0, |(_, count)| count.tokens.0),
        model: checkpoint.model.to_string(),
        degraded: checkpoint.degraded,
        at: words::instant(checkpoint.at),
        text: match &checkpoint.body {
            Body::Summary(text) => Some(text.to_string()),
            Body::Tombstone => None,
        },
    }
}
