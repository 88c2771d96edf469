//! Sessions that a query selects by id, by open turns or by label, and their order.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use unisono_api::Page;
use unisono_api::session::{SessionListItem, SessionQuery};
use unisono_context::SessionId;
use unisono_session::Event;
use unisono_store::SessionInfo;

use super::super::{cursor, cursor_pair};
use super::list_items;
use super::named::find_named;
use crate::Local;
use crate::error::Error;
use crate::history;
use crate::labels::{Label, created_with};

/// Sessions that are read at a time.
const PAGE: usize = 1_024;

/// The position of a session in the list: its last change, then its id.
type Place = (u64, SessionId);

fn place_of(found: &SessionInfo) -> Place {
    (found.updated_unix_ms, found.id())
}

/// A page of the sessions that fit all conditions of a query, the newest or the most recently changed
/// first.
pub(super) async fn sessions(
    local: &Local,
    query: &SessionQuery,
    limit: usize,
    label: Option<&Label>,
) -> Result<Page<SessionListItem>, Error> {
    let open = match query.open {
        true => Some(local.unfinished().await?),
        false => None,
    };
    let mut left = match (&query.id, open) {
        (Some(name), open) => {
            let mut named = find_named(local, name).await?;
            let open: Option<BTreeSet<SessionId>> = open.map(|open| open.into_iter().collect());
            named.retain(|found| open.as_ref().is_none_or(|open| open.contains(&found.id())));
            named
        }
        (None, Some(open)) => local.journal().existing(&open).await?,
        (None, None) => history::all_sessions(local.journal()).await?,
    };
    if query.by_change {
        let before: Option<Place> = cursor_pair(query.cursor.as_deref())?;
        left.retain(|found| before.is_none_or(|before| place_of(found) < before));
        left.sort_unstable_by_key(|found| Reverse(place_of(found)));
    } else {
        let before: Option<SessionId> = cursor(query.cursor.as_deref())?;
        left.retain(|found| before.is_none_or(|before| found.id() < before));
        left.sort_unstable_by_key(|found| Reverse(found.id()));
    }
    if let Some(label) = label {
        // One more item shows whether there is a next page.
        left = labelled(local, left, label, limit + 1).await?;
    }
    let part = Page::first(left, limit, |last| match query.by_change {
        true => format!("{}.{}", last.updated_unix_ms, last.id()),
        false => last.id().to_string(),
    });
    Ok(Page {
        items: list_items(local, part.items).await?,
        next: part.next,
    })
}

/// The first sessions with a label, in the same order: at least as many as requested, if they
/// exist.
async fn labelled(
    local: &Local,
    all: Vec<SessionInfo>,
    label: &Label,
    enough: usize,
) -> Result<Vec<SessionInfo>, Error> {
    let has = |first: &Option<Event>| {
        let labels = first.as_ref().and_then(created_with);
        labels.is_some_and(|labels| label.is_of(labels))
    };
    let mut fitting = Vec::new();
    for part in all.chunks(PAGE) {
        let ids: Vec<SessionId> = part.iter().map(SessionInfo::id).collect();
        let firsts = local.journal().first_events(&ids).await?;
        let each = part.iter().zip(&firsts);
        fitting.extend(
            each.filter(|(_, first)| has(first))
                .map(|(found, _)| *found),
        );
        if fitting.len() >= enough {
            break;
        }
    }
    Ok(fitting)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use unisono_api::service::Sessions as _;

    use super::*;
    use crate::fixture::Counting;

    #[tokio::test]
    async fn open_sessions_are_looked_up_at_once() {
        let (engine, local) = Counting::with_three_sessions().await;
        for n in 4..=6 {
            engine.add_with(SessionId::from_u128(n), 1).await;
        }
        for by_change in [false, true] {
            engine.lookups.store(0, Ordering::Relaxed);
            let query = SessionQuery {
                open: true,
                by_change,
                ..SessionQuery::default()
            };
            let listed = local.sessions(&query).await.unwrap();
            assert_eq!(listed.items.len(), 3);
            assert_eq!(engine.lookups.load(Ordering::Relaxed), 1);
        }
    }

    #[tokio::test]
    async fn open_sessions_are_found_in_one_list() {
        let (engine, local) = Counting::with_three_sessions().await;
        let mut lists = Vec::new();
        for (open, found) in [(false, 3), (true, 0)] {
            engine.lists.store(0, Ordering::Relaxed);
            let query = SessionQuery {
                open,
                by_change: true,
                ..SessionQuery::default()
            };
            let listed = local.sessions(&query).await.unwrap();
            assert_eq!(listed.items.len(), found);
            lists.push(engine.lists.load(Ordering::Relaxed));
        }
        assert_eq!(lists[0], lists[1]);
    }
}
