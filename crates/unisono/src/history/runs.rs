//! Pages of runs: those of one session, with its newest turn first, and those of all sessions, with
//! the newest session first.
//!
//! For one session, a page costs the events of the turns that it examines, wherever they are in the
//! journal, up to a limit. The last page searches for more turns up to the beginning.
//!
//! There is no index of runs. A page costs one row for each session of the store, and the journals
//! of the sessions whose runs it examines, up to a limit: if few runs match, a page may be short,
//! or empty, and still have a next page. If only open runs are requested, the last event of a
//! session tells whether its journal must be read.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use unisono_context::{RunId, SessionId, TurnId};
use unisono_session::Trace;
use unisono_store::{Journal, SessionInfo};

use super::{Error, trace, turns};
use crate::view::Inspect;

/// Maximum journals that are read for one page.
const JOURNALS: usize = 64;
/// Maximum last events that are read for one page.
const LOOKS: usize = 1_024;
/// Sessions listed at a time.
const PAGE: usize = 1_024;
/// Maximum turns of one session that are examined for one page.
const TURNS: usize = 1_024;
/// Turns of one session that are read at a time.
const AT_ONCE: usize = 64;

/// The start of a page of one session's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCursor {
    /// The event of the acceptance of the last examined turn.
    accepted: u64,
    /// The last returned run of it; none: all were returned.
    run: Option<RunId>,
}

impl Display for RunCursor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.run {
            Some(run) => write!(f, "{}.{run}", self.accepted),
            None => write!(f, "{}", self.accepted),
        }
    }
}

/// An invalid position among a session's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCursor;

impl FromStr for RunCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<RunCursor, InvalidCursor> {
        let (accepted, run) = match text.split_once('.') {
            Some((accepted, run)) => (accepted, Some(run)),
            None => (text, None),
        };
        let run = run.map(str::parse).transpose().map_err(|_| InvalidCursor)?;
        let accepted = accepted.parse().map_err(|_| InvalidCursor)?;
        Ok(RunCursor { accepted, run })
    }
}

/// At most `limit` runs of a session after a position, and the start of the next page; none at the
/// end. `pick` returns the matching runs of a turn, in the order of their opening. A page may have
/// fewer items than requested, and still a next page.
///
/// # Errors
/// The store fails, or the session cannot be inspected.
pub async fn of_session<T>(
    journal: &Journal,
    session: &impl Inspect,
    after: Option<RunCursor>,
    limit: usize,
    pick: impl Fn(TurnId, &Trace) -> Vec<(RunId, T)>,
) -> Result<(Vec<T>, Option<RunCursor>), Error> {
    let (mut found, mut last, mut looked) = (Vec::new(), None, 0);
    // A partly returned turn is examined again.
    let mut before = after.map_or(u64::MAX, |spot| match spot.run {
        Some(_) => spot.accepted.saturating_add(1),
        None => spot.accepted,
    });
    let many = limit.min(AT_ONCE);
    while looked < TURNS {
        let part = turns(journal, session, before, many).await?;
        let each = part.turns().map(|(id, turn)| (turn.accepted.0.seq, id));
        let mut newest: Vec<_> = each.filter(|(seq, _)| *seq < before).collect();
        newest.sort_unstable();
        let is_last = newest.len() < many;
        for (accepted, turn) in newest.into_iter().rev() {
            let spot = after.filter(|spot| spot.accepted == accepted);
            let mut runs = pick(turn, &part);
            if let Some(last) = spot.and_then(|spot| spot.run) {
                let order = part.turn(turn).map_or(&[][..], |turn| &turn.runs);
                let is_left = |run: &RunId| {
                    order
                        .iter()
                        .take_while(|one| **one != last)
                        .any(|one| one == run)
                };
                runs.retain(|(run, _)| is_left(run));
            }
            for (run, wanted) in runs.into_iter().rev() {
                if found.len() == limit {
                    return Ok((found, last));
                }
                found.push(wanted);
                last = Some(RunCursor {
                    accepted,
                    run: Some(run),
                });
            }
            (before, looked) = (accepted, looked + 1);
        }
        if is_last {
            return Ok((found, None));
        }
    }
    Ok((
        found,
        Some(RunCursor {
            accepted: before,
            run: None,
        }),
    ))
}

