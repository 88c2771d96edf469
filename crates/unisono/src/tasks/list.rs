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
use unisono_session::run::calls::CallPlace;
use unisono_session::run::{Ending, RunCause};
use unisono_session::{Event, Fact, State};

use super::{Status, TaskId};
use crate::Local;
use crate::approvals;
use crate::error::Error;
use crate::history::folded::Folded;
use crate::labels::A2A_CHANNEL;
use crate::view::Inspect as _;

/// Maximum number of sessions in a list: the most recently changed ones.
const SESSIONS: usize = 4_096;
/// Sessions listed at a time.
const PAGE: usize = 500;

/// The filters of a list of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

impl TaskQuery {
    /// The first tasks of all sessions that clients of the protocol began.
    pub fn new(limit: usize) -> TaskQuery {
        TaskQuery {
            session: None,
            status: None,
            since: None,
            after: None,
            limit,
        }
    }
}

/// A part of the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Task {
    /// Its position in the list.
    pub place: Place,
    /// Its status.
    pub status: Status,
}

/// The position of a task: its last change, then its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
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
pub(super) struct Folds(Mutex<BTreeMap<SessionId, Folded<Fold>>>);

#[derive(Debug, Default)]
struct Fold {
    turns: BTreeMap<TurnId, TaskStatus>,
    /// The runs of turns in progress.
    runs: BTreeMap<RunId, OpenRun>,
    /// Calls that wait for a person, or will if no hook denies them.
    asked: BTreeSet<CallPlace>,
    /// The turns in progress whose lead declined the task.
    declined: BTreeSet<TurnId>,
}

