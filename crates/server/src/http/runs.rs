//! `/v1/runs` and `/v1/sessions/{session}/runs`: what agents were given to do, what became of it, and the exact
//! bytes they were sent.

pub(super) mod list;

use std::sync::Arc;
use unisono::turn_view;
use unisono::values;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::Code;
use unisono_api::run::{
    Against, Attempt, Call, CallResult, Cause, Check, Done, Replay, RequestBody, RunDetail,
    RunStep, SentRequest, Why,
};
use unisono_api::turn::Turn;
use unisono_context::RunId;
use unisono_runtime::Handle;
use unisono_runtime::replay::{self, Rebuilt, Sent};
use unisono_session::Trace;
use unisono_session::run::{Spent, StandIn, Step};
use unisono_session::trace::{Moment, RunTrace};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::problem::Fault;
use super::{Shared, sessions};
use unisono::past::{self, Sought};
use unisono::why::{self, Difference, causes};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .merge(list::routes())
        .routes(routes!(show))
        .routes(routes!(cancel))
        .routes(routes!(request))
        .routes(routes!(replay_turn))
}

/// A run of a session as its journal tells it.
struct Found {
    session: Handle,
    id: RunId,
    trace: Trace,
}

impl Found {
    async fn new(shared: &Shared, session: &str, run: &str) -> Result<Found, Fault> {
        let session = sessions::open(shared, session).await?;
        let id: RunId = extract::id("run", run)?;
        let journal = shared.local.journal();
        let trace = past::turn(journal, &session, Sought::Run(id)).await?;
        let trace = trace.ok_or_else(|| Fault::not_found("run", id))?;
        Ok(Found { session, id, trace })
    }

    fn run(&self) -> Result<&RunTrace, Fault> {
        let found = self.trace.run(self.id);
        found.ok_or_else(|| Fault::not_found("run", self.id))
    }
}

/// A run with its steps.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/runs/{run}", tag = "runs",
    params(("session" = String, Path, description = "The session's id"),
           ("run" = String, Path, description = "The run's id")),
    responses((status = 200, description = "The run", body = RunDetail))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, run)): Path<(String, String)>,
) -> Result<Json<RunDetail>, Fault> {
    detail(&shared, &id, &run).await.map(Json)
}

/// A run with its steps.
pub(super) async fn detail(shared: &Shared, session: &str, run: &str) -> Result<RunDetail, Fault> {
    let found = Found::new(shared, session, run).await?;
    let traced = found.run()?;
    let turn = traced.opened.1.turn;
    let told = turn_view::one(&found.trace, found.session.id(), turn);
    let id = found.id.to_string();
    let mut runs = told.into_iter().flat_map(|told| told.runs);
    let run = runs.find(|run| run.run == id);
    let attempts = traced
        .retries
        .iter()
        .map(|(moment, attempt, reason)| Attempt {
            attempt: *attempt,
            at: values::instant(moment.at),
            reason: reason.to_string(),
        });
    Ok(RunDetail {
        session: found.session.id().to_string(),
        turn: turn.to_string(),
        run: run.ok_or_else(|| Fault::not_found("run", found.id))?,
        definition: traced.opened.1.definition.to_string(),
        steps: traced.steps.iter().map(step).collect(),
        attempts: attempts.collect(),
    })
}

fn step((moment, step): &(Moment, Arc<Step>)) -> RunStep {
    let stand_in = step.reply().and_then(|reply| reply.stand_in.as_ref());
    let done = match &**step {
        Step::Model(reply) => Done::Model {
            text: reply.text.to_string(),
            calls: reply
                .calls
                .iter()
                .map(|call| Call {
                    id: call.id.to_string(),
                    name: call.name.to_string(),
                    arguments: call.arguments.to_string(),
                })
                .collect(),
            stand_in: stand_in.map(|by| by.model.to_string()),
            stand_in_prefix: stand_in
                .and_then(StandIn::prefix)
                .map(|prefix| prefix.to_string()),
            input_tokens: reply.usage.input.0,
            output_tokens: reply.usage.output.0,
            cost_usd: values::dollars(reply.usage.cost),
        },
        Step::Tools(results) => Done::Tools {
            results: results
                .iter()
                .map(|result| CallResult {
                    call_id: result.call_id.to_string(),
                    content: result.content.to_string(),
                    is_error: result.is_error,
                })
                .collect(),
        },
        Step::Named { name, result } => Done::Named {
            name: name.to_string(),
            result: result.to_string(),
        },
        Step::Narrowed { room, output } => Done::Narrowed {
            room_tokens: room.0,
            output_tokens: output.map(|tokens| tokens.0),
        },
        Step::Spent(Spent { usage, stand_in }) => Done::Spent {
            stand_in: stand_in.as_ref().map(ToString::to_string),
            input_tokens: usage.input.0,
            output_tokens: usage.output.0,
            cost_usd: values::dollars(usage.cost),
        },
    };
    RunStep {
        event: moment.seq,
        at: values::instant(moment.at),
        done,
    }
}

