//! Finding turns and runs in the store's journals, those that have ended included.

use std::cmp::Reverse;

use unisono::past;
use unisono_api::Code;
use unisono_context::{RunId, SessionId, TurnId};
use unisono_session::event::RunRole;
use unisono_session::trace::{RunTrace, TurnTrace};
use unisono_session::{Replay, Trace};
use unisono_store::SessionInfo;

pub(crate) use unisono::past::rebuild;
pub(crate) use unisono::short::{end, role};

use crate::problem::{Problem, Result};
use crate::sessions::{Sessions, is_meant, only};

/// Something that was found, and the session it is in.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) session: SessionId,
    pub(crate) trace: Trace,
    pub(crate) id: T,
}

impl<T> Found<T> {
    fn with<U>(self, id: U) -> Found<U> {
        Found {
            session: self.session,
            trace: self.trace,
            id,
        }
    }
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

    /// The run that is meant: by its id or a part of it; `latest` and a turn mean the run of the
    /// turn's lead, an agent's name its newest run.
    pub(crate) async fn run(&self, sessions: &Sessions, name: &str) -> Result<Found<RunId>> {
        let found = match name {
            // A compaction on request has no runs.
            "latest" => {
                let given = |turn: &TurnTrace| !turn.runs.is_empty();
                self.latest(sessions, given).await?
            }
            _ => self.work(sessions, name).await?,
        };
        let id = match found.id {
            Work::Run(run) => run,
            Work::Turn(turn) => answering(&found.trace, turn)?,
        };
        Ok(found.with(id))
    }

    /// The turn that is meant: by its id or a part of it; `latest`, a run of it, or an agent whose
    /// newest run is in it.
    pub(crate) async fn turn(&self, sessions: &Sessions, name: &str) -> Result<Found<TurnId>> {
        let found = self.work(sessions, name).await?;
        let id = match found.id {
            Work::Turn(turn) => turn,
            Work::Run(run) => {
                let run = found.trace.run(run).map(|run| run.opened.1.turn);
                run.ok_or_else(|| Problem::failed("the run has no turn"))?
            }
        };
        Ok(found.with(id))
    }

    /// The run or turn that is meant: by its id or a part of it, `latest`, or an agent.
    pub(crate) async fn work(&self, sessions: &Sessions, name: &str) -> Result<Found<Work>> {
        if name == "latest" {
            return self.latest(sessions, |_| true).await;
        }
        let found = self.find(sessions, name).await;
        found.map_err(|problem| hinted(problem, "`unisono runs list` shows those there are"))
    }

    /// Looks through the journals, the newest first. One that cannot be read is told of if nothing
    /// is found.
    async fn find(&self, sessions: &Sessions, name: &str) -> Result<Found<Work>> {
        let (mut found, mut unreadable) = (Vec::new(), None);
        for (session, _) in self.newest(sessions).await? {
            let trace = match trace(sessions, session).await {
                Ok(trace) => trace,
                Err(problem) => {
                    unreadable.get_or_insert(problem);
                    continue;
                }
            };
            if let Some(run) = newest_of(&trace, name) {
                return Ok(Found {
                    session,
                    trace,
                    id: Work::Run(run),
                });
            }
            let meant = meant(&trace, name);
            if let ([id], true) = (&meant[..], name.len() == WHOLE) {
                let id = *id;
                return Ok(Found { session, trace, id });
            }
            found.extend(meant.into_iter().map(|id| (id, session)));
        }
        if let (true, Some(problem)) = (found.is_empty(), unreadable) {
            return Err(problem);
        }
        let (id, session) = only(name, "run, turn or agent", &found)?;
        let trace = trace(sessions, session).await?;
        Ok(Found { session, trace, id })
    }

    /// The newest turn, of sessions that people made unless one is named. A journal that did not grow since that turn was accepted has none newer.
    async fn latest(
        &self,
        sessions: &Sessions,
        is_meant: impl Fn(&TurnTrace) -> bool,
    ) -> Result<Found<Work>> {
        let (mut newest, mut accepted) = (None, i64::MIN);
        for (session, info) in self.newest(sessions).await? {
            if i64::try_from(info.updated_unix_ms).is_ok_and(|updated| updated < accepted) {
                break;
            }
            if self.session.is_none() && sessions.is_of_client(session).await? {
                continue;
            }
            let trace = trace(sessions, session).await?;
            let last = trace.turns().rfind(|(_, turn)| is_meant(turn));
            let Some((id, at)) = last.map(|(id, turn)| (id, turn.accepted.0.at)) else {
                continue;
            };
            if at.0 > accepted {
                accepted = at.0;
                let id = Work::Turn(id);
                newest = Some(Found { session, trace, id });
            }
        }
        let none = || Problem::usage("there are no runs yet");
        newest.ok_or_else(|| {
            let problem = none().code(Code::NotFound);
            problem.hint("`unisono run FILE` does that")
        })
    }

    /// The sessions to look through, the one that grew last first.
    async fn newest(&self, sessions: &Sessions) -> Result<Vec<(SessionId, SessionInfo)>> {
        let mut all = sessions.ids().await?;
        if let Some(only) = self.only(sessions).await? {
            all.retain(|(id, _)| *id == only);
        }
        all.sort_by_key(|(id, info)| Reverse((info.updated_unix_ms, *id)));
        Ok(all)
    }
}

/// The newest run of an agent.
fn newest_of(trace: &Trace, agent: &str) -> Option<RunId> {
    let own = trace
        .runs()
        .filter(|(_, run)| run.opened.1.agent.as_str() == agent);
    own.map(|(id, _)| id).last()
}

/// The runs and turns whose ids begin or end so.
fn meant(trace: &Trace, name: &str) -> Vec<Work> {
    let runs = trace.runs().map(|(id, _)| id);
    let runs = runs.filter(|id| is_meant(name, id)).map(Work::Run);
    let turns = trace.turns().map(|(id, _)| id);
    let turns = turns.filter(|id| is_meant(name, id)).map(Work::Turn);
    runs.chain(turns).collect()
}

/// The run of a turn's lead.
fn answering(trace: &Trace, turn: TurnId) -> Result<RunId> {
    let runs = trace
        .turn(turn)
        .map(|turn| &turn.runs[..])
        .unwrap_or_default();
    let is_lead = |id: &&RunId| {
        trace
            .run(**id)
            .is_some_and(|run| run.opened.1.role == RunRole::Lead)
    };
    runs.iter().find(is_lead).copied().ok_or_else(|| {
        let problem = Problem::usage(format!("the lead of turn {turn} has no run yet"));
        problem
            .code(Code::NotFound)
            .hint("`unisono runs list` shows the runs there are")
    })
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
