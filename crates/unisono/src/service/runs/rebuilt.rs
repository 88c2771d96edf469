//! Requests of runs, rebuilt from the journal.

use unisono_api::Code;
use unisono_api::run::{
    DigestCheck, Replay, ReplayedRequest, ReplayedRun, RequestBody, RunRequest, Why, WhyQuery,
};
use unisono_api::turn::ErrorInfo;
use unisono_context::{RunId, SessionId, TurnId};
use unisono_runtime::attachments;
use unisono_runtime::replay::{self, RebuiltRequest, RebuiltTurn, Requests};
use unisono_session::Replay as Journaled;
use unisono_session::event::Outcome;

use super::super::id;
use super::FoundRun;
use crate::Local;
use crate::error::Error;
use crate::history;
use crate::local::off_thread;
use crate::why::{self, causes};

/// The requests of a run and their reasons.
pub(super) async fn why(local: &Local, found: &FoundRun, query: &WhyQuery) -> Result<Why, Error> {
    let turn = found.traced()?.opened.1.turn;
    let other = sibling(found, query.against.as_deref())?;
    let (_, rebuilt) = rebuild(local, found.session, turn).await?;
    let own = why::requests(&rebuilt, found.id);
    let unknown = match own {
        Some(own) => own.unknown.clone(),
        None => Some(unreadable(&rebuilt)),
    };
    let rebuilt_requests = own.map_or(&[][..], |own| &own.requests);
    let number = query.number.map(|number| number as usize);
    let at = number.unwrap_or(1).checked_sub(1);
    let chosen = at.and_then(|at| Some((at, rebuilt_requests.get(at)?)));
    if let (None, Some(number)) = (chosen, number) {
        return Err(no_request(number, rebuilt_requests.len()));
    }
    let against = other
        .zip(at)
        .and_then(|(other, at)| why::difference(&found.trace, &rebuilt, (found.id, at), other));
    let requests = rebuilt_requests.iter().enumerate();
    Ok(Why {
        session: found.session.to_string(),
        turn: turn.to_string(),
        run: found.run()?,
        causes: causes::of_run(&found.trace, found.id),
        requests: requests
            .map(|(at, request)| run_request(at, request, query.bodies))
            .collect(),
        unknown,
        body: chosen.map(|(at, request)| body(at, request)),
        checks: checks(&rebuilt, Some(found.id)),
        against,
    })
}

/// The requests of a turn, rebuilt from the journal alone.
pub(super) async fn replay(
    local: &Local,
    session: SessionId,
    turn: TurnId,
) -> Result<Replay, Error> {
    // A missing session is an error of its own, and not an empty journal.
    local.view(session).await?;
    let (replay, rebuilt) = rebuild(local, session, turn).await?;
    if replay.turn().is_none() {
        return Err(Error::not_found("turn", turn));
    }
    let outcome = replay.outcome();
    let requests: usize = rebuilt.runs.iter().map(|run| run.requests.len()).sum();
    Ok(Replay {
        session: session.to_string(),
        turn: turn.to_string(),
        state: outcome.map_or("open", Outcome::name).to_owned(),
        text: outcome.map_or_else(|| "open".to_owned(), ToString::to_string),
        error: match outcome {
            Some(Outcome::Failed { code, reason }) => Some(ErrorInfo {
                code: code.to_string(),
                reason: reason.to_string(),
            }),
            _ => None,
        },
        requests: requests as u64,
        runs: rebuilt.runs.iter().map(replayed).collect(),
        prepared: replay.prepared().to_vec(),
        checks: checks(&rebuilt, None),
        mismatches: rebuilt.mismatches().count() as u64,
    })
}

