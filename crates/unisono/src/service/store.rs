//! The store itself.

use std::cmp::Reverse;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use unisono_api::Page;
use unisono_api::service::{Result, Store};
use unisono_api::store::{
    AcknowledgedLosses, ArchiveCounts, HealthCheck, Loss, LossQuery, LostEvents, VacuumResult,
};
use unisono_api::token::Scope;
use unisono_store::archive;
use uuid::Uuid;

use super::cursor;
use crate::Local;
use crate::error::Error;
use crate::health;
use crate::values;

#[async_trait]
impl Store for Local {
    async fn vacuum(&self) -> Result<VacuumResult> {
        let done = self.purge().await?;
        Ok(vacuum_result(done))
    }

    async fn losses(&self, query: &LossQuery) -> Result<Page<Loss>> {
        self.check_scope(Scope::Admin)?;
        let before: Option<Place> = cursor(query.cursor.as_deref())?;
        let mut all: Vec<(Place, unisono_store::Loss)> = self
            .losses()
            .iter()
            .map(|loss| (Place::from_loss(loss), loss.clone()))
            .filter(|(place, _)| before.is_none_or(|before| *place < before))
            .collect();
        all.sort_by_key(|(place, _)| Reverse(*place));
        let limit = Page::<()>::size(query.limit);
        let part = Page::first(all, limit, |(place, _)| place.to_string());
        Ok(part.map(|(_, lost)| loss(&lost)))
    }

    async fn acknowledge_losses(&self) -> Result<AcknowledgedLosses> {
        let losses = Local::acknowledge_losses(self).await;
        Ok(AcknowledgedLosses {
            losses: losses.map_err(Error::from)? as u64,
        })
    }

    async fn health(&self) -> Result<Vec<HealthCheck>> {
        Ok(health::checks(self).await)
    }

    async fn archive(&self, file: &Path) -> Result<ArchiveCounts> {
        self.check_scope(Scope::Admin)?;
        let moved = archive::export(self.journal().engine().as_ref(), file).await;
        let moved = moved.map_err(Error::from)?;
        Ok(ArchiveCounts {
            sessions: moved.sessions,
            events: moved.events,
            checkpoints: moved.checkpoints,
        })
    }

    async fn close(self: Arc<Self>) {
        match Arc::into_inner(self) {
            Some(local) => local.shutdown().await,
            None => tracing::warn!("something still uses the store; it closes with the process"),
        }
    }
}

/// The result of a vacuum.
pub fn vacuum_result(done: unisono_store::Vacuumed) -> VacuumResult {
    VacuumResult {
        before_bytes: done.before_bytes,
        after_bytes: done.after_bytes,
        sessions: done.sessions,
        events: done.events,
    }
}

/// A loss in a repair.
pub fn loss(of: &unisono_store::Loss) -> Loss {
    Loss {
        session: of.session.to_string(),
        events: lost_events(of),
    }
}

pub(super) fn lost_events(of: &unisono_store::Loss) -> LostEvents {
    LostEvents {
        first: of.first,
        last: of.last,
        found_at: values::unix_ms(of.at_unix_ms),
        quarantine: of.quarantine.clone(),
    }
}

/// The unique position of a loss in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    found: u64,
    session: Uuid,
    first: u64,
    last: u64,
}

impl Place {
    fn from_loss(loss: &unisono_store::Loss) -> Place {
        Place {
            found: loss.at_unix_ms,
            session: loss.session.0,
            first: loss.first,
            last: loss.last,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            found,
            session,
            first,
            last,
        } = self;
        write!(f, "{found}.{}.{first}.{last}", session.simple())
    }
}

/// The error for a position that does not belong to the list.
#[derive(Debug)]
struct BadCursor;

impl FromStr for Place {
    type Err = BadCursor;

    fn from_str(text: &str) -> std::result::Result<Place, BadCursor> {
        let [found, session, first, last] = text.split('.').collect::<Vec<_>>()[..] else {
            return Err(BadCursor);
        };
        let number = |text: &str| text.parse().map_err(|_| BadCursor);
        Ok(Place {
            found: number(found)?,
            session: Uuid::try_parse(session).map_err(|_| BadCursor)?,
            first: number(first)?,
            last: number(last)?,
        })
    }
}
