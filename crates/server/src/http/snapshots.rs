//! `/v1/sessions/{session}/snapshots/{snapshot}`: what agents were given, exactly as it was.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::Code;
use unisono_api::context::Snapshot;
use unisono_context::{SnapshotId, TurnId};
use unisono_runtime::Handle;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::problem::Fault;
use super::{Shared, sessions};
use unisono::context::sections;
use unisono::past;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(show))
}

/// A frozen context, rebuilt from the journal and checked against its id.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/snapshots/{snapshot}", tag = "context",
    params(("session" = String, Path, description = "The session's id"),
           ("snapshot" = String, Path, description = "The snapshot's id")),
    responses((status = 200, description = "The snapshot", body = Snapshot))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, snapshot)): Path<(String, String)>,
) -> Result<Json<Snapshot>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    frozen(&shared, &session, &snapshot).await.map(Json)
}

/// A frozen context, rebuilt from the journal.
pub(super) async fn frozen(
    shared: &Shared,
    session: &Handle,
    snapshot: &str,
) -> Result<Snapshot, Fault> {
    let snapshot: SnapshotId = extract::id("snapshot", snapshot)?;
    let journal = shared.local.journal();
    let trace = past::trace(journal, session.id()).await?;
    let had = trace.turns().filter(|(_, turn)| {
        let frozen = turn.frozen.as_ref();
        frozen.is_some_and(|(_, frozen)| *frozen == snapshot)
    });
    let had: Vec<TurnId> = had.map(|(turn, _)| turn).collect();
    let first = had.first().copied();
    let first = first.ok_or_else(|| Fault::not_found("snapshot", snapshot))?;
    let given = trace.runs().filter(|(_, run)| {
        let (_, opened) = &run.opened;
        opened.snapshot == Some(snapshot)
    });
    let agents = u32::try_from(given.count()).unwrap_or(u32::MAX);
    let replay = past::replay(journal, session.id(), first).await?;
    let turn = replay.turn();
    let frozen = turn.and_then(|turn| Some((turn, turn.snapshot.0.clone()?)));
    let Some((turn, frozen)) = frozen else {
        let why = replay.snapshot_error().map(ToString::to_string);
        let detail = why.unwrap_or_else(|| "it cannot be rebuilt".to_owned());
        return Err(Fault::new(Code::Failed, detail));
    };
    let limits = replay.state().definition(turn.accepted.lead);
    let limits = limits.map(|lead| lead.limits);
    let limits = limits.ok_or_else(|| Fault::new(Code::Failed, "its lead is not recorded"))?;
    let tokens = sections::Tokens {
        state: replay.state(),
        encoding: limits.encoding,
        overhead: limits.per_message,
    };
    Ok(Snapshot {
        session: session.id().to_string(),
        snapshot: snapshot.to_string(),
        turns: had.iter().map(ToString::to_string).collect(),
        agents,
        encoding: limits.encoding.name().to_owned(),
        system: frozen.preamble().system().to_string(),
        tools: sections::tools(frozen.preamble()),
        summaries: sections::summaries(&frozen, &tokens),
        messages: sections::entries(&frozen, &tokens),
    })
}
