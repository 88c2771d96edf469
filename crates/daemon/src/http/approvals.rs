//! `/v1/approvals`: calls of tools that wait for a person, of all sessions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::approval::{Approval, Decide, Decided, Verdict};
use unisono_api::{Code, Problem};
use unisono_context::{CallId, SessionId};
use unisono_runtime::Handle;
use unisono_session::run::calls::{Decision, Status, Waiting};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::problem::Fault;
use super::{Shared, sessions, words};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(decide))
}

/// Calls that were decided about of late, by whomever over HTTP: their turns may have ended since,
/// and who comes second is told that they are second.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<CallId>>);

impl Recent {
    /// How many are remembered.
    const KEPT: usize = 1_024;

    fn add(&self, call: CallId) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.truncate(Recent::KEPT - 1);
        recent.push_front(call);
    }

    fn has(&self, call: CallId) -> bool {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.contains(&call)
    }
}

/// Which calls.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only those of this session.
    session: Option<String>,
}

/// The calls that wait, the oldest first. Events named `tools_called`, `tool_in_doubt` and
/// `tool_decided` say when that changes.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals", security(("token" = [])),
    params(Which),
    responses((status = 200, description = "The calls", body = Vec<Approval>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Which>,
) -> Result<Json<Vec<Approval>>, Fault> {
    Ok(Json(waiting(&shared, which.session.as_deref()).await?))
}

/// The calls that wait, of all sessions or of one, the oldest first.
pub(super) async fn waiting(
    shared: &Shared,
    session: Option<&str>,
) -> Result<Vec<Approval>, Fault> {
    let mut all = Vec::new();
    for (session, waiting) in open(shared, session).await? {
        all.extend(waiting.into_iter().map(|one| (session.id(), one)));
    }
    all.sort_by_key(|(_, one)| (one.call.asked_at, one.place));
    let all = all.iter().map(|(session, one)| told(*session, one));
    Ok(all.collect())
}

/// Decides about a call. The second answer to one is refused with `conflict`.
#[utoipa::path(
    post, path = "/v1/approvals/{call}", tag = "approvals", security(("token" = [])),
    params(("call" = String, Path, description = "The call's id")),
    request_body = Decide,
    responses((status = 200, description = "It is decided, and on disk", body = Decided),
              (status = "default", description = "A problem", body = Problem))
)]
async fn decide(
    State(shared): State<Arc<Shared>>,
    Path(call): Path<String>,
    extract::Json(asked): extract::Json<Decide>,
) -> Result<Json<Decided>, Fault> {
    Ok(Json(answer(&shared, &call, asked).await?))
}

/// Decides about the call that waits, in whichever session it does.
pub(super) async fn answer(shared: &Shared, call: &str, asked: Decide) -> Result<Decided, Fault> {
    let id: CallId = extract::id("call", call)?;
    let decision = decision(asked)?;
    let mut before = shared.decided.has(id);
    for session in unfinished(shared).await? {
        let look = session.inspect(move |state| {
            let mut waiting = state.waiting_calls();
            let found = waiting.find(|waiting| waiting.id == id);
            (found, state.was_decided(id))
        });
        let (found, decided) = look.await?;
        before |= decided;
        if let Some(waiting) = found {
            let word = decision.name();
            session.decide(id, decision).await?;
            shared.decided.add(id);
            return Ok(Decided {
                call: id.to_string(),
                session: session.id().to_string(),
                turn: waiting.turn.to_string(),
                decision: word.to_owned(),
            });
        }
    }
    Err(if before {
        let detail = format!("it was decided about call {id} before");
        Fault::new(Code::Conflict, detail)
    } else {
        Fault::not_found("call that waits for a person", id)
    })
}

/// The sessions in which something may wait: those with open turns.
async fn unfinished(shared: &Shared) -> Result<Vec<Handle>, Fault> {
    let mut handles = Vec::new();
    for id in shared.daemon.unfinished().await? {
        handles.push(shared.daemon.open(id).await?);
    }
    Ok(handles)
}

async fn open(
    shared: &Shared,
    session: Option<&str>,
) -> Result<Vec<(Handle, Vec<Waiting>)>, Fault> {
    let handles = match session {
        Some(id) => vec![sessions::open(shared, id).await?],
        None => unfinished(shared).await?,
    };
    let mut open = Vec::new();
    for handle in handles {
        let waiting = handle.inspect(|state| state.waiting_calls().collect::<Vec<_>>());
        let waiting = waiting.await?;
        open.push((handle, waiting));
    }
    Ok(open)
}

fn decision(asked: Decide) -> Result<Decision, Fault> {
    let text = asked.text.filter(|text| !text.trim().is_empty());
    let wanted = |text: Option<String>| {
        let missing = "`text` is missing: say what the model is to be told";
        text.map(Arc::from)
            .ok_or_else(|| Fault::new(Code::InvalidRequest, missing))
    };
    Ok(match asked.decision {
        Verdict::Approve => Decision::Approved,
        Verdict::Deny => Decision::Denied {
            reason: text.map(Arc::from),
        },
        Verdict::Done => Decision::Done {
            text: wanted(text)?,
        },
        Verdict::Failed => Decision::Failed {
            text: wanted(text)?,
        },
        Verdict::Repeat => Decision::Repeat,
    })
}

fn told(session: SessionId, waiting: &Waiting) -> Approval {
    let planned = &waiting.call.planned;
    let approval = planned.approval.as_ref();
    let in_doubt = waiting.call.status == Status::InDoubt;
    Approval {
        call: waiting.id.to_string(),
        waits_for: if in_doubt { "in_doubt" } else { "approval" }.to_owned(),
        session: session.to_string(),
        turn: waiting.turn.to_string(),
        run: waiting.place.run.to_string(),
        agent: waiting.agent.to_string(),
        tool: planned.tool.to_string(),
        arguments: serde_json::from_str(&planned.arguments).unwrap_or_default(),
        contract: planned.contract.name().to_owned(),
        rule: approval.map(|approval| approval.rule.to_string()),
        asked: words::instant(waiting.call.asked_at),
        until: approval
            .and_then(|approval| approval.until)
            .map(words::instant),
    }
}
