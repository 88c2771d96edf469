//! `/v1/sessions/{session}/compactions`: summaries on request.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use unisono_api::compaction::{Compaction, Estimate, NewCompaction, OnFailure};
use unisono_api::service::Compactions as _;
use unisono_context::TurnId;
use unisono_context::checkpoint::Body;
use unisono_runtime::Handle;
use unisono_session::State as SessionState;
use unisono_session::event::{Outcome, Work};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::problem::ApiError;
use super::turns::{self, How};
use super::{Shared, sessions};
use unisono::context::estimate;
use unisono::history::{self, Lookup};
use unisono::service::asked;
use unisono::short;

/// Characters of a new summary that are told.
const PREVIEW_CHARS: usize = 200;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(dry_run))
}

/// Compacts a branch: all before its newest user message is summarised, unless more is to stay.
/// With `Accept: text/event-stream` its events are streamed, then the turn that did it.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/compactions", tag = "compaction",
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewCompaction,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<NewCompaction>,
) -> Result<Response, ApiError> {
    let session = sessions::open(&shared, &id).await?;
    let how = How::from_headers(&headers, new.wait);
    let ask = asked::compaction(new)?;
    turns::answer(&shared, &session, &ask, how, read_compaction).await
}

/// A turn that compacted, restored or rewrote something, and what it changed.
pub(super) async fn read_compaction(
    shared: &Shared,
    session: &Handle,
    turn: TurnId,
) -> Result<Compaction, ApiError> {
    let told = turns::read(shared, session, turn).await?;
    let newest = told.checkpoints.last().copied();
    let (branch, work) = (told.branch.clone(), work_of(shared, session, turn).await?);
    let look = move |state: &SessionState| {
        let outcome = state.ended(turn).map(|ended| ended.outcome.clone());
        let all = state.checkpoints();
        let made = newest.and_then(|number| all.iter().find(|made| made.number == number));
        let preview = made.and_then(|made| match &made.body {
            Body::Summary(text) => Some(short::line(text, PREVIEW_CHARS)),
            Body::Tombstone => None,
        });
        let nothing = match (&outcome, newest, &work) {
            (Some(Outcome::Compacted { before, after }), None, Some(work)) if before == after => {
                estimate::why_nothing(state, &branch, work)
            }
            _ => None,
        };
        (outcome, preview, nothing)
    };
    let (outcome, preview, nothing) = session.inspect(look).await?;
    let offers = match &outcome {
        Some(outcome) if outcome.is_unwritten() => OnFailure::ALL.to_vec(),
        _ => Vec::new(),
    };
    let amounts = match outcome {
        Some(Outcome::Compacted { before, after } | Outcome::Restored { before, after }) => {
            Some((before, after))
        }
        _ => None,
    };
    Ok(Compaction {
        turn: told,
        tokens_before: amounts.map(|(before, _)| before.0),
        tokens_after: amounts.map(|(_, after)| after.0),
        tokens_saved: amounts.map(|(before, after)| before.minus(after).0),
        compression_ratio: amounts
            .and_then(|(before, after)| unisono_api::compaction::ratio(before.0, after.0)),
        nothing,
        preview,
        offers,
    })
}

/// What a turn was asked to do.
async fn work_of(
    shared: &Shared,
    session: &Handle,
    turn: TurnId,
) -> Result<Option<Work>, ApiError> {
    let trace = history::turn(shared.local.journal(), session, Lookup::Turn(turn)).await?;
    let found = trace.as_ref().and_then(|trace| trace.turn(turn));
    Ok(found.map(|turn| turn.accepted.1.work.clone()))
}

/// Says what a compaction would do, and does nothing.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/compactions/dry-run", tag = "compaction",
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewCompaction,
    responses((status = 200, description = "What it would do", body = Estimate))
)]
async fn dry_run(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<NewCompaction>,
) -> Result<Json<Estimate>, ApiError> {
    Ok(Json(shared.local.estimate(&id, &new).await?))
}
