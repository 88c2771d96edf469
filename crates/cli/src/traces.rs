//! Finding turns and runs in the store's journals, those that have ended included.

use unisono_context::{RunId, SessionId, TurnId};
use unisono_daemon::past;
use unisono_session::event::RunRole;
use unisono_session::trace::RunTrace;
use unisono_session::{Replay, Trace};

pub(crate) use unisono_daemon::past::rebuild;
pub(crate) use unisono_daemon::short::{end, role};

use crate::problem::{Problem, Result};
use crate::sessions::{Sessions, is_meant, only};

/// Something that was found, and the session it is in.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) session: SessionId,
    pub(crate) trace: Trace,
    pub(crate) id: T,
}

/// A run or a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Run(RunId),
    Turn(TurnId),
}

/// Where to look, as `--session` says.
#[derive(Debug, clap::Args)]
pub(crate) struct Within {
    /// Looks in this session only
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

impl Within {
    /// The one session to look in, where one is named.
    pub(crate) async fn only(&self, sessions: &Sessions) -> Result<Option<SessionId>> {
        match &self.session {
            Some(name) => Ok(Some(sessions.find(name).await?)),
            None => Ok(None),
        }
    }

    /// The sessions to look through, the newest last.
    pub(crate) async fn ids(&self, sessions: &Sessions) -> Result<Vec<SessionId>> {
        match &self.session {
            Some(name) => Ok(vec![sessions.find(name).await?]),
            None => {
                let all = sessions.ids().await?.into_iter();
                Ok(all.map(|(id, _)| id).collect())
            }
        }
    }

    /// The run of that id, or of a start or end of one that no other has.
    pub(crate) async fn run(&self, sessions: &Sessions, name: &str) -> Result<Found<RunId>> {
        let pick = |trace: &Trace| -> Vec<RunId> {
            let meant = trace.runs().map(|(id, _)| id);
            meant.filter(|id| is_meant(name, id)).collect()
        };
        let found = self.find(sessions, "run", name, pick).await;
        found.map_err(|problem| hinted(problem, "`unisono runs list` shows those there are"))
    }

    /// The turn of that id, or of a start or end of one that no other has; `latest` is the newest.
    pub(crate) async fn turn(&self, sessions: &Sessions, name: &str) -> Result<Found<TurnId>> {
        if name == "latest" {
            return self.latest(sessions).await;
        }
        let pick = |trace: &Trace| -> Vec<TurnId> {
            let meant = trace.turns().map(|(id, _)| id);
            meant.filter(|id| is_meant(name, id)).collect()
        };
        let found = self.find(sessions, "turn", name, pick).await;
        found.map_err(|problem| hinted(problem, "`unisono sessions show` lists a session's turns"))
    }

    /// The run or turn of that id.
    pub(crate) async fn work(&self, sessions: &Sessions, name: &str) -> Result<Found<Work>> {
        let pick = |trace: &Trace| -> Vec<Work> {
            let runs = trace.runs().map(|(id, _)| id);
            let runs = runs.filter(|id| is_meant(name, id)).map(Work::Run);
            let turns = trace.turns().map(|(id, _)| id);
            let turns = turns.filter(|id| is_meant(name, id)).map(Work::Turn);
            runs.chain(turns).collect()
        };
        let found = self.find(sessions, "run or turn", name, pick).await;
        found.map_err(|problem| hinted(problem, "`unisono runs list` shows those there are"))
    }

    /// Looks through the journals. One that cannot be read is told of if nothing is found.
    async fn find<T: Copy>(
        &self,
        sessions: &Sessions,
        what: &str,
        name: &str,
        pick: impl Fn(&Trace) -> Vec<T>,
    ) -> Result<Found<T>> {
        let (mut found, mut unreadable) = (Vec::new(), None);
        for session in self.ids(sessions).await? {
            let trace = match trace(sessions, session).await {
                Ok(trace) => trace,
                Err(problem) => {
                    unreadable.get_or_insert(problem);
                    continue;
                }
            };
            let meant = pick(&trace);
            found.extend(meant.iter().map(|id| (*id, session)));
            if let [(id, in_session)] = found[..]
                && in_session == session
                && name.len() == WHOLE
            {
                return Ok(Found { session, trace, id });
            }
        }
        if let (true, Some(problem)) = (found.is_empty(), unreadable) {
            return Err(problem);
        }
        let (id, session) = only(name, what, &found)?;
        let trace = trace(sessions, session).await?;
        Ok(Found { session, trace, id })
    }

    async fn latest(&self, sessions: &Sessions) -> Result<Found<TurnId>> {
        let mut newest: Option<Found<TurnId>> = None;
        for session in self.ids(sessions).await? {
            let trace = trace(sessions, session).await?;
            let last = trace.turns().map(|(id, _)| id).next_back();
            if let Some(id) = last.filter(|id| newest.as_ref().is_none_or(|known| known.id < *id)) {
                newest = Some(Found { session, trace, id });
            }
        }
        let none = || Problem::usage("no agent was given anything to do yet");
        newest.ok_or_else(|| none().hint("`unisono run FILE` does that"))
    }
}

/// Characters of a whole id.
const WHOLE: usize = 36;

fn hinted(problem: Problem, hint: &str) -> Problem {
    match problem.hint {
        Some(_) => problem,
        None => problem.hint(hint),
    }
}

/// The turns and runs of a session.
pub(crate) async fn trace(sessions: &Sessions, id: SessionId) -> Result<Trace> {
    Ok(past::trace(sessions.journal(), id).await?)
}

/// A turn up to its end, with its frozen context rebuilt.
pub(crate) async fn replay(sessions: &Sessions, id: SessionId, turn: TurnId) -> Result<Replay> {
    Ok(past::replay(sessions.journal(), id, turn).await?)
}

/// A run's place in its turn, as JSON has it.
pub(crate) fn role_json(run: &RunTrace) -> serde_json::Value {
    match run.opened.1.role {
        RunRole::Lead => serde_json::json!({"role": "lead"}),
        RunRole::Delegate { index } => match run.stage {
            Some(stage) => {
                serde_json::json!({"role": "delegate", "index": index, "stage": stage})
            }
            None => serde_json::json!({"role": "delegate", "index": index}),
        },
        RunRole::Child {
            parent,
            round,
            index,
        } => serde_json::json!({
            "role": "child", "parent": parent.to_string(), "round": round, "index": index,
        }),
    }
}