/// The start of a page of all runs: a position in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    session: SessionId,
    /// The last examined run of it; none: all were.
    run: Option<RunId>,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.run {
            Some(run) => write!(f, "{}.{run}", self.session),
            None => write!(f, "{}", self.session),
        }
    }
}

impl FromStr for Place {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Place, uuid::Error> {
        let (session, run) = match text.split_once('.') {
            Some((session, run)) => (session, Some(run)),
            None => (text, None),
        };
        let run = run.map(str::parse).transpose()?;
        let session = session.parse()?;
        Ok(Place { session, run })
    }
}

/// At most `limit` runs after a position, and the start of the next page; none at the end. `pick`
/// returns the matching runs of a session; the newest session comes first, and in it the run that
/// was opened last. `open`: only runs of open turns can match.
///
/// # Errors
/// The store fails.
pub async fn part<T>(
    journal: &Journal,
    open: bool,
    after: Option<Place>,
    limit: usize,
    pick: impl Fn(SessionId, &Trace) -> Vec<(RunId, T)>,
) -> Result<(Vec<T>, Option<Place>), Error> {
    let (mut found, mut journals, mut looks) = (Vec::new(), 0, 0);
    let mut sessions = newest_first(journal, after).await?.into_iter().peekable();
    while let Some(info) = sessions.next() {
        let session = SessionId::from(info.session);
        let more = sessions.peek().map(|_| Place { session, run: None });
        if open {
            looks += 1;
            if journal.has_open_turns(&info).await? == Some(false) {
                if looks == LOOKS {
                    return Ok((found, more));
                }
                continue;
            }
        }
        let traced = trace(journal, session).await?;
        journals += 1;
        let last = after.filter(|place| place.session == session);
        let mut runs: Vec<(RunId, T)> = pick(session, &traced);
        runs.sort_by_key(|(run, _)| opened(&traced, *run));
        if let Some(at) = last.and_then(|place| opened(&traced, place.run?)) {
            runs.retain(|(run, _)| opened(&traced, *run).is_some_and(|opened| opened < at));
        }
        for (run, wanted) in runs.into_iter().rev() {
            if found.len() == limit {
                return Ok((found, place_before(session, run, &traced)));
            }
            found.push(wanted);
        }
        if journals == JOURNALS || found.len() == limit {
            return Ok((found, more));
        }
    }
    Ok((found, None))
}

/// The position before a run that is not returned any more: after the run that was opened next to
/// it.
fn place_before(session: SessionId, next: RunId, traced: &Trace) -> Option<Place> {
    let next = opened(traced, next)?;
    let later = traced.runs().map(|(id, run)| (run.opened.0.seq, id));
    let run = later.filter(|(seq, _)| *seq > next).min();
    let run = run.map(|(_, id)| id);
    Some(Place { session, run })
}

fn opened(traced: &Trace, run: RunId) -> Option<u64> {
    traced.run(run).map(|run| run.opened.0.seq)
}

/// The sessions from a position on.
async fn newest_first(journal: &Journal, after: Option<Place>) -> Result<Vec<SessionInfo>, Error> {
    let mut all = Vec::new();
    loop {
        let last = all.last().map(|info: &SessionInfo| info.session.into());
        let page = journal.sessions(last, PAGE).await?;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let is_left = |id: SessionId| {
        after.is_none_or(|place| match place.run {
            Some(_) => id <= place.session,
            None => id < place.session,
        })
    };
    // A claimed session without events does not exist.
    all.retain(|info| info.last_seq > 0 && is_left(info.session.into()));
    all.reverse();
    Ok(all)
}
