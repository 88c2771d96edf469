//! `/v1/sessions/{session}/compactions`: summaries on request.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use unisono_api::Code;
use unisono_api::compaction::{Compaction, Estimate, NewCompaction, OnFailure};
use unisono_context::checkpoint::Body;
use unisono_context::compaction::ContextPart;
use unisono_context::policy::Keep;
use unisono_context::{Ordinal, Tokens, TurnId};
use unisono_runtime::Handle;
use unisono_session::State as SessionState;
use unisono_session::event::{Outcome, Unwritten, Work, Writing};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::problem::Fault;
use super::turns::{self, How};
use super::{Shared, sessions, settings};
use unisono::ask::Ask;
use unisono::context::estimate;
use unisono::past::{self, Sought};
use unisono::short;

/// Characters of a new summary that are told.
const PREVIEW_CHARS: usize = 200;
/// A message of fewer tokens is never too large.
const LARGE_LEAST: u64 = 64;

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
) -> Result<Response, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let how = How::from_headers(&headers, new.wait);
    turns::answer(&shared, &session, &to_ask(new)?, how, read_compaction).await
}

/// What is asked of a session by it.
pub(crate) fn to_ask(new: NewCompaction) -> Result<Ask, Fault> {
    let keep = match (new.keep_messages, new.keep_tokens) {
        (Some(_), Some(_)) => {
            let detail = "keep_messages contradicts keep_tokens: leave one out";
            return Err(Fault::new(Code::Refused, detail));
        }
        (Some(0), None) | (None, Some(0)) => {
            return Err(Fault::new(Code::Refused, "at least something must stay"));
        }
        (messages, tokens) => keep(messages, tokens),
    };
    let part = part(&new)?;
    if let (Some(_), Some(_)) = (keep, part) {
        let detail = "a part is compacted whole: leave out keep_messages and keep_tokens";
        return Err(Fault::new(Code::Refused, detail));
    }
    let writing = writing(new.instructions, new.summariser, new.on_failure);
    let own = settings::of_request(&new.settings)?;
    let ask = match part {
        Some(part) => Ask::compaction_of(part, writing),
        None => Ask::compaction(keep, writing),
    };
    Ok(ask.branch(new.branch).with_settings(own))
}

/// The part of the context that is to be made smaller; none: all that is older.
fn part(new: &NewCompaction) -> Result<Option<ContextPart>, Fault> {
    let refused = |detail: &str| Err(Fault::new(Code::Refused, detail));
    match (new.topic, new.attention, new.large_messages) {
        (_, _, false) if new.over_tokens.is_some() => {
            refused("over_tokens is for large_messages: set that, too")
        }
        (_, _, true) if new.over_tokens.is_some_and(|over| over < LARGE_LEAST) => {
            refused("over_tokens must be 64 at least")
        }
        (None, false, false) => Ok(None),
        (Some(message), false, false) => Ok(Some(ContextPart::Topic {
            message: Ordinal(message),
        })),
        (None, true, false) => Ok(Some(ContextPart::Attention)),
        (None, false, true) => Ok(Some(ContextPart::Large {
            over: new.over_tokens.map(Tokens),
        })),
        _ => refused("topic, attention and large_messages contradict each other: name one"),
    }
}

/// How a summary is to be written.
pub(super) fn writing(
    instructions: Option<String>,
    summariser: Option<String>,
    on_failure: OnFailure,
) -> Writing {
    Writing {
        summariser: summariser.map(Into::into),
        unwritten: match on_failure {
            OnFailure::Retry => Unwritten::Retry,
            OnFailure::Extractive => Unwritten::Extractive,
            OnFailure::Leave => Unwritten::Leave,
        },
        ..Writing::with_instructions(instructions)
    }
}

/// What stays; none: all from the newest user message on.
pub(super) fn keep(messages: Option<u32>, tokens: Option<u64>) -> Option<Keep> {
    let amount = tokens.map(|n| Keep::Tokens {
        amount: Tokens(n),
        align: 4,
    });
    messages.map(Keep::Messages).or(amount)
}

/// A turn that compacted, restored or rewrote something, and what it changed.
pub(super) async fn read_compaction(
    shared: &Shared,
    session: &Handle,
    turn: TurnId,
) -> Result<Compaction, Fault> {
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
async fn work_of(shared: &Shared, session: &Handle, turn: TurnId) -> Result<Option<Work>, Fault> {
    let trace = past::turn(shared.local.journal(), session, Sought::Turn(turn)).await?;
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
) -> Result<Json<Estimate>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    estimated(&shared, &session, to_ask(new)?).await.map(Json)
}

/// What a compaction would do.
pub(super) async fn estimated(
    shared: &Shared,
    session: &Handle,
    ask: Ask,
) -> Result<Estimate, Fault> {
    let setup = shared.local.setup_for(session, &ask).await?;
    let mut state = session.inspect(Clone::clone).await?;
    let learnt = shared.local.calibrations().clone();
    let work = move || estimate::Estimate::of(&setup, &learnt, &ask, &mut state);
    Ok(super::off_thread(work).await??.to_api())
}