#[derive(Clone, Copy, Debug)]
struct OpenRun {
    turn: TurnId,
    is_lead: bool,
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
            let take = |fold: &mut Fold, _: u64, event: &Event| fold.take(event);
            fold.follow(local.journal(), &info, take).await?;
            all.extend(fold.value.tasks(local, *session).await?);
        }
        if query.session.is_none() || folds.len() > SESSIONS {
            forget_others(&mut folds, &sessions);
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
        let page = local.sessions(&query).await?;
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

/// Forgets all other sessions, the deleted ones among them.
fn forget_others(folds: &mut BTreeMap<SessionId, Folded<Fold>>, sessions: &[SessionId]) {
    let sessions: BTreeSet<&SessionId> = sessions.iter().collect();
    folds.retain(|session, _| sessions.contains(session));
}

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
                    let (at, status) = (event.at, Status::Working);
                    *known = TaskStatus { at, status };
                }
            }
            Fact::RunOpened { run } => {
                let (turn, is_lead) = (run.turn, run.role == RunRole::Lead);
                self.runs.insert(run.id, OpenRun { turn, is_lead });
            }
            Fact::RunEnded { run, ending } => {
                let asked = self.asked.len();
                self.asked.retain(|call| call.run != *run);
                if self.asked.len() < asked {
                    self.resume(*run, event.at);
                }
                let ended = self.runs.remove(run).filter(|ended| ended.is_lead);
                let is_declined = matches!(
                    &**ending,
                    Ending::Failed {
                        cause: RunCause::Refused,
                        ..
                    }
                );
                let declined = ended.filter(|_| is_declined);
                self.declined.extend(declined.map(|lead| lead.turn));
            }
            Fact::TurnEnded { turn, outcome, .. } => {
                let is_declined = self.declined.remove(turn);
                if let Some(known) = self.turns.get_mut(turn) {
                    let (at, status) = (event.at, Status::ended(outcome, is_declined));
                    *known = TaskStatus { at, status };
                }
            }
            fact => self.take_of_call(fact, event.at),
        }
    }

    /// Takes a fact about calls that wait for a person.
    fn take_of_call(&mut self, fact: &Fact, at: Timestamp) {
        match fact {
            Fact::ToolsCalled { run, round, calls } => {
                let calls = (0..).zip(calls);
                let asked = calls.filter(|(_, call)| call.approval.is_some());
                self.asked.extend(asked.map(|(index, _)| CallPlace {
                    run: *run,
                    round: *round,
                    index,
                }));
            }
            Fact::ToolInDoubt { call } => {
                self.asked.insert(*call);
            }
            Fact::ToolDecided { call, .. } => {
                self.asked.remove(call);
                self.resume(call.run, at);
            }
            Fact::ToolEnded { call, .. } if self.asked.remove(call) => {
                self.resume(call.run, at);
            }
            _ => {}
        }
    }

    /// A call of this run does not wait any more: its turn changes, and those that are queued.
    fn resume(&mut self, run: RunId, at: Timestamp) {
        let own = self.runs.get(&run).map(|run| run.turn);
        for (turn, known) in &mut self.turns {
            if own == Some(*turn) || known.status == Status::Queued {
                known.at = at;
            }
        }
    }

    /// The tasks, with the waiting calls of the open ones; none if the session was deleted meanwhile.
    async fn tasks(&self, local: &Local, session: SessionId) -> Result<Vec<Task>, Error> {
        let mut waits = BTreeMap::new();
        if self.turns.values().any(|known| !known.status.is_ended()) {
            let open = self
                .turns
                .iter()
                .filter(|(_, known)| !known.status.is_ended());
            let open: Vec<TurnId> = open.map(|(turn, _)| *turn).collect();
            let look = move |state: &State| -> Vec<(TurnId, Timestamp)> {
                let waiting = |turn: TurnId| {
                    let calls = approvals::waiting_in(state, turn).into_iter();
                    calls.map(move |one| (turn, one.call.asked_at))
                };
                open.iter().copied().flat_map(waiting).collect()
            };
            let Some(view) = local.view_listed(session).await? else {
                return Ok(Vec::new());
            };
            for (turn, asked) in view.inspect(look).await? {
                let newest: &mut Timestamp = waits.entry(turn).or_insert(asked);
                *newest = (*newest).max(asked);
            }
        }
        let each = self.turns.iter().map(|(turn, known)| {
            let waits = waits.get(turn).filter(|_| !known.status.is_ended());
            let (at, status) = match waits {
                // A turn can be accepted after the call that it waits for was asked about.
                Some(asked) => ((*asked).max(known.at), Status::Waiting),
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
    use unisono_session::event::Outcome;
    use unisono_session::run::calls::{Approval, CallDecision, CallOutput, PlannedCall};
    use unisono_session::tool::Contract;

    use super::*;
    use crate::fixture::{local, opened_run};

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
    fn other_sessions_are_forgotten() {
        let ids: Vec<SessionId> = (0..4).map(SessionId::from_u128).collect();
        let folds = ids.iter().map(|id| (*id, Folded::default()));
        let mut folds: BTreeMap<SessionId, Folded<Fold>> = folds.collect();
        forget_others(&mut folds, &ids[1..3]);
        let left: Vec<SessionId> = folds.into_keys().collect();
        assert_eq!(left, ids[1..3]);
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
        let mut query = TaskQuery::new(2);
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
            run: opened_run(id, turn, role),
        };
        let ended = |run: RunId, cause: RunCause| Fact::RunEnded {
            run,
            ending: Ending::Failed {
                cause,
                reason: "no".into(),
                duration_ms: 1,
                text: None,
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
            assert!(fold.runs.is_empty() && fold.declined.is_empty());
            fold.turns[&turn].status
        };
        let (refused, failed) = (Status::Refused, Status::Failed);
        assert_eq!(status(RunCause::Refused, "lead_failed"), refused);
        assert_eq!(status(RunCause::Timeout, "lead_failed"), failed);
        assert_eq!(status(RunCause::Timeout, "hook_denied"), refused);
    }

    #[test]
    fn a_task_that_begins_to_work_has_changed() {
        let turn = TurnId::from_u128(1);
        let mut fold = Fold::default();
        let queued = TaskStatus {
            at: Timestamp(1),
            status: Status::Queued,
        };
        fold.turns.insert(turn, queued);
        let fact = Fact::TurnStarted { turn };
        let at = Timestamp(5);
        fold.take(&Event { at, fact });
        let known = fold.turns[&turn];
        assert_eq!((known.at, known.status), (at, Status::Working));
    }

    #[test]
    fn a_task_whose_call_waits_no_longer_has_changed() {
        let (turn, queued) = (TurnId::from_u128(1), TurnId::from_u128(2));
        let run = RunId::from_u128(3);
        let call = CallPlace {
            run,
            round: 1,
            index: 0,
        };
        let opened = opened_run(run, turn, RunRole::Lead);
        let changed = |approval: Option<Approval>, end: Fact| {
            let mut fold = Fold::default();
            for (turn, status) in [(turn, Status::Working), (queued, Status::Queued)] {
                let at = Timestamp(1);
                fold.turns.insert(turn, TaskStatus { at, status });
            }
            let calls = vec![PlannedCall {
                call_id: "c".into(),
                tool: "send".into(),
                arguments: "{}".into(),
                contract: Contract::AtMostOnce,
                approval,
                hooks: Vec::new(),
                permitted: None,
            }];
            let run = opened.clone();
            let called = Fact::ToolsCalled {
                run: run.id,
                round: 1,
                calls,
            };
            let facts = [Fact::RunOpened { run }, called, end];
            for (at, fact) in (2..).zip(facts) {
                let at = Timestamp(at);
                fold.take(&Event { at, fact });
            }
            assert!(fold.asked.is_empty());
            [turn, queued].map(|turn| fold.turns[&turn].at.0)
        };
        let (decision, by) = (CallDecision::Approved, None);
        let decided = Fact::ToolDecided { call, decision, by };
        let output = CallOutput::default();
        let withdrawn = Fact::ToolEnded { call, output };
        let ending = Ending::Cancelled.into();
        let cancelled = Fact::RunEnded { run, ending };
        for end in [decided, withdrawn.clone(), cancelled] {
            let approval = Approval {
                rule: "send".into(),
                until: None,
            };
            assert_eq!(changed(Some(approval), end), [4, 4]);
        }
        assert_eq!(changed(None, withdrawn), [1, 1], "it waited for nobody");
    }

    #[test]
    fn what_is_no_place_is_not_taken_for_one() {
        for text in ["", ".", "1", "1.2", "x.1.2", "1.1.", "-"] {
            assert_eq!(text.parse::<Place>(), Err(()), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_session_that_was_deleted_since_the_list_has_no_tasks() {
        let local = local([("models.default", "extractive")]).await;
        let mut fold = Fold::default();
        let working = TaskStatus {
            at: Timestamp(1),
            status: Status::Working,
        };
        fold.turns.insert(TurnId::from_u128(2), working);
        let tasks = fold.tasks(&local, SessionId::from_u128(7)).await.unwrap();
        assert!(tasks.is_empty());
    }
}
