//! Lists of runs: of one session, and of all sessions.

use std::collections::BTreeSet;

use unisono_api::run::{ListedRun, RunQuery};
use unisono_api::turn::Turn;
use unisono_api::{Code, Page};
use unisono_context::{RunId, SessionId, TurnId};
use unisono_session::State;
use unisono_session::trace::RunStatus;

use super::super::{cursor, id, no_cursor};
use crate::Local;
use crate::error::Error;
use crate::history;
use crate::history::run_index::{OpenedRun, Opening};
use crate::history::runs::RunCursor;
use crate::turn_view;
use crate::view::{Inspect as _, View};

/// Maximum turns that are read for one page of all sessions.
const TURNS: usize = 1_024;

pub(super) async fn runs(local: &Local, query: &RunQuery) -> Result<Page<ListedRun>, Error> {
    let wanted = ListFilter::new(query)?;
    let limit = Page::<ListedRun>::size(query.limit);
    let at = query.cursor.as_deref();
    let Some(session) = query.session.as_deref() else {
        if query.turn.is_some() {
            let detail = "`turn` needs `session`: name the turn's session, or leave the turn out";
            return Err(Error::new(Code::InvalidRequest, detail));
        }
        return of_all(local, &wanted, cursor(at)?, limit).await;
    };
    let session = local.view(id("session", session)?).await?;
    match query.turn.as_deref() {
        Some(turn) => {
            let turn = id("turn", turn)?;
            of_turn(local, &session, turn, &wanted, cursor(at)?, limit).await
        }
        None => newest(local, &session, &wanted, cursor(at)?, limit).await,
    }
}

/// The conditions on requested runs.
struct ListFilter {
    agent: Option<String>,
    state: Option<RunStatus>,
}

impl ListFilter {
    fn new(query: &RunQuery) -> Result<ListFilter, Error> {
        let named = |name: &str| {
            RunStatus::from_name(name).ok_or_else(|| {
                let all = RunStatus::ALL.map(RunStatus::name).join(", ");
                let detail = format!("{name:?} is not a state of a run; use one of {all}");
                Error::new(Code::InvalidRequest, detail)
            })
        };
        let state = query.state.as_deref().map(named).transpose()?;
        let agent = query.agent.clone();
        if agent.as_deref() == Some("") {
            let detail = "`agent` is empty: name one, or leave it out";
            return Err(Error::new(Code::InvalidRequest, detail));
        }
        Ok(ListFilter { agent, state })
    }

    fn has(&self, listed: &ListedRun) -> bool {
        let agent = self.agent.as_ref();
        agent.is_none_or(|agent| *agent == listed.run.agent)
            && self
                .state
                .is_none_or(|state| state.name() == listed.run.state)
    }

    /// Whether only runs of open turns can satisfy them.
    fn is_open(&self) -> bool {
        self.state.is_some_and(RunStatus::is_open)
    }

    fn matching_runs(&self, turns: Vec<Turn>) -> Vec<(RunId, ListedRun)> {
        let runs = runs_of(turns).filter(|run| self.has(run));
        // The id was just written, so it is valid.
        runs.filter_map(|run| Some((run.run.run.parse().ok()?, run)))
            .collect()
    }
}

/// The runs of turns, in the order of the turns.
fn runs_of(turns: Vec<Turn>) -> impl DoubleEndedIterator<Item = ListedRun> {
    turns.into_iter().flat_map(|turn| {
        let (session, turn, runs) = (turn.session, turn.turn, turn.runs);
        runs.into_iter().map(move |run| ListedRun {
            session: session.clone(),
            turn: turn.clone(),
            run,
        })
    })
}

/// The runs of all sessions, the newest opening first, after a position. If few runs match, a page
/// may be short, or empty, and still have a next page.
async fn of_all(
    local: &Local,
    wanted: &ListFilter,
    after: Option<Opening>,
    limit: usize,
) -> Result<Page<ListedRun>, Error> {
    let journal = local.journal();
    let open: Option<BTreeSet<SessionId>> = match wanted.is_open() {
        true => Some(journal.unfinished().await?.into_iter().collect()),
        false => None,
    };
    let is_agent = |run: &OpenedRun| {
        let agent = wanted.agent.as_deref();
        agent.is_none_or(|agent| run.agent.as_str() == agent)
    };
    let (mut items, mut last, mut turns) = (Vec::new(), after, 0);
    let mut read: Option<(TurnId, Vec<ListedRun>)> = None;
    loop {
        // One more run shows whether there is a next page.
        let index = &local.shared.run_index;
        let page = index.page(journal, last, limit + 1, open.as_ref(), is_agent);
        let page = page.await?;
        let is_end = page.len() <= limit;
        for opened in page {
            if items.len() == limit || turns == TURNS {
                let next = last.map(|last| last.to_string());
                return Ok(Page { items, next });
            }
            if read.as_ref().is_none_or(|(turn, _)| *turn != opened.turn) {
                turns += 1;
                read = Some((opened.turn, runs_of_opened(local, &opened).await?));
            }
            let id = opened.run.to_string();
            let runs = read.iter().flat_map(|(_, runs)| runs);
            let run = runs.into_iter().find(|listed| listed.run.run == id);
            items.extend(run.filter(|listed| wanted.has(listed)).cloned());
            last = Some(opened.opening);
        }
        if is_end {
            return Ok(Page { items, next: None });
        }
    }
}

/// The runs of a run's turn. None if the session was deleted meanwhile.
async fn runs_of_opened(local: &Local, opened: &OpenedRun) -> Result<Vec<ListedRun>, Error> {
    let Ok(session) = local.view(opened.session()).await else {
        return Ok(Vec::new());
    };
    let trace = history::turns(local.journal(), &session, opened.accepted + 1, 1).await?;
    let turn = turn_view::of_turn(&trace, session.id(), opened.turn);
    Ok(runs_of(turn.into_iter().collect()).collect())
}

/// The runs of a turn, the newest first, after one of them.
async fn of_turn(
    local: &Local,
    session: &View,
    turn: TurnId,
    wanted: &ListFilter,
    after: Option<RunId>,
    limit: usize,
) -> Result<Page<ListedRun>, Error> {
    let found = turn_view::turn(local.journal(), session, turn).await?;
    let found = found.ok_or_else(|| Error::not_found("turn", turn))?;
    let mut runs = runs_of(vec![found]).rev();
    if let Some(after) = after {
        // Up to the last run of the previous page, whatever its state is now.
        let after = after.to_string();
        let last = runs.find(|listed| listed.run.run == after);
        last.ok_or_else(|| no_cursor(&after))?;
    }
    let runs = runs.filter(|run| wanted.has(run));
    Ok(Page::first(runs, limit, |last| last.run.run.clone()))
}

/// The newest runs of a session, after a position.
async fn newest(
    local: &Local,
    session: &View,
    wanted: &ListFilter,
    after: Option<RunCursor>,
    limit: usize,
) -> Result<Page<ListedRun>, Error> {
    let is_open = |state: &State| state.open_turns().next().is_some();
    if wanted.is_open() && !session.inspect(is_open).await? {
        let (items, next) = (Vec::new(), None);
        return Ok(Page { items, next });
    }
    let (journal, id) = (local.journal(), session.id());
    let part = history::runs::of_session(journal, session, after, limit, |turn, trace| {
        wanted.matching_runs(turn_view::of_turn(trace, id, turn).into_iter().collect())
    });
    let (items, next) = part.await?;
    let next = next.map(|spot| spot.to_string());
    Ok(Page { items, next })
}
