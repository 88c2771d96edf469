//! `/v1/sessions/{session}/checkpoints`: the summaries there are, and what is asked of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use unisono::values;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use unisono_api::Page;
use unisono_api::compaction::{
    Anew, Checkpoint, CheckpointDetail, Compaction, KeyFact, NewText, Range, TakeBack,
};
use unisono_api::session::main_branch;
use unisono_api::turn::Asked;
use unisono_context::checkpoint::{self, Body, Kind};
use unisono_context::{CheckpointId, Cost};
use unisono_runtime::Handle;
use unisono_session::State as SessionState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::compactions::read_compaction;
use super::extract::{self, Path, Query};
use super::part::OnBranch;
use super::problem::Fault;
use super::turns::{self, How};
use super::{Shared, sessions};
use unisono::ask::Ask;
use unisono::context::estimate::Without;
use unisono::service::asked;
use unisono::service::messages::unknown_branch;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(edit))
        .routes(routes!(regenerate))
        .routes(routes!(restore))
}

/// Of which branch.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Of {
    /// The branch whose context is meant: `main`.
    #[serde(default = "main_branch")]
    branch: String,
}

/// The checkpoints of a session, the newest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/checkpoints", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"), OnBranch),
    responses((status = 200, description = "A part of the list", body = Page<Checkpoint>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(on): Query<OnBranch>,
) -> Result<Json<Page<Checkpoint>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let (branch, part) = on.split();
    let (before, limit) = (part.after::<u32>()?, part.limit());
    let look = move |state: &SessionState| {
        let active = active(state, &branch);
        let all = state.checkpoints().iter().rev();
        let left = all.filter(|one| before.is_none_or(|before| one.number < before));
        let left = left.map(|one| described(state, &active, one));
        Page::first(left, limit, |last| last.number.to_string())
    };
    Ok(Json(session.inspect(look).await?))
}

/// The checkpoints of a session, with whether the branch has them in its context.
pub(super) fn checkpoints(state: &SessionState, branch: &str) -> Vec<Checkpoint> {
    let active = active(state, branch);
    let all = state.checkpoints().iter();
    all.map(|checkpoint| described(state, &active, checkpoint))
        .collect()
}

/// Those in the context of a branch.
fn active(state: &SessionState, branch: &str) -> BTreeSet<CheckpointId> {
    let head = state.tree().head(branch);
    let active = head.map(|head| state.checkpoints().active(state.tree(), head));
    let active = active.into_iter().flatten();
    active.map(|checkpoint| checkpoint.id).collect()
}

fn described(
    state: &SessionState,
    active: &BTreeSet<CheckpointId>,
    of: &checkpoint::Checkpoint,
) -> Checkpoint {
    let counted = of.counts.iter().next();
    let tokens_after = counted.map_or(0, |(_, count)| count.tokens.0);
    Checkpoint {
        number: of.number,
        active: active.contains(&of.id),
        retired: state.checkpoints().is_retired(of.id),
        first: of.first().0,
        last: of.cutoff.0,
        messages: of.messages_included,
        tokens_before: of.original.0,
        tokens_after,
        kind: match of.kind {
            Kind::Auto => "auto",
            Kind::Manual => "manual",
        }
        .to_owned(),
        tier: of.tier.name().to_owned(),
        preset: of.preset.name().to_owned(),
        model: of.model.to_string(),
        degraded: of.degraded,
        tightened: state.checkpoints().is_tightened(of.id),
        compression_ratio: unisono_api::compaction::ratio(of.original.0, tokens_after),
        at: values::instant(of.at),
        text: match &of.body {
            Body::Summary(text) => Some(text.to_string()),
            Body::Tombstone => None,
        },
    }
}

/// A checkpoint with all that is known of it, and what taking it back would do.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/checkpoints/{number}", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("number" = String, Path, description = "Its number in the session, from 1, or its id"), Of),
    responses((status = 200, description = "The checkpoint", body = CheckpointDetail))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    Query(of): Query<Of>,
) -> Result<Json<CheckpointDetail>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    detail(&shared, &session, &number, &of.branch)
        .await
        .map(Json)
}

/// A checkpoint with all that is known of it.
pub(super) async fn detail(
    shared: &Shared,
    session: &Handle,
    number: &str,
    branch: &str,
) -> Result<CheckpointDetail, Fault> {
    let found = asked::numbered(session, number).await?;
    let setup = shared.local.setup_of(session).await?;
    let mut state = session.inspect(Clone::clone).await?;
    let head = state.tree().head(branch);
    let head = head.ok_or_else(|| unknown_branch(branch))?;
    let checkpoint = described(&state, &active(&state, branch), &found);
    let ask = Ask::restore(found.id).branch(branch);
    let (id, active) = (found.id, checkpoint.active);
    let learnt = shared.local.calibrations().clone();
    let without = move || Without::of((&setup, &learnt), &ask, &mut state, head, id);
    let work = move || active.then(without);
    let without = super::off_thread(work).await?.transpose()?;
    let key_facts = found.key_facts.iter().map(|fact| KeyFact {
        text: fact.text.to_string(),
        ordinal: fact.ordinal.0,
    });
    let covers = found.covers.iter().map(|span| Range {
        first: span.first.0,
        last: span.last.0,
    });
    Ok(CheckpointDetail {
        checkpoint,
        block: found.context_text(),
        covers: covers.collect(),
        key_facts: key_facts.collect(),
        duration_ms: found.duration_ms,
        cost_usd: values::dollars(found.cost_micros.map(Cost::from_micro_dollars)),
        restore: without.map(|without| without.to_api()),
    })
}

/// Puts another text in place of a summary's. The old one is kept and can be had back.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/checkpoints/{number}/edit", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("number" = String, Path, description = "Its number in the session, from 1, or its id")),
    request_body = NewText,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn edit(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<NewText>,
) -> Result<Response, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let how = How::from_headers(&headers, new.wait);
    let checkpoint = number;
    let ask = asked::read(&session, &Asked::Edit { checkpoint, new }).await?;
    turns::answer(&shared, &session, &ask, how, read_compaction).await
}

/// Has a summary written anew. The old one is kept and can be had back.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/checkpoints/{number}/regenerate", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("number" = String, Path, description = "Its number in the session, from 1, or its id")),
    request_body = Anew,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn regenerate(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<Anew>,
) -> Result<Response, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let how = How::from_headers(&headers, new.wait);
    let checkpoint = number;
    let ask = asked::read(&session, &Asked::Regenerate { checkpoint, new }).await?;
    turns::answer(&shared, &session, &ask, how, read_compaction).await
}

/// Takes a checkpoint back: the context is what it was before it, with what was said since.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/checkpoints/{number}/restore", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("number" = String, Path, description = "Its number in the session, from 1, or its id")),
    request_body = TakeBack,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn restore(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<TakeBack>,
) -> Result<Response, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let how = How::from_headers(&headers, new.wait);
    let checkpoint = number;
    let ask = asked::read(&session, &Asked::Restore { checkpoint, new }).await?;
    turns::answer(&shared, &session, &ask, how, read_compaction).await
}
