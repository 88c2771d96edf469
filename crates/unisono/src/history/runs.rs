//! Runs, a part at a time: those of one session, those of its newest turn first; and those of all,
//! of the newest session first.
//!
//! Of one session, a part costs the events of the turns that it looks at, wherever they are in the
//! journal, and there is a bound on these too. The last part looks for more turns up to the beginning.
//!
//! There is no index of runs. A part costs one row for each session of the store, and the journals
//! of those sessions whose runs it looks at, of which there is a bound: where few runs are wanted, a
//! part may be short, or empty, and still have one after it. Where only open ones are wanted, the
//! last event of a session tells whether its journal has to be read.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use unisono_context::{RunId, SessionId, TurnId};
use unisono_session::Trace;
use unisono_store::{Journal, SessionInfo};

use super::{Error, trace, turns};
use crate::view::Inspect;

/// Journals that are read for one part at most.
const JOURNALS: usize = 64;
/// Last events that are read for one part at most.
const LOOKS: usize = 1_024;
/// Sessions listed at a time.
const PAGE: usize = 1_024;
/// Turns of one session that are looked at for one part at most.
const TURNS: usize = 1_024;
/// Turns of one session that are read at a time.
const AT_ONCE: usize = 64;

/// Where a part of one session's runs begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The event at which the last turn was accepted that was looked at.
    accepted: u64,
    /// The last run of it that was told; none: all were.
    run: Option<RunId>,
}

impl Display for Spot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.run {
            Some(run) => write!(f, "{}.{run}", self.accepted),
            None => write!(f, "{}", self.accepted),
        }
    }
}

/// What is no place among a session's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpot;

impl FromStr for Spot {
    type Err = NoSpot;

    fn from_str(text: &str) -> Result<Spot, NoSpot> {
        let (accepted, run) = match text.split_once('.') {
            Some((accepted, run)) => (accepted, Some(run)),
            None => (text, None),
        };
        let run = run.map(str::parse).transpose().map_err(|_| NoSpot)?;
        let accepted = accepted.parse().map_err(|_| NoSpot)?;
        Ok(Spot { accepted, run })
    }
}

/// At most `limit` runs of a session after a spot, and where the next part begins; none at the end.
/// `pick` gives those runs of a turn that are wanted, in the order in which they were opened. A part
/// may have fewer than asked for, and still one after it.
///
/// # Errors
/// The store fails, or the session cannot be asked.
pub async fn of_session<T>(
    journal: &Journal,
    session: &impl Inspect,
    after: Option<Spot>,
    limit: usize,
    pick: impl Fn(TurnId, &Trace) -> Vec<(RunId, T)>,
) -> Result<(Vec<T>, Option<Spot>), Error> {
    let (mut found, mut last, mut looked) = (Vec::new(), None, 0);
    // The turn of which some were told is looked at once more.
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
            let told = after.filter(|spot| spot.accepted == accepted);
            let mut runs = pick(turn, &part);
            if let Some(told) = told.and_then(|spot| spot.run) {
                let order = part.turn(turn).map_or(&[][..], |turn| &turn.runs);
                let is_left = |run: &RunId| {
                    order
                        .iter()
                        .take_while(|one| **one != told)
                        .any(|one| one == run)
                };
                runs.retain(|(run, _)| is_left(run));
            }
            for (run, wanted) in runs.into_iter().rev() {
                if found.len() == limit {
                    return Ok((found, last));
                }
                found.push(wanted);
                last = Some(Spot {
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
        Some(Spot {
            accepted: before,
            run: None,
        }),
    ))
}

/// Where a part begins: after what was told of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    session: SessionId,
    /// The last run of it that was looked at; none: all were.
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

/// At most `limit` runs after a place, and where the next part begins; none at the end. `pick` gives
/// those runs of a session that are wanted; those of the session that was made last come first, of
/// each the run that was opened last. `open`: only those of open turns can be.
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

/// The place before a run that is not told any more: after the one that was opened next to it.
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

/// The sessions from a place on.
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
    // A session that was claimed but never written is none.
    all.retain(|info| info.last_seq > 0 && is_left(info.session.into()));
    all.reverse();
    Ok(all)
}