/// Stops a run and what it gave to others. The turn goes on without it; a lead's run is its turn.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/runs/{run}/cancel", tag = "runs",
    params(("session" = String, Path, description = "The session's id"),
           ("run" = String, Path, description = "The run's id")),
    responses((status = 200, description = "Its turn", body = Turn))
)]
async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path((id, run)): Path<(String, String)>,
) -> Result<Json<Turn>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let run: RunId = extract::id("run", &run)?;
    session.cancel_run(run).await?;
    let journal = shared.local.journal();
    let trace = past::turn(journal, &session, Sought::Run(run)).await?;
    let turn = trace.as_ref().and_then(|trace| {
        let turn = trace.run(run)?.opened.1.turn;
        turn_view::one(trace, session.id(), turn)
    });
    turn.map(Json).ok_or_else(|| Fault::not_found("run", run))
}

/// Which request, and beside whose.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Beside {
    /// The request whose bytes are told, from 1: the first.
    pub(super) number: Option<usize>,
    /// The run of the same turn to compare with; none: the first sibling.
    pub(super) against: Option<String>,
}

/// The exact bytes that a run's agent was sent, what they share with a sibling's, and the chain of
/// causes; rebuilt from the journal, with every digest compared.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/runs/{run}/request", tag = "runs",
    params(("session" = String, Path, description = "The session's id"),
           ("run" = String, Path, description = "The run's id"), Beside),
    responses((status = 200, description = "What it was sent, and why", body = Why))
)]
async fn request(
    State(shared): State<Arc<Shared>>,
    Path((id, run)): Path<(String, String)>,
    Query(beside): Query<Beside>,
) -> Result<Json<Why>, Fault> {
    explained(&shared, &id, &run, &beside).await.map(Json)
}

/// What a run was sent, and why.
pub(super) async fn explained(
    shared: &Shared,
    session: &str,
    run: &str,
    beside: &Beside,
) -> Result<Why, Fault> {
    let found = Found::new(shared, session, run).await?;
    let turn = found.run()?.opened.1.turn;
    let other = sibling(&found, beside.against.as_deref())?;
    let journal = shared.local.journal();
    let replay = past::replay(journal, found.session.id(), turn).await?;
    let rebuilt = rebuild(shared, replay).await?;
    let own = why::requests(&rebuilt, found.id);
    let sent = own.map_or(&[][..], |own| &own.sent);
    let at = beside.number.unwrap_or(1).checked_sub(1);
    let chosen = at.and_then(|at| Some((at, sent.get(at)?)));
    if chosen.is_none() && beside.number.is_some() {
        let detail = format!("the run has {} requests, counted from 1", sent.len());
        return Err(Fault::new(Code::NotFound, detail));
    }
    let against = other
        .zip(at)
        .and_then(|(other, at)| Difference::between(&found.trace, &rebuilt, (found.id, at), other));
    Ok(Why {
        run: found.id.to_string(),
        turn: turn.to_string(),
        session: found.session.id().to_string(),
        agent: found.run()?.opened.1.agent.to_string(),
        task: found.trace.task(found.id).map(|task| task.to_string()),
        causes: causes::of(&found.trace, found.id)
            .iter()
            .map(cause)
            .collect(),
        requests: sent.iter().enumerate().map(sent_request).collect(),
        unknown: match own {
            Some(own) => own.unknown.clone(),
            None => Some("the context of the run cannot be rebuilt".to_owned()),
        },
        body: chosen.map(|(at, sent)| body(at, sent)),
        checks: checks(&rebuilt, Some(found.id)),
        against: against.as_ref().map(beside_it),
    })
}

