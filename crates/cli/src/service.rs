//! The service of a command: the store itself, or the daemon that has it open.

pub(crate) mod lookup;

use std::num::NonZeroUsize;
use std::sync::Arc;

use unisono::Service;
use unisono::local::{Local, OpenedStore};
use unisono_api::compaction::Checkpoint;
use unisono_api::session::MAIN_BRANCH;
use unisono_api::session::{Branch, BranchPageQuery, Session, SessionListItem, SessionQuery};
use unisono_api::turn::{Settings, Turn};
use unisono_api::{Page, PageQuery, service};
use unisono_config::settings::SessionOverrides;
use unisono_config::setup::Setup;

use crate::app::App;
use crate::place::Place;
use crate::problem::{Problem, Result};

impl App {
    /// The service for reading; it resumes no open turns. A missing store counts as empty and is not
    /// created; one without write access is opened read-only.
    pub(crate) async fn reader(&self) -> Result<Arc<dyn Service>> {
        let setup = self.setup(Vec::new())?;
        self.reader_with(&setup).await
    }

    pub(crate) async fn reader_with(&self, setup: &Setup) -> Result<Arc<dyn Service>> {
        let store = self.store_to_read(setup).await?;
        self.service_on(store, setup)
    }

    /// As [`App::reader`], for changes.
    pub(crate) async fn changer(&self) -> Result<Arc<dyn Service>> {
        let setup = self.setup(Vec::new())?;
        self.changer_with(&setup).await
    }

    pub(crate) async fn changer_with(&self, setup: &Setup) -> Result<Arc<dyn Service>> {
        let store = self.store_if_exists(setup).await?;
        self.service_on(store, setup)
    }

    /// Makes a service of an open store or a daemon.
    pub(crate) fn service_on(&self, store: Place, setup: &Setup) -> Result<Arc<dyn Service>> {
        Ok(match store {
            Place::Process(opened) => {
                let extensions = self.extensions.clone();
                Arc::new(Local::reader(opened, setup.clone(), extensions)?)
            }
            Place::Daemon(client) => Arc::new(client.with_settings(request_settings(setup))),
        })
    }

    /// As [`App::changer`], but creates a missing store.
    pub(crate) async fn maker(&self, setup: &Setup) -> Result<Arc<dyn Service>> {
        let store = self.store_or_daemon(setup).await?;
        self.service_on(store, setup)
    }

    /// The configured agents and models. It opens no store and reads only the calibrations of models.
    pub(crate) fn configured(&self, setup: &Setup) -> Result<Arc<dyn Service>> {
        let mut opened = OpenedStore::nothing();
        opened.directory = Some(setup.loaded.config.store.path.clone());
        opened.degraded = true;
        self.service_on(Place::Process(opened), setup)
    }
}

/// The flags whose settings apply to requests to another process.
pub(crate) fn request_settings(setup: &Setup) -> Settings {
    let flags = setup.loaded.sources().overrides.iter();
    // The other flags concern only this process.
    let meant = flags.filter(|flag| flag.key != "store.path" && !flag.key.starts_with("log."));
    let each = meant.map(|flag| (flag.key.clone(), flag.value.clone().into()));
    each.collect()
}

/// Finds a session by its id, a unique beginning or end of its id, or `latest`.
pub(crate) async fn find_session(service: &dyn Service, name: &str) -> Result<SessionListItem> {
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
            let one = SessionQuery {
                limit: NonZeroUsize::new(1),
                ..SessionQuery::default()
            };
            let page = service.sessions(&one).await?;
            Err(no_latest(page.items.is_empty() && page.next.is_none()))
        }
        (None, ..) => {
            let problem = format!("no session `{name}` in this store");
            Err(Problem::not_found(problem).hint("`unisono sessions list` shows the existing ones"))
        }
    }
}

/// The id of the session with this name, if one is given.
pub(crate) async fn session_if_named(
    service: &dyn Service,
    name: Option<&str>,
) -> Result<Option<String>> {
    match name {
        Some(name) => Ok(Some(find_session(service, name).await?.session)),
        None => Ok(None),
    }
}

/// The error if there is no latest session: the store is empty, or all sessions are of MCP clients.
fn no_latest(is_empty: bool) -> Problem {
    let (what, hint) = match is_empty {
        true => (
            "this store has no session yet",
            "`unisono run FILE` or `unisono import FILE` makes one",
        ),
        false => (
            "all sessions of this store belong to MCP clients",
            "name one by its id: `unisono sessions list` shows them",
        ),
    };
    Problem::not_found(what).hint(hint)
}

