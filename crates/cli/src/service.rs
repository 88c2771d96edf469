//! The service that a verb asks: the store itself, or the daemon that has it open.

pub(crate) mod lookup;

use std::num::NonZeroUsize;
use std::sync::Arc;

use unisono::Service;
use unisono::local::Local;
use unisono_api::session::{Branch, Listed, SessionQuery};
use unisono_api::{Page, PageQuery};
use unisono_config::setup::Setup;
use unisono_session::state::MAIN;

use crate::app::App;
use crate::host::Where;
use crate::problem::{Problem, Result};

impl App {
    /// To look at sessions, and for what needs no agents: open turns stay as they are. A store that
    /// does not exist is empty, and is not made; one that cannot be written is read.
    pub(crate) async fn reader(&self, setup: &Setup) -> Result<Arc<dyn Service>> {
        let store = self.store_to_read(setup).await?;
        self.service_on(store, setup)
    }

    /// As [`App::reader`], to change something in a store.
    pub(crate) async fn changer(&self, setup: &Setup) -> Result<Arc<dyn Service>> {
        let store = self.store_or_nothing(setup).await?;
        self.service_on(store, setup)
    }

    /// A store that is open, or the daemon that has it, as a service.
    pub(crate) fn service_on(&self, store: Where, setup: &Setup) -> Result<Arc<dyn Service>> {
        Ok(match store {
            Where::Here(opened) => {
                let extensions = self.extensions.clone();
                Arc::new(Local::reader(opened, setup.clone(), extensions)?)
            }
            Where::There(client) => Arc::new(client),
        })
    }
}

/// The session a person means: an id, a unique beginning or end of one, or `latest`.
pub(crate) async fn find_session(service: &dyn Service, name: &str) -> Result<Listed> {
    let query = SessionQuery {
        id: Some(name.to_owned()),
        ..SessionQuery::default()
    };
    let Page { mut items, .. } = service.sessions(&query).await?;
    match (items.pop(), items.len(), name) {
        (Some(one), 0, _) => Ok(one),
        (Some(_), more, _) => {
            let problem = format!("`{name}` is a part of {} session ids", more + 1);
            Err(Problem::usage(problem).hint("write more of the id, or `latest`"))
        }
        (None, _, "latest") => {
            let problem = "there is no session in this store yet, those of MCP clients aside";
            Err(Problem::not_found(problem)
                .hint("`unisono run FILE` or `unisono import FILE` makes one"))
        }
        (None, ..) => {
            let problem = format!("no session `{name}` in this store");
            Err(Problem::not_found(problem).hint("`unisono sessions list` shows those there are"))
        }
    }
}

/// Every session, the one that was made last first.
pub(crate) async fn all_sessions(service: &dyn Service) -> Result<Vec<Listed>> {
    let mut all = Vec::new();
    let mut query = SessionQuery {
        limit: NonZeroUsize::new(500),
        ..SessionQuery::default()
    };
    loop {
        let page = service.sessions(&query).await?;
        all.extend(page.items);
        if page.next.is_none() {
            return Ok(all);
        }
        query.cursor = page.next;
    }
}

/// How many messages a branch has; none where nothing was said yet.
pub(crate) async fn branch_length(
    service: &dyn Service,
    session: &str,
    branch: &str,
) -> Result<u32> {
    let branches = all_branches(service, session).await?;
    if branches.is_empty() && branch == MAIN {
        return Ok(0);
    }
    match branches.iter().find(|one| one.name == branch) {
        Some(found) => Ok(found.messages),
        None => Err(unknown_branch(&branches, branch)),
    }
}

/// The branches of a session, by name.
pub(crate) async fn all_branches(service: &dyn Service, session: &str) -> Result<Vec<Branch>> {
    let mut all = Vec::new();
    let mut query = PageQuery {
        limit: NonZeroUsize::new(500),
        ..PageQuery::default()
    };
    loop {
        let page = service.branches(session, &query).await?;
        all.extend(page.items);
        if page.next.is_none() {
            return Ok(all);
        }
        query.cursor = page.next;
    }
}

/// There is no branch of that name.
pub(crate) fn unknown_branch(branches: &[Branch], name: &str) -> Problem {
    let problem = Problem::not_found(format!("the session has no branch `{name}`"));
    let known: Vec<&str> = branches.iter().map(|branch| branch.name.as_str()).collect();
    match known[..] {
        [] => problem.hint("it has no messages yet"),
        _ => problem.hint(format!("it has: {}", known.join(", "))),
    }
}
