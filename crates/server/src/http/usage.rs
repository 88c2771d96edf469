//! `/v1/usage`: what model calls used.

use std::sync::Arc;
use unisono::values;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::usage::{self as api, Amounts, Row, Usage};
use unisono_context::SessionId;
use unisono_session::usage::{Asker, Deleted};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::problem::Fault;
use super::{Shared, sessions};
use unisono::past;
use unisono::past::usage::Fold;

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
    get, path = "/v1/usage", tag = "usage", params(Of),
    responses((status = 200, description = "What was used", body = Usage))
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
    let journal = shared.local.journal();
    let mut gone = Deleted::default();
    let folds = match session {
        Some(id) => {
            let id = sessions::open(shared, id).await?.id();
            let fold = shared.used.one(journal, id).await?;
            fold.map(|fold| (id, fold)).into_iter().collect()
        }
        None => {
            // First: one that goes meanwhile is rather left out for once than counted twice.
            gone = journal.deleted().await?;
            shared.used.all(journal).await?
        }
    };
    let mut ledger = gone.ledger.clone();
    folds.iter().for_each(|(_, fold)| ledger.add(&fold.ledger));
    let mut sessions: Vec<OfSession> = folds.into_iter().filter_map(of).collect();
    let budget = shared.local.setup().loaded.config.budget.clone();
    let tokens = |of: &OfSession| of.amounts.input_tokens + of.amounts.output_tokens;
    sessions.sort_by_key(|of| std::cmp::Reverse(tokens(of)));
    let rows = ledger.used().map(|(asker, model, used)| Row {
        agent: match asker {
            Asker::Agent(agent) => Some(agent.to_string()),
            Asker::Summaries => None,
        },
        model: model.to_owned(),
        jobs: used.jobs,
        amounts: values::amounts(&used.usage),
    });
    Ok(Used {
        all: Usage {
            rows: rows.collect(),
            total: values::amounts(&ledger.total()),
            deleted: (gone.sessions > 0).then(|| api::Deleted {
                sessions: gone.sessions,
                jobs: gone.ledger.jobs(),
                amounts: values::amounts(&gone.ledger.total()),
            }),
            budgets: past::daemon_budgets(journal, &budget)
                .await?
                .iter()
                .map(values::budget)
                .collect(),
        },
        sessions,
    })
}

/// What a session used, if it was anything.
fn of((session, fold): (SessionId, Fold)) -> Option<OfSession> {
    (fold.ledger.used().len() > 0).then(|| OfSession {
        session: session.to_string(),
        title: fold.title,
        jobs: fold.ledger.jobs(),
        amounts: values::amounts(&fold.ledger.total()),
    })
}
