//! The runs of all sessions, the newest opening first.
//!
//! The openings of a session are folded once and kept; only later events are read. A page reads the
//! journals of the sessions that can have a run in it: a session cannot have a run that was opened
//! after its last event. That event's time is the store's, and the openings have the times of programs:
//! their difference is learnt from the journals that are read. Deleted sessions are forgotten with the
//! next page.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use tokio::sync::Mutex;
use unisono_context::{AgentId, RunId, SessionId, TurnId};
use unisono_session::{Event, Fact};
use unisono_store::{Journal, SessionInfo};

use super::all_sessions;
use super::folded::Folded;

/// Milliseconds by which the clocks of the store and of events may differ before it is known.
const CLOCKS_MS: i64 = 60_000;

/// A position among the runs of all sessions: the opening of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opening {
    /// Its time, in milliseconds since 1970.
    at: i64,
    session: SessionId,
    /// Its event.
    seq: u64,
}

impl Display for Opening {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.at, self.session, self.seq)
    }
}

/// An invalid position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidOpening;

impl FromStr for Opening {
    type Err = InvalidOpening;

    fn from_str(text: &str) -> Result<Opening, InvalidOpening> {
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or(InvalidOpening);
        let (at, session, seq) = (part()?, part()?, part()?);
        Ok(Opening {
            at: at.parse().map_err(|_| InvalidOpening)?,
            session: session.parse().map_err(|_| InvalidOpening)?,
            seq: seq.parse().map_err(|_| InvalidOpening)?,
        })
    }
}

/// A run and its opening.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenedRun {
    /// When and where it was opened.
    pub opening: Opening,
    /// The run.
    pub run: RunId,
    /// Its turn.
    pub turn: TurnId,
    /// The event that accepted its turn.
    pub accepted: u64,
    /// Its agent.
    pub agent: AgentId,
}

impl OpenedRun {
    /// Its session.
    pub fn session(&self) -> SessionId {
        self.opening.session
    }
}

/// The known openings of runs.
#[derive(Debug, Default)]
pub struct RunIndex(Mutex<Openings>);

#[derive(Debug, Default)]
struct Openings {
    sessions: BTreeMap<SessionId, Folded<SessionRuns>>,
    /// Maximum milliseconds by which an event was ahead of the store's time of a last event.
    ahead_ms: i64,
}

#[derive(Debug, Default)]
struct SessionRuns {
    /// The latest time of an event.
    latest: Option<i64>,
    /// The events that accepted its turns.
    accepted: BTreeMap<TurnId, u64>,
    /// The oldest first.
    runs: Vec<OpenedRun>,
}

impl RunIndex {
    /// Forgets a deleted session. If a page is being read, a later one forgets it.
    pub(crate) fn forget(&self, session: SessionId) {
        if let Ok(mut known) = self.0.try_lock() {
            known.sessions.remove(&session);
        }
    }

    /// At most `limit` runs that `wanted` selects, after a position. `is_possible`: whether a
    /// session can have a selected run.
    ///
    /// # Errors
    /// The store fails.
    pub async fn page(
        &self,
        journal: &Journal,
        after: Option<Opening>,
        limit: usize,
        only: Option<&BTreeSet<SessionId>>,
        wanted: impl Fn(&OpenedRun) -> bool,
    ) -> Result<Vec<OpenedRun>, unisono_store::Error> {
        let mut sessions = all_sessions(journal).await?;
        sessions.sort_by_key(|info| std::cmp::Reverse(info.updated_unix_ms));
        let mut openings = self.0.lock().await;
        let Openings {
            sessions: known,
            ahead_ms,
        } = &mut *openings;
        if journal.owner().is_none() {
            let there: BTreeSet<SessionId> = sessions.iter().map(SessionInfo::id).collect();
            known.retain(|session, _| there.contains(session));
        }
        let is_meant = |info: &&SessionInfo| only.is_none_or(|only| only.contains(&info.id()));
        let mut sessions = sessions.iter().filter(is_meant).peekable();
        let (mut found, mut next) = (Vec::new(), BinaryHeap::new());
        while found.len() < limit {
            // Sessions with an event after the newest candidate may have a newer run.
            let newest: Option<i64> = next.peek().map(|opening: &Opening| opening.at);
            let ahead = ahead_ms.saturating_add(CLOCKS_MS);
            let is_due = |info: &&SessionInfo| {
                newest.is_none_or(|at| at <= last_event(info).saturating_add(ahead))
            };
            if let Some(info) = sessions.next_if(|info| is_due(info)) {
                let of = known.entry(info.id()).or_default();
                let take = |runs: &mut SessionRuns, seq: u64, event: &Event| {
                    runs.take(info.id(), seq, event);
                };
                of.follow(journal, info, take).await?;
                *ahead_ms = of.value.ahead_of(info).max(*ahead_ms);
                next.extend(of.value.before(after).map(|run| run.opening));
                continue;
            }
            let Some(opening) = next.pop() else { break };
            let Some(of) = known.get(&opening.session) else {
                continue;
            };
            let runs = &of.value;
            next.extend(runs.before(Some(opening)).map(|run| run.opening));
            found.extend(runs.opened_run(opening).filter(|run| wanted(run)).cloned());
        }
        Ok(found)
    }
}

