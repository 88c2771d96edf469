//! `/v1/usage`: what model calls used.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::Problem;
use unisono_api::usage::{Row, Usage};
use unisono_context::SessionId;
use unisono_session::usage::{Asker, Ledger};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::problem::Fault;
use super::{Shared, sessions, words};
use crate::past;

/// Sessions read at a time.
const PAGE: usize = 1_024;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Of which session.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
struct Of {
    /// The session; none: all of them.
    session: Option<String>,
}

/// What model calls used, by agent and model.
#[utoipa::path(
    get, path = "/v1/usage", tag = "usage", security(("token" = [])), params(Of),
    responses((status = 200, description = "What was used", body = Usage),
              (status = "default", description = "A problem", body = Problem))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Query(of): Query<Of>,
) -> Result<Json<Usage>, Fault> {
    let mut ledger = Ledger::default();
    if let Some(id) = &of.session {
        let session = sessions::open(&shared, id).await?;
        read(&shared, session.id(), &mut ledger).await?;
    } else {
        let mut after = None;
        loop {
            let page = sessions::page(&shared.daemon, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            for session in &page {
                read(&shared, session.id, &mut ledger).await?;
            }
        }
    }
    let rows = ledger.used().map(|(asker, model, used)| Row {
        agent: match asker {
            Asker::Agent(agent) => Some(agent.to_string()),
            Asker::Summaries => None,
        },
        model: model.to_owned(),
        jobs: used.jobs,
        amounts: words::amounts(&used.usage),
    });
    Ok(Json(Usage {
        rows: rows.collect(),
        total: words::amounts(&ledger.total()),
    }))
}

async fn read(shared: &Shared, session: SessionId, ledger: &mut Ledger) -> Result<(), Fault> {
    past::read(shared.daemon.runtime().journal(), session, |event| {
        ledger.take(event);
        Ok(true)
    })
    .await
}
