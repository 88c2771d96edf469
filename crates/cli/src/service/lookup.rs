//! The run or the turn that a person means.

use std::num::NonZeroUsize;

use unisono::Service;
use unisono_api::run::{ListedRun, LookupMatch, LookupQuery, RunQuery};

use super::find_session;
use crate::problem::{Problem, Result};

/// The scope of a lookup, from `--session`.
#[derive(Debug, clap::Args)]
pub(crate) struct LookupScope {
    /// Only this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

impl LookupScope {
    /// The named session.
    pub(crate) async fn session_id(&self, service: &dyn Service) -> Result<Option<String>> {
        match &self.session {
            Some(name) => Ok(Some(find_session(service, name).await?.session)),
            None => Ok(None),
        }
    }

    /// The run and its session: by its id or a part of it; `latest` and a turn mean the run of the
    /// turn's lead, an agent's name its newest run.
    pub(crate) async fn run(&self, service: &dyn Service, name: &str) -> Result<(String, String)> {
        // A compaction on request has no runs: the turn after it does.
        let found = match name {
            "latest" => self.all(service, name).await?.pop().ok_or_else(none)?,
            _ => self.work(service, name).await?,
        };
        match found.run {
            Some(run) => Ok((found.session, run)),
            None => {
                let lead = lead(service, &found.session, &found.turn).await?;
                Ok((found.session, lead))
            }
        }
    }

    /// The run or turn with this name: an id or a part of it, `latest`, or an agent.
    pub(crate) async fn work(&self, service: &dyn Service, name: &str) -> Result<LookupMatch> {
        let all = self.all(service, name).await?;
        if name == "latest" {
            return all.into_iter().next().ok_or_else(none);
        }
        let found = session_id(name, "run, turn or agent", &all);
        found.map_err(|problem| problem.hint("`unisono runs list` shows the runs"))
    }

    /// All matches of a name.
    async fn all(&self, service: &dyn Service, name: &str) -> Result<Vec<LookupMatch>> {
        let query = LookupQuery {
            name: name.to_owned(),
            session: self.session_id(service).await?,
        };
        Ok(service.lookup(&query).await?.items)
    }
}

fn none() -> Problem {
    let problem = Problem::not_found("there are no runs yet");
    problem.hint("`unisono run FILE` does that")
}

/// The run of a turn's lead, or the newest run of a turn that ended before its lead began.
async fn lead(service: &dyn Service, session: &str, turn: &str) -> Result<String> {
    let runs = runs_of(service, session, turn).await?;
    let lead = runs.iter().find(|listed| listed.run.role == "lead");
    let found = lead.or(runs.first()).map(|listed| listed.run.run.clone());
    found.ok_or_else(|| {
        let problem = Problem::not_found(format!("turn {turn} has no runs"));
        problem.hint("`unisono runs list` shows the runs of other turns")
    })
}

/// The runs of a turn, the newest first.
pub(crate) async fn runs_of(
    service: &dyn Service,
    session: &str,
    turn: &str,
) -> Result<Vec<ListedRun>> {
    let mut all = Vec::new();
    let mut query = RunQuery {
        session: Some(session.to_owned()),
        turn: Some(turn.to_owned()),
        limit: NonZeroUsize::new(500),
        ..RunQuery::default()
    };
    loop {
        let page = service.runs(&query).await?;
        all.extend(page.items);
        if page.next.is_none() {
            return Ok(all);
        }
        query.cursor = page.next;
    }
}

/// The only match.
pub(crate) fn session_id<T: Clone>(name: &str, what: &str, found: &[T]) -> Result<T> {
    match found {
        [one] => Ok(one.clone()),
        [] => Err(Problem::not_found(format!(
            "no {what} `{name}` in this store"
        ))),
        _ => Err(Problem::usage(format!(
            "`{name}` is a part of {} {what} ids",
            found.len()
        ))),
    }
}
