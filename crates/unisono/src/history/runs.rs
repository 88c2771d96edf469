//! Pages of the runs of one session, with its newest turn first.
//!
//! A page costs the events of the turns that it examines, wherever they are in the journal, up to a
//! limit. The last page searches for more turns up to the beginning.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use unisono_context::{RunId, TurnId};
use unisono_session::Trace;
use unisono_store::Journal;

use super::{Error, turns};
use crate::view::Inspect;

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
