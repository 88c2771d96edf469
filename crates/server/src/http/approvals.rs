//! `/v1/approvals`: calls of tools that wait for a person, of all sessions.

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use unisono::values;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::approval::{Approval, Decide, Decided, Verdict};
use unisono_api::{Code, Page};
use unisono_context::{CallId, SessionId, Timestamp};
use unisono_runtime::Handle;
use unisono_session::run::calls::{CallPlace, Decision, Status, Waiting};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::part::after;
use super::problem::Fault;
use super::{Shared, sessions};

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
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only those of this session.
    session: Option<String>,
    /// `next` of the part before.
    cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// Where a call stands among those that wait: also once it does not wait any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    asked_at: Timestamp,
    call: CallPlace,
}

impl Place {
    fn of(waiting: &Waiting) -> Place {
        Place {
            asked_at: waiting.call.asked_at,
            call: waiting.place,
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Place { asked_at, call } = self;
        write!(
            f,
            "{}.{}.{}.{}",
            asked_at.0, call.run, call.round, call.index
        )
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Place, ()> {
        let parts: Vec<&str> = text.split('.').collect();
        let [asked_at, run, round, index] = parts[..] else {
            return Err(());
        };
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(Place {
            asked_at: Timestamp(asked_at.parse().map_err(|_| ())?),
            call: CallPlace {
                run: run.parse().map_err(|_| ())?,
                round: number(round)?,
                index: number(index)?,
            },
        })
    }
}

/// The calls that wait, the oldest first. Events named `tools_called`, `tool_in_doubt` and
/// `tool_decided` say when that changes.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals",
    params(Which),
    responses((status = 200, description = "A part of the list", body = Page<Approval>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Which>,
) -> Result<Json<Page<Approval>>, Fault> {
    let after: Option<Place> = after(which.cursor.as_deref())?;
    let mut all = open(&shared, which.session.as_deref()).await?;
    all.retain(|(_, one)| after.is_none_or(|after| Place::of(one) > after));
    let limit = Page::<Approval>::size(which.limit);
    let part = Page::first(all, limit, |(_, last)| Place::of(last).to_string());
    let items = part
        .items
        .iter()
        .map(|(session, one)| to_api(*session, one));
    Ok(Json(Page {
        items: items.collect(),
        next: part.next,
    }))
}

/// The calls that wait, of all sessions or of one, the oldest first.
pub(super) async fn waiting(
    shared: &Shared,
    session: Option<&str>,
) -> Result<Vec<Approval>, Fault> {
    let all = open(shared, session).await?;
    let all = all.iter().map(|(session, one)| to_api(*session, one));
    Ok(all.collect())
}

/// Decides about a call. The second answer to one is refused with `conflict`.
#[utoipa::path(
    post, path = "/v1/approvals/{call}", tag = "approvals",
    params(("call" = String, Path, description = "The call's id")),
    request_body = unisono_api::approval::Decision,
    responses((status = 200, description = "It is decided, and on disk", body = Decided))
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
        let detail = format!("call {id} has already been decided");
        Fault::new(Code::Conflict, detail)
    } else {
        Fault::not_found("call that waits for a person", id)
    })
}

/// The sessions in which something may wait: those with open turns.
async fn unfinished(shared: &Shared) -> Result<Vec<Handle>, Fault> {
    let mut handles = Vec::new();
    for id in shared.local.unfinished().await? {
        handles.push(shared.local.open(id).await?);
    }
    Ok(handles)
}

/// The calls that wait with their sessions, in the order of their places.
async fn open(shared: &Shared, session: Option<&str>) -> Result<Vec<(SessionId, Waiting)>, Fault> {
    let handles = match session {
        Some(id) => vec![sessions::open(shared, id).await?],
        None => unfinished(shared).await?,
    };
    let mut open = Vec::new();
    for handle in handles {
        let waiting = handle.inspect(|state| state.waiting_calls().collect::<Vec<_>>());
        let waiting = waiting.await?.into_iter();
        open.extend(waiting.map(|one| (handle.id(), one)));
    }
    open.sort_by_key(|(_, one)| Place::of(one));
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

fn to_api(session: SessionId, waiting: &Waiting) -> Approval {
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
        asked: values::instant(waiting.call.asked_at),
        until: approval
            .and_then(|approval| approval.until)
            .map(values::instant),
    }
}
