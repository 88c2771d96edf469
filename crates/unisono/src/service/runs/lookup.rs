//! Finds runs and turns by name: an id or a part of one, `latest`, or an agent.

use std::cmp::Reverse;

use unisono_api::Code;
use unisono_api::run::{LookupMatch, LookupQuery, LookupResult};
use unisono_context::{RunId, SessionId, TurnId};
use unisono_session::Trace;
use unisono_session::trace::TurnTrace;
use unisono_store::SessionInfo;

use super::super::id;
use super::super::sessions::{is_meant, is_of_client};
use crate::Local;
use crate::error::Error;
use crate::history;

/// Maximum sessions whose journals are searched.
const LOOKED_AT: usize = 10_000;
/// Maximum runs and turns in a result.
const MAX_RESULTS: usize = 50;
/// Characters of a complete id.
const WHOLE: usize = 36;

/// The runs and turns that match a name.
pub(super) async fn lookup(local: &Local, query: &LookupQuery) -> Result<LookupResult, Error> {
    let name = query.name.as_str();
    if name.is_empty() {
        let detail = "`name` is empty: write an id or a part of one, an agent's name, or `latest`";
        return Err(Error::new(Code::InvalidRequest, detail));
    }
    let only = query.session.as_deref();
    let only: Option<SessionId> = only.map(|text| id("session", text)).transpose()?;
    let sessions = newest(local, only).await?;
    if name != "latest" {
        return find_named(local, &sessions, name).await;
    }
    let any = |sessions| latest(local, sessions, only.is_some(), |_| true);
    let Some((newest, has_runs)) = any(&sessions).await? else {
        return Ok(all([]));
    };
    if has_runs {
        return Ok(all([newest]));
    }
    let with_runs = latest(local, &sessions, only.is_some(), |turn| {
        !turn.runs.is_empty()
    });
    let with_runs = with_runs.await?.map(|(found, _)| found);
    Ok(all([newest].into_iter().chain(with_runs)))
}

fn all(found: impl IntoIterator<Item = LookupMatch>) -> LookupResult {
    LookupResult {
        items: found.into_iter().collect(),
        complete: true,
    }
}

/// The sessions to search, most recently changed first.
async fn newest(local: &Local, only: Option<SessionId>) -> Result<Vec<SessionInfo>, Error> {
    if let Some(id) = only {
        let info = local.journal().session(id).await?;
        let info = info.ok_or(unisono_runtime::Error::UnknownSession(id))?;
        return Ok(vec![info]);
    }
    let mut all = history::all_sessions(local.journal()).await?;
    all.sort_by_key(|found| Reverse((found.updated_unix_ms, found.id())));
    Ok(all)
}

/// The runs and turns with this name. An unreadable journal is an error only if nothing is found.
async fn find_named(
    local: &Local,
    sessions: &[SessionInfo],
    name: &str,
) -> Result<LookupResult, Error> {
    let (mut found, mut unreadable) = (Vec::new(), None);
    for session in sessions.iter().take(LOOKED_AT) {
        let trace = match read_trace(local, session).await {
            Ok(trace) => trace,
            Err(error) => {
                unreadable.get_or_insert(error);
                continue;
            }
        };
        if let Some(run) = newest_of(&trace, name) {
            return Ok(all(of_run(session.id(), &trace, run)));
        }
        let mut meant = matching(session.id(), &trace, name);
        if meant.len() == 1 && name.len() == WHOLE {
            return Ok(all(meant));
        }
        found.append(&mut meant);
        if found.len() >= MAX_RESULTS {
            found.truncate(MAX_RESULTS);
            return Ok(LookupResult {
                items: found,
                complete: false,
            });
        }
    }
    if !found.is_empty() {
        return Ok(LookupResult {
            items: found,
            complete: sessions.len() <= LOOKED_AT,
        });
    }
    if sessions.len() > LOOKED_AT {
        let detail = format!(
            "`{name}` is not in the {LOOKED_AT} sessions that grew last; name its session to look \
             further back"
        );
        return Err(Error::new(Code::Refused, detail));
    }
    match unreadable {
        Some(error) => Err(error.into()),
        None => Ok(all([])),
    }
}

/// The newest turn, and whether it has runs; without a named session, only of sessions that people
/// created. A journal that has not grown since that turn was accepted has no newer one.
async fn latest(
    local: &Local,
    sessions: &[SessionInfo],
    is_named: bool,
    is_meant: impl Fn(&TurnTrace) -> bool,
) -> Result<Option<(LookupMatch, bool)>, Error> {
    let (mut newest, mut accepted) = (None, i64::MIN);
    for session in sessions {
        if i64::try_from(session.updated_unix_ms).is_ok_and(|updated| updated < accepted) {
            break;
        }
        if !is_named {
            let first = local.journal().first_events(&[session.id()]).await?.pop();
            if first.flatten().as_ref().is_some_and(is_of_client) {
                continue;
            }
        }
        let trace = read_trace(local, session).await?;
        let Some((id, turn)) = trace.turns().rfind(|(_, turn)| is_meant(turn)) else {
            continue;
        };
        let at = turn.accepted.0.at.0;
        if at > accepted {
            accepted = at;
            newest = Some((of_turn(session.id(), id), !turn.runs.is_empty()));
        }
    }
    Ok(newest)
}

/// The turns and runs of a listed session, read up to its last event.
async fn read_trace(local: &Local, session: &SessionInfo) -> Result<Trace, history::Error> {
    let (mut trace, mut seq) = (Trace::default(), 0);
    history::read(local.journal(), session.id(), |event| {
        trace.take(event);
        seq += 1;
        Ok::<_, history::Error>(seq < session.last_seq)
    })
    .await?;
    Ok(trace)
}

fn newest_of(trace: &Trace, agent: &str) -> Option<RunId> {
    let own = trace
        .runs()
        .filter(|(_, run)| run.opened.1.agent.as_str() == agent);
    own.map(|(id, _)| id).last()
}

/// The runs and turns whose ids begin or end with the name.
fn matching(session: SessionId, trace: &Trace, name: &str) -> Vec<LookupMatch> {
    let runs = trace.runs().map(|(id, _)| id);
    let runs = runs
        .filter(|id| is_meant(name, id))
        .filter_map(|id| of_run(session, trace, id));
    let turns = trace.turns().map(|(id, _)| id);
    let turns = turns.filter(|id| is_meant(name, id));
    runs.chain(turns.map(|id| of_turn(session, id))).collect()
}

fn of_run(session: SessionId, trace: &Trace, run: RunId) -> Option<LookupMatch> {
    let opened = &trace.run(run)?.opened.1;
    Some(LookupMatch {
        session: session.to_string(),
        turn: opened.turn.to_string(),
        run: Some(run.to_string()),
        agent: Some(opened.agent.to_string()),
    })
}

fn of_turn(session: SessionId, turn: TurnId) -> LookupMatch {
    LookupMatch {
        session: session.to_string(),
        turn: turn.to_string(),
        run: None,
        agent: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::fixture::Counting;

    #[tokio::test]
    async fn each_session_is_read_once_and_only_the_named_one_if_there_is_one() {
        let (engine, local) = Counting::with_three_sessions().await;
        for (session, reads) in [(None, 3), (Some(SessionId::from_u128(2).to_string()), 1)] {
            engine.reads.store(0, Ordering::Relaxed);
            let query = LookupQuery {
                name: "nobody".to_owned(),
                session,
            };
            let found = lookup(&local, &query).await.unwrap();
            assert!(found.items.is_empty() && found.complete);
            assert_eq!(engine.reads.load(Ordering::Relaxed), reads);
        }
    }
}