impl SessionRuns {
    /// The newest run before a position.
    fn before(&self, after: Option<Opening>) -> Option<&OpenedRun> {
        let end = match after {
            Some(after) => self.runs.partition_point(|run| run.opening < after),
            None => self.runs.len(),
        };
        self.runs.get(end.checked_sub(1)?)
    }

    fn opened_run(&self, opening: Opening) -> Option<&OpenedRun> {
        let at = self.runs.binary_search_by_key(&opening, |run| run.opening);
        self.runs.get(at.ok()?)
    }

    /// Milliseconds by which the latest event is ahead of the store's time of the last one.
    fn ahead_of(&self, info: &SessionInfo) -> i64 {
        let latest = self.latest.unwrap_or(i64::MIN);
        latest.saturating_sub(last_event(info))
    }

    fn take(&mut self, session: SessionId, seq: u64, event: &Event) {
        self.latest = self.latest.max(Some(event.at.0));
        match &event.fact {
            Fact::TurnAccepted { turn } => drop(self.accepted.insert(turn.id, seq)),
            Fact::TurnEnded { turn, .. } => drop(self.accepted.remove(turn)),
            Fact::RunOpened { run } => {
                // The times of a session never decrease in the list, even if a clock was set
                // back.
                let newest = self.runs.last().map_or(i64::MIN, |run| run.opening.at);
                let opening = Opening {
                    at: event.at.0.max(newest),
                    session,
                    seq,
                };
                self.runs.push(OpenedRun {
                    opening,
                    run: run.id,
                    turn: run.turn,
                    accepted: self.accepted.get(&run.turn).copied().unwrap_or(seq),
                    agent: run.agent.clone(),
                });
            }
            _ => {}
        }
    }
}

/// The store's time of the last event of a session.
fn last_event(info: &SessionInfo) -> i64 {
    i64::try_from(info.updated_unix_ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unisono_runtime::clock;
    use unisono_session::event::RunRole;
    use unisono_session::machine::Import;
    use unisono_store::Memory;

    use super::*;
    use crate::fixture::{local, opened_run};

    #[tokio::test]
    async fn runs_stay_in_order_if_programs_are_ahead_of_the_store() {
        let journal = Journal::new(Arc::new(Memory::new()));
        for (n, minutes) in [(2, 10), (1, 5)] {
            let run = opened_run(RunId::from_u128(n), TurnId::from_u128(9), RunRole::Lead);
            let events = [Event {
                at: clock::now().plus_ms(minutes * 60_000),
                fact: Fact::RunOpened { run },
            }];
            let session = SessionId::from_u128(n);
            let claim = journal.claim(session).await.unwrap();
            let appended = journal.append(session, claim.epoch, 0, &events, 0);
            appended.await.unwrap();
        }
        let index = RunIndex::default();
        let page = index.page(&journal, None, 10, None, |_| true);
        let runs: Vec<RunId> = page.await.unwrap().iter().map(|run| run.run).collect();
        assert_eq!(runs, [2, 1].map(RunId::from_u128));
    }

    #[tokio::test]
    async fn a_deleted_session_leaves_nothing() {
        let local = local([("compaction.preset", "off")]).await;
        let import = Import {
            title: "One that goes".into(),
            ..Import::default()
        };
        let session = local.import(import).await.unwrap().id();
        let (index, usage) = (&local.shared.run_index, &local.shared.usage_folds);
        let page = index.page(local.journal(), None, 10, None, |_| true);
        assert!(page.await.unwrap().is_empty());
        assert_eq!(index.0.lock().await.sessions.len(), 1);
        let used = usage.one(local.journal(), session).await.unwrap();
        assert!(used.is_some());
        assert_eq!(usage.used.lock().await.len(), 1);
        assert!(local.discard(session).await.unwrap());
        assert!(index.0.lock().await.sessions.is_empty());
        assert!(usage.used.lock().await.is_empty());
        local.shutdown().await;
    }

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let opening = Opening {
            at: 1_700_000_000_000,
            session: SessionId::from_u128(7),
            seq: 12,
        };
        assert_eq!(opening.to_string().parse(), Ok(opening));
        assert_eq!("7.x.1".parse::<Opening>(), Err(InvalidOpening));
        assert_eq!("7".parse::<Opening>(), Err(InvalidOpening));
    }
}
