//! Lists the tasks of many sessions, most recently changed first.
//!
//! The journal of each session is read once, and later only its new events. Without a session, the
//! list has the tasks of the most recently changed sessions that clients of the protocol began.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::num::NonZeroUsize;
use std::str::FromStr;

use tokio::sync::Mutex;
use unisono_api::service::Sessions as _;
use unisono_api::session::SessionQuery;
use unisono_context::{RunId, SessionId, Timestamp, TurnId};
use unisono_session::event::RunRole;
use unisono_session::run::{Ending, RunCause};
use unisono_session::{Event, Fact, State};
use unisono_store::SessionInfo;

use super::{Status, TaskId};
use crate::Local;
use crate::error::Error;
use crate::history::read_from;
use crate::labels::A2A_CHANNEL;
use crate::view::Inspect as _;

/// Maximum number of sessions in a list: the most recently changed ones.
const SESSIONS: usize = 4_096;
/// Sessions listed at a time.
const PAGE: usize = 500;

/// The filters of a list of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskQuery {
    /// Only tasks of this session; none: tasks of all sessions that clients of the protocol began.
    pub session: Option<SessionId>,
    /// Only tasks with this status.
    pub status: Option<Status>,
    /// Only tasks that changed at this time or later.
    pub since: Option<Timestamp>,
    /// Only tasks after this position.
    pub after: Option<Place>,
    /// The maximum number of tasks.
    pub limit: usize,
}

/// A part of the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPart {
    /// The part.
    pub tasks: Vec<Task>,
    /// The number of matching tasks on all pages.
    pub total: usize,
    /// The position of the last task, if there are more.
    pub next: Option<Place>,
}

/// A task of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its position in the list.
    pub place: Place,
    /// Its status.
    pub status: Status,
}

/// The position of a task: its last change, then its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The time of its last change.
    pub at: Timestamp,
    /// Its id.
    pub task: TaskId,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.0, self.task)
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Place, ()> {
        let (at, task) = text.split_once('.').ok_or(())?;
        Ok(Place {
            at: Timestamp(at.parse().map_err(|_| ())?),
            task: task.parse().map_err(|_| ())?,
        })
    }
}

/// The tasks of the sessions that were read so far.
#[derive(Debug, Default)]
pub(super) struct Folds(Mutex<BTreeMap<SessionId, Fold>>);

/// The tasks of one session.
#[derive(Debug, Default)]
struct Fold {
    /// The time at which the session was created: after its deletion, another session may have its
    /// id.
    created_unix_ms: u64,
    /// The last event of the fold.
    seq: u64,
    turns: BTreeMap<TurnId, TaskStatus>,
    /// The leads of turns in progress.
    leads: BTreeMap<RunId, TurnId>,
    /// The turns in progress whose lead declined the task.
    declined: BTreeSet<TurnId>,
}

#[derive(Clone, Copy, Debug)]
struct TaskStatus {
    at: Timestamp,
    status: Status,
}

impl Folds {
    pub(super) async fn list(&self, local: &Local, query: &TaskQuery) -> Result<TaskPart, Error> {
        let sessions = match query.session {
            Some(session) => vec![session],
            None => begun_by_clients(local).await?,
        };
        let mut folds = self.0.lock().await;
        let mut all = Vec::new();
        for session in &sessions {
            let Some(info) = local.journal().session(*session).await? else {
                if query.session.is_some() {
                    return Err(Error::not_found("session", session));
                }
                continue;
            };
            let fold = folds.entry(*session).or_default();
            fold.follow(local, &info).await?;
            all.extend(fold.tasks(local, *session).await?);
        }
        if query.session.is_none() {
            folds.retain(|session, _| sessions.contains(session));
        }
        Ok(part(all, query))
    }
}

/// The sessions that clients of the protocol began, most recently changed first.
async fn begun_by_clients(local: &Local) -> Result<Vec<SessionId>, Error> {
    let mut query = SessionQuery {
        label: Some(format!("{}={}", A2A_CHANNEL.0, A2A_CHANNEL.1)),
        by_change: true,
        limit: NonZeroUsize::new(PAGE),
        ..SessionQuery::default()
    };
    let mut found = Vec::new();
    while found.len() < SESSIONS {
        let page = local.sessions(&query).await;
        let page = page.map_err(|error| Error::new(error.code(), error.to_string()))?;
        let ids = page.items.iter();
        found.extend(ids.filter_map(|listed| listed.session.parse::<SessionId>().ok()));
        if page.next.is_none() {
            break;
        }
        query.cursor = page.next;
    }
    found.truncate(SESSIONS);
    Ok(found)
}