/// The requests of a turn, rebuilt off the async threads.
async fn rebuild(
    local: &Local,
    session: SessionId,
    turn: TurnId,
) -> Result<(Journaled, RebuiltTurn), Error> {
    let replay = history::replay(local.journal(), session, turn).await?;
    let (setup, extensions) = (local.setup(), local.extensions().clone());
    if let Some(snapshot) = replay.turn().and_then(|turn| turn.snapshot.0.as_ref()) {
        let loaded = attachments::load(local.journal(), snapshot).await;
        loaded.map_err(|why| Error::new(Code::Failed, why))?;
    }
    let files = attachments::of_runs(local.journal(), &replay).await;
    let files = files.map_err(|why| Error::new(Code::Failed, why))?;
    Ok(off_thread(move || {
        let rebuilt = history::rebuild(&setup, &extensions, &replay, &files);
        (replay, rebuilt)
    })
    .await)
}

/// Why nothing was rebuilt at all.
fn unreadable(rebuilt: &RebuiltTurn) -> String {
    let wrong = rebuilt.mismatches().next();
    let wrong = wrong.map_or("it is not in the journal", |check| &check.rebuilt);
    format!("the context of the run cannot be rebuilt: {wrong}")
}

fn no_request(number: usize, sent: usize) -> Error {
    let has = match sent {
        0 => "it has none".to_owned(),
        sent => format!("it has 1 to {sent}"),
    };
    let detail = format!("the run has no request {number}; {has}");
    Error::new(Code::NotFound, detail)
}

fn sibling(found: &FoundRun, named: Option<&str>) -> Result<Option<RunId>, Error> {
    let Some(named) = named else {
        return Ok(why::first_sibling(&found.trace, found.id));
    };
    let other: RunId = id("run", named)?;
    let turn = found.traced()?.opened.1.turn;
    match found.trace.run(other) {
        Some(run) if run.opened.1.turn == turn => Ok(Some(other)),
        _ => Err(Error::not_found("run of the same turn", other)),
    }
}

fn run_request(at: usize, request: &RebuiltRequest, with_bytes: bool) -> RunRequest {
    let [head, tail] = &request.body;
    let text = |bytes: &[u8]| with_bytes.then(|| String::from_utf8_lossy(bytes).into_owned());
    RunRequest {
        number: at as u64 + 1,
        to: request.to.to_string(),
        head_bytes: head.len() as u64,
        bytes: (head.len() + tail.len()) as u64,
        digest: request.digest.to_string(),
        fallback_prefix: request.fallback_prefix.map(|prefix| prefix.to_string()),
        after_steps: request.known as u64,
        masked: request.masked as u64,
        wrap_up: request.wrap_up.as_ref().map(ToString::to_string),
        attempt: request.attempt,
        sent: request.sent,
        head: text(head),
        tail: text(tail),
    }
}

fn body(at: usize, request: &RebuiltRequest) -> RequestBody {
    let [head, tail] = &request.body;
    RequestBody {
        number: at as u64 + 1,
        head: String::from_utf8_lossy(head).into_owned(),
        tail: String::from_utf8_lossy(tail).into_owned(),
    }
}

/// All comparisons, or those of one run.
fn checks(rebuilt: &RebuiltTurn, only: Option<RunId>) -> Vec<DigestCheck> {
    let of_it =
        |check: &&replay::Check| only.is_none() || check.run.is_none_or(|of| Some(of) == only);
    let checks = rebuilt
        .checks
        .iter()
        .filter(of_it)
        .map(|check| DigestCheck {
            check: check.what.to_owned(),
            run: check.run.map(|run| run.to_string()),
            recorded: check.recorded.clone(),
            rebuilt: check.rebuilt.clone(),
            matches: check.is_equal(),
        });
    checks.collect()
}

fn replayed(run: &Requests) -> ReplayedRun {
    let requests = run.requests.iter().map(|request| ReplayedRequest {
        to: request.to.to_string(),
        bytes: request.body.iter().map(|piece| piece.len() as u64).sum(),
        digest: request.digest.to_string(),
        attempt: request.attempt,
        sent: request.sent,
    });
    ReplayedRun {
        run: run.run.to_string(),
        agent: run.agent.to_string(),
        requests: requests.collect(),
        unknown: run.unknown.clone(),
    }
}
