//! `/v1/usage`: what model calls used.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::Problem;
use unisono_api::usage::{Amounts, Row, Usage};
use unisono_context::SessionId;
use unisono_session::Fact;
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
#[into_params(parameter_in = Query)]
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
    Ok(Json(used(&shared, of.session.as_deref()).await?.all))
}

/// What was used, and by which sessions.
pub(super) struct Used {
    pub(super) all: Usage,
    /// Those that used something, the one that used most first.
    pub(super) sessions: Vec<OfSession>,
}

/// What a session used.
pub(super) struct OfSession {
    pub(super) session: String,
    pub(super) title: String,
    pub(super) jobs: u64,
    pub(super) amounts: Amounts,
}

/// What a session used, or all of them.
pub(super) async fn used(shared: &Shared, session: Option<&str>) -> Result<Used, Fault> {
    let mut ledger = Ledger::default();
    let mut sessions = Vec::new();
    if let Some(id) = session {
        let session = sessions::open(shared, id).await?;
        sessions.extend(read(shared, session.id(), &mut ledger).await?);
    } else {
        let mut after = None;
        loop {
            let page = sessions::page(&shared.daemon, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            for session in &page {
                sessions.extend(read(shared, session.id, &mut ledger).await?);
            }
        }
    }
    let journal = shared.daemon.runtime().journal();
    let budget = shared.daemon.setup().loaded.config.budget.clone();
    let tokens = |of: &OfSession| of.amounts.input_tokens + of.amounts.output_tokens;
    sessions.sort_by_key(|of| std::cmp::Reverse(tokens(of)));
    let rows = ledger.used().map(|(asker, model, used)| Row {
        agent: match asker {
            Asker::Agent(agent) => Some(agent.to_string()),
            Asker::Summaries => None,
        },
        model: model.to_owned(),
        jobs: used.jobs,
        amounts: words::amounts(&used.usage),
    });
    Ok(Used {
        all: Usage {
            rows: rows.collect(),
            total: words::amounts(&ledger.total()),
            budgets: past::daemon_budgets(journal, &budget)
                .await?
                .iter()
                .map(words::budget)
                .collect(),
        },
        sessions,
    })
}

/// Adds what a session used; that alone, if it was anything.
async fn read(
    shared: &Shared,
    session: SessionId,
    ledger: &mut Ledger,
) -> Result<Option<OfSession>, Fault> {
    let (mut own, mut title) = (Ledger::default(), String::new());
    let journal = shared.daemon.runtime().journal();
    past::read(journal, session, |event| {
        if let Fact::Created { title: named, .. } = &event.fact {
            title = named.to_string();
        }
        ledger.take(event);
        own.take(event);
        Ok::<_, unisono_store::Error>(true)
    })
    .await?;
    let jobs = own.used().map(|(_, _, used)| used.jobs).sum();
    Ok((own.used().len() > 0).then(|| OfSession {
        session: session.to_string(),
        title,
        jobs,
        amounts: words::amounts(&own.total()),
    }))
}