/// The requested page.
fn part(mut all: Vec<Task>, query: &TaskQuery) -> TaskPart {
    all.retain(|task| {
        query.status.is_none_or(|status| task.status == status)
            && query.since.is_none_or(|since| task.place.at >= since)
    });
    let total = all.len();
    all.retain(|task| query.after.is_none_or(|after| task.place < after));
    all.sort_unstable_by_key(|task| Reverse(task.place));
    let more = all.len() > query.limit;
    all.truncate(query.limit);
    let next = all.last().filter(|_| more).map(|last| last.place);
    TaskPart {
        tasks: all,
        total,
        next,
    }
}

impl Fold {
    /// Folds the new events of the session.
    async fn follow(&mut self, local: &Local, info: &SessionInfo) -> Result<(), Error> {
        if self.created_unix_ms != info.created_unix_ms || self.seq > info.last_seq {
            *self = Fold {
                created_unix_ms: info.created_unix_ms,
                ..Fold::default()
            };
        }
        if self.seq == info.last_seq {
            return Ok(());
        }
        let first = self.seq + 1;
        read_from(local.journal(), info.session.into(), first, |event| {
            self.take(event);
            // Event by event, so that none is folded twice if this is interrupted.
            self.seq += 1;
            Ok::<_, unisono_store::Error>(true)
        })
        .await?;
        Ok(())
    }

    fn take(&mut self, event: &Event) {
        match &event.fact {
            Fact::TurnAccepted { turn } if turn.work.input_text().is_some() => {
                let queued = TaskStatus {
                    at: event.at,
                    status: Status::Queued,
                };
                self.turns.insert(turn.id, queued);
            }
            Fact::TurnStarted { turn, .. } => {
                if let Some(known) = self.turns.get_mut(turn) {
                    known.status = Status::Working;
                }
            }
            Fact::RunOpened { run } if run.role == RunRole::Lead => {
                self.leads.insert(run.id, run.turn);
            }
            Fact::RunEnded { run, ending } => {
                let turn = self.leads.remove(run);
                let is_declined = matches!(
                    &**ending,
                    Ending::Failed {
                        cause: RunCause::Refused,
                        ..
                    }
                );
                self.declined.extend(turn.filter(|_| is_declined));
            }
            Fact::TurnEnded { turn, outcome, .. } => {
                let is_declined = self.declined.remove(turn);
                if let Some(known) = self.turns.get_mut(turn) {
                    let (at, status) = (event.at, Status::ended(outcome, is_declined));
                    *known = TaskStatus { at, status };
                }
            }
            _ => {}
        }
    }