/// The run to compare with.
fn sibling(found: &Found, named: Option<&str>) -> Result<Option<RunId>, Fault> {
    let Some(named) = named else {
        return Ok(why::first_sibling(&found.trace, found.id));
    };
    let other: RunId = extract::id("run", named)?;
    let turn = found.run()?.opened.1.turn;
    match found.trace.run(other) {
        Some(run) if run.opened.1.turn == turn => Ok(Some(other)),
        _ => Err(Fault::not_found("run of the same turn", other)),
    }
}

fn cause(cause: &causes::Cause) -> Cause {
    Cause {
        event: cause.moment.seq,
        at: values::instant(cause.moment.at),
        cause: cause.name.to_owned(),
        text: cause.text.clone(),
    }
}

fn sent_request((at, sent): (usize, &Sent)) -> SentRequest {
    let [head, tail] = &sent.body;
    SentRequest {
        number: at as u64 + 1,
        to: sent.to.to_string(),
        head_bytes: head.len() as u64,
        bytes: (head.len() + tail.len()) as u64,
        digest: sent.digest.to_string(),
        stand_in_prefix: sent.stand_in_prefix.map(|prefix| prefix.to_string()),
        after_steps: sent.known as u64,
        masked: sent.masked as u64,
        wrap_up: sent.wrap_up.as_ref().map(ToString::to_string),
        attempt: sent.attempt,
    }
}

fn body(at: usize, sent: &Sent) -> RequestBody {
    let [head, tail] = &sent.body;
    RequestBody {
        number: at as u64 + 1,
        head: String::from_utf8_lossy(head).into_owned(),
        tail: String::from_utf8_lossy(tail).into_owned(),
    }
}

/// All that was compared, or what concerns one run.
fn checks(rebuilt: &Rebuilt, only: Option<RunId>) -> Vec<Check> {
    let of_it =
        |check: &&replay::Check| only.is_none() || check.run.is_none_or(|of| Some(of) == only);
    let checks = rebuilt.checks.iter().filter(of_it).map(|check| Check {
        check: check.what.to_owned(),
        run: check.run.map(|run| run.to_string()),
        recorded: check.recorded.clone(),
        rebuilt: check.rebuilt.clone(),
        holds: check.holds(),
    });
    checks.collect()
}

fn beside_it(difference: &Difference) -> Against {
    Against {
        run: difference.other.to_string(),
        agent: difference.agent.to_string(),
        request: difference.number as u64 + 1,
        shared_bytes: difference.shared as u64,
        own: difference.own.clone(),
        theirs: difference.theirs.clone(),
        differs: difference.differs.iter().map(ToString::to_string).collect(),
    }
}

/// A turn's requests once more, from the journal and nothing else: every digest compared with the
/// recorded one, nobody asked.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/turns/{turn}/replay", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, description = "What was compared", body = Replay))
)]
async fn replay_turn(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Replay>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let turn = extract::id("turn", &turn)?;
    let journal = shared.local.journal();
    let replay = past::replay(journal, session.id(), turn).await?;
    if replay.turn().is_none() {
        return Err(Fault::not_found("turn", turn));
    }
    let rebuilt = rebuild(&shared, replay).await?;
    let requests: usize = rebuilt.runs.iter().map(|run| run.sent.len()).sum();
    Ok(Json(Replay {
        session: session.id().to_string(),
        turn: turn.to_string(),
        requests: requests as u64,
        checks: checks(&rebuilt, None),
        mismatches: rebuilt.mismatches().count() as u64,
    }))
}

/// The requests of a turn, rebuilt off the async threads.
async fn rebuild(
    shared: &Shared,
    replay: unisono_session::replay::Replay,
) -> Result<Rebuilt, Fault> {
    let (setup, extensions) = (shared.local.setup(), shared.local.extensions().clone());
    super::off_thread(move || past::rebuild(&setup, &extensions, &replay)).await
}
