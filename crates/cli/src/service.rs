//! The service that a verb asks: the store itself, or the daemon that has it open.

use std::num::NonZeroUsize;
use std::sync::Arc;

use unisono::Service;
use unisono::local::Local;
use unisono_api::Page;
use unisono_api::session::{Listed, SessionQuery};
use unisono_config::setup::Setup;

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

    fn service_on(&self, store: Where, setup: &Setup) -> Result<Arc<dyn Service>> {
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

/// Every session, the newest first.
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