    /// The tasks, with the waiting calls of the open ones.
    async fn tasks(&self, local: &Local, session: SessionId) -> Result<Vec<Task>, Error> {
        let mut waits = BTreeMap::new();
        if self.turns.values().any(|known| !known.status.is_ended()) {
            let look = |state: &State| -> Vec<(TurnId, Timestamp)> {
                let waiting = state.waiting_calls();
                waiting.map(|one| (one.turn, one.call.asked_at)).collect()
            };
            let view = local.view(session).await?;
            for (turn, asked) in view.inspect(look).await? {
                let newest: &mut Timestamp = waits.entry(turn).or_insert(asked);
                *newest = (*newest).max(asked);
            }
        }
        let each = self.turns.iter().map(|(turn, known)| {
            let waits = waits.get(turn).filter(|_| !known.status.is_ended());
            let (at, status) = match waits {
                Some(asked) => (*asked, Status::Waiting),
                None => (known.at, known.status),
            };
            let task = TaskId {
                session,
                turn: *turn,
            };
            let place = Place { at, task };
            Task { place, status }
        });
        Ok(each.collect())
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::{AgentId, Digest};
    use unisono_session::event::{OpenedRun, Outcome};

    use super::*;

    fn task(at: i64, turn: u128, status: Status) -> Task {
        let task = TaskId {
            session: SessionId::from_u128(1),
            turn: TurnId::from_u128(turn),
        };
        let at = Timestamp(at);
        Task {
            place: Place { at, task },
            status,
        }
    }

    #[test]
    fn tasks_are_told_by_their_last_change_and_each_once() {
        let all = vec![
            task(10, 1, Status::Answered),
            task(30, 2, Status::Working),
            task(20, 3, Status::Failed),
            task(20, 4, Status::Answered),
            task(40, 5, Status::Answered),
        ];
        let mut query = TaskQuery {
            session: None,
            status: None,
            since: None,
            after: None,
            limit: 2,
        };
        let mut listed = Vec::new();
        loop {
            let part = part(all.clone(), &query);
            assert_eq!(part.total, 5);
            let turns = part.tasks.iter().map(|task| task.place.task.turn.as_u128());
            listed.extend(turns);
            let Some(next) = part.next else { break };
            assert_eq!(next.to_string().parse(), Ok(next));
            query.after = Some(next);
        }
        assert_eq!(listed, [5, 2, 4, 3, 1]);
        let only = |query: TaskQuery| {
            let part = part(all.clone(), &query);
            let turns = part.tasks.iter().map(|task| task.place.task.turn.as_u128());
            (turns.collect::<Vec<_>>(), part.total, part.next.is_some())
        };
        let all = TaskQuery {
            after: None,
            limit: 9,
            ..query
        };
        let answered = TaskQuery {
            status: Some(Status::Answered),
            ..all
        };
        assert_eq!(only(answered), (vec![5, 4, 1], 3, false));
        let since = TaskQuery {
            since: Some(Timestamp(20)),
            ..all
        };
        assert_eq!(only(since), (vec![5, 2, 4, 3], 4, false));
        let both = TaskQuery {
            status: Some(Status::Answered),
            limit: 1,
            ..since
        };
        assert_eq!(only(both), (vec![5], 2, true));
    }

    #[test]
    fn a_turn_is_refused_if_its_lead_declines_or_a_hook_denies_it() {
        let (turn, lead, delegate) = (
            TurnId::from_u128(1),
            RunId::from_u128(2),
            RunId::from_u128(3),
        );
        let opened = |id: RunId, role: RunRole| Fact::RunOpened {
            run: OpenedRun {
                id,
                turn,
                role,
                agent: AgentId::new("any"),
                definition: Digest::of_bytes(b"definition"),
                snapshot: None,
                prefix: Digest::of_bytes(b"prefix"),
            },
        };
        let ended = |run: RunId, cause: RunCause| Fact::RunEnded {
            run,
            ending: Ending::Failed {
                cause,
                reason: "no".into(),
                duration_ms: 1,
            }
            .into(),
        };
        let failed = |code: &str| Fact::TurnEnded {
            turn,
            outcome: Outcome::Failed {
                code: code.into(),
                reason: "no".into(),
            },
        };
        let status = |lead_cause: RunCause, code: &str| {
            let mut fold = Fold::default();
            let (at, status) = (Timestamp(1), Status::Working);
            fold.turns.insert(turn, TaskStatus { at, status });
            for fact in [
                opened(delegate, RunRole::Delegate { index: 0 }),
                ended(delegate, RunCause::Refused),
                opened(lead, RunRole::Lead),
                ended(lead, lead_cause),
                failed(code),
            ] {
                fold.take(&Event { at, fact });
            }
            assert!(fold.leads.is_empty() && fold.declined.is_empty());
            fold.turns[&turn].status
        };
        let (refused, failed) = (Status::Refused, Status::Failed);
        assert_eq!(status(RunCause::Refused, "lead_failed"), refused);
        assert_eq!(status(RunCause::Timeout, "lead_failed"), failed);
        assert_eq!(status(RunCause::Timeout, "hook_denied"), refused);
    }

    #[test]
    fn what_is_no_place_is_not_taken_for_one() {
        for text in ["", ".", "1", "1.2", "x.1.2", "1.1.", "-"] {
            assert_eq!(text.parse::<Place>(), Err(()), "{text:?}");
        }
    }
}