/// Every session, newest first.
pub(crate) async fn all_sessions(service: &dyn Service) -> Result<Vec<SessionListItem>> {
    sessions_of(service, SessionQuery::default()).await
}

/// The sessions that may have open turns.
pub(crate) async fn unfinished(service: &dyn Service) -> Result<Vec<SessionListItem>> {
    let open = true;
    let query = SessionQuery {
        open,
        ..SessionQuery::default()
    };
    sessions_of(service, query).await
}

async fn sessions_of(
    service: &dyn Service,
    mut query: SessionQuery,
) -> Result<Vec<SessionListItem>> {
    query.limit = NonZeroUsize::new(500);
    Ok(Page::all(async |cursor| {
        query.cursor = cursor;
        service.sessions(&query).await
    })
    .await?)
}

pub(crate) async fn own_settings(service: &dyn Service, session: &str) -> Result<SessionOverrides> {
    let settings = service.session(session).await?.settings.into_iter();
    Ok(settings
        .map(|(key, value)| (key.into(), value.into()))
        .collect())
}

/// The checkpoints of a branch, newest first.
pub(crate) async fn all_checkpoints(
    service: &dyn Service,
    session: &str,
    branch: &str,
) -> Result<Vec<Checkpoint>> {
    let mut query = of_branch(branch);
    Ok(Page::all(async |cursor| {
        query.cursor = cursor;
        service.checkpoints(session, &query).await
    })
    .await?)
}

/// The open turns of a session, oldest first.
pub(crate) async fn open_turns(service: &dyn Service, session: &Session) -> Result<Vec<String>> {
    if !session.open_turns.has_more {
        return Ok(session.open_turns.items.clone());
    }
    let turns = all_turns(service, &session.session)
        .await?
        .into_iter()
        .rev();
    let open = turns.filter(|turn| turn.ended_at.is_none());
    Ok(open.map(|turn| turn.turn).collect())
}

/// The turns of a session, newest first.
pub(crate) async fn all_turns(service: &dyn Service, session: &str) -> Result<Vec<Turn>> {
    all_pages(async |page| service.turns(session, &page).await).await
}

/// All items of a list that has no other query than its page.
pub(crate) async fn all_pages<T>(
    mut read: impl AsyncFnMut(PageQuery) -> service::Result<Page<T>>,
) -> Result<Vec<T>> {
    let limit = NonZeroUsize::new(500);
    Ok(Page::all(async |cursor| read(PageQuery { cursor, limit }).await).await?)
}

/// The first page of a list of a branch, of the maximum size.
pub(crate) fn of_branch(branch: &str) -> BranchPageQuery {
    BranchPageQuery {
        branch: branch.to_owned(),
        cursor: None,
        limit: NonZeroUsize::new(500),
    }
}

/// The number of messages of a non-empty branch.
pub(crate) async fn spoken_length(
    service: &dyn Service,
    session: &str,
    branch: &str,
) -> Result<u32> {
    match branch_length(service, session, branch).await? {
        0 => Err(unknown_branch(&[], branch)),
        length => Ok(length),
    }
}

/// The number of messages of a branch; none for an empty one.
pub(crate) async fn branch_length(
    service: &dyn Service,
    session: &str,
    branch: &str,
) -> Result<u32> {
    let branches = all_branches(service, session).await?;
    if branches.is_empty() && branch == MAIN_BRANCH {
        return Ok(0);
    }
    match branches.iter().find(|one| one.name == branch) {
        Some(found) => Ok(found.messages),
        None => Err(unknown_branch(&branches, branch)),
    }
}

/// The branches of a session, by name.
pub(crate) async fn all_branches(service: &dyn Service, session: &str) -> Result<Vec<Branch>> {
    all_pages(async |page| service.branches(session, &page).await).await
}

pub(crate) fn unknown_branch(branches: &[Branch], name: &str) -> Problem {
    let problem = Problem::not_found(format!("the session has no branch `{name}`"));
    let known: Vec<&str> = branches.iter().map(|branch| branch.name.as_str()).collect();
    match known[..] {
        [] => problem.hint(
            "it has no messages yet; if it lost its branches with damaged data, `unisono export` \
             and `unisono import` keep its messages",
        ),
        _ => problem.hint(format!("it has: {}", known.join(", "))),
    }
}
