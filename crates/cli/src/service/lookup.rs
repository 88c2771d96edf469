//! The run or the turn that a person means.

use std::num::NonZeroUsize;

use unisono::Service;
use unisono_api::Page;
use unisono_api::run::{ListedRun, LookupMatch, LookupQuery, RunQuery};

use super::session_if_named;
use crate::problem::{Problem, Result};

/// The scope of a lookup, from `--session`.
#[derive(Debug, clap::Args)]
pub(crate) struct LookupScope {
    /// Only this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

impl LookupScope {
    /// Whether all sessions are meant.
    pub(crate) const fn is_everywhere(&self) -> bool {
        self.session.is_none()
    }

    pub(crate) async fn session_id(&self, service: &dyn Service) -> Result<Option<String>> {
        session_if_named(service, self.session.as_deref()).await
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
        let found = only_match(name, "run, turn or agent", &all);
        found.map_err(|problem| problem.hint("`unisono runs list` shows the runs"))
    }

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
    problem.hint("`unisono run FILE` starts some")
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
    let mut query = RunQuery {
        session: Some(session.to_owned()),
        turn: Some(turn.to_owned()),
        limit: NonZeroUsize::new(500),
        ..RunQuery::default()
    };
    Ok(Page::all(async |cursor| {
        query.cursor = cursor;
        service.runs(&query).await
    })
    .await?)
}

pub(crate) fn only_match<T: Clone>(name: &str, what: &str, found: &[T]) -> Result<T> {
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
