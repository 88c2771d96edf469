//! Full-text search.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use unisono_api::search::{SearchQuery, SearchResults};
use unisono_api::service::{self, Search};
use unisono_api::session::MAIN_BRANCH;
use unisono_api::{Code, Page};
use unisono_context::{Message, MessageId, SessionId};
use unisono_runtime::{Handle, clock};
use unisono_search::{Branch, Query as Words, excerpt};
use unisono_session::State;

use super::messages::unknown_branch;
use super::sessions::find_only as only_session;
use super::{cursor, id};
use crate::Local;
use crate::error::Error;
use crate::search_results;
use crate::view::Inspect as _;

/// Default number of results, and its maximum.
const FOUND: usize = 20;
const MAX_RESULTS: usize = 1_000;
/// Maximum depth of a list of results: each page costs all pages before it.
const DEEPEST: usize = 10_000;
/// Characters of an excerpt.
const EXCERPT_CHARS: usize = 240;

#[async_trait]
impl Search for Local {
    async fn search(
        &self,
        session: Option<&str>,
        query: &SearchQuery,
    ) -> service::Result<SearchResults> {
        let Some(session) = session else {
            return Ok(self.search_all(query, EXCERPT_CHARS).await?);
        };
        let session = id("session", session)?;
        Ok(found(self, query, Some(session), EXCERPT_CHARS).await?)
    }
}

impl Local {
    /// Searches all sessions, with excerpts of about `chars` characters.
    ///
    /// # Errors
    /// The query is refused, or the index cannot be read.
    pub async fn search_all(
        &self,
        query: &SearchQuery,
        chars: usize,
    ) -> Result<SearchResults, Error> {
        found(self, query, None, chars).await
    }

    /// The best `limit` messages of the branch that ends in `head`, for an agent's question, each
    /// with an excerpt of about `chars` characters.
    ///
    /// # Errors
    /// The question is too large, or the session or the index cannot be read.
    pub async fn recall(
        &self,
        session: &Handle,
        head: MessageId,
        question: &str,
        limit: usize,
        chars: usize,
    ) -> Result<Vec<(Arc<Message>, String)>, Error> {
        let id = session.id();
        let branch = move |state: &State| Branch::new(id, state.tree(), head);
        let branch = session.inspect(branch).await?;
        let found = self.search().recall(&branch, question, limit).await?;
        let (ordinals, stems) = (found.messages, found.stems);
        let read = move |state: &State| -> Vec<Arc<Message>> {
            let nodes = ordinals
                .iter()
                .filter_map(|ordinal| state.tree().node_at(head, *ordinal));
            nodes.map(|node| node.message.clone()).collect()
        };
        let messages = session.inspect(read).await?.into_iter();
        let with_excerpt = |message: Arc<Message>| {
            let part = excerpt(&message.countable_text(), &stems, chars).text;
            (message, part)
        };
        Ok(messages.map(with_excerpt).collect())
    }
}

async fn found(
    local: &Local,
    sought: &SearchQuery,
    within: Option<SessionId>,
    chars: usize,
) -> Result<SearchResults, Error> {
    let query = Words::parse(&sought.q, clock::now()).map_err(unisono_search::Error::from)?;
    // Of a session alone, the newest messages are found.
    let has_session = within.is_some() || query.session.is_some();
    if query.is_empty() && !(has_session && query.notes.is_empty()) {
        let notes = query.notes.iter().map(|note| format!(": {note}"));
        let detail = format!(
            "there is nothing to search for{}",
            notes.collect::<String>()
        );
        return Err(Error::new(Code::Refused, detail));
    }
    let named = match query.session.as_deref() {
        Some(name) if within.is_none() => Some(only_session(local, name).await?),
        _ => None,
    };
    let only: Vec<SessionId> = within.or(named).into_iter().collect();
    check_branch(local, only.first().copied(), &sought.branch).await?;
    let search = local.search();
    if local.runtime().is_err() {
        // Nothing updates the index in the background: the search waits until it is complete.
        search.settle(None).await?;
    } else if !search.follows() {
        // Built on demand, for the requested sessions.
        search.settle(only.first().copied()).await?;
    }
    let limit = sought
        .limit
        .map_or(FOUND, NonZeroUsize::get)
        .min(MAX_RESULTS);
    let offset = offset_of_cursor(sought)?;
    let answer = search.find(&query, &only, offset + limit + 1).await?;
    let left = answer.found.into_iter().skip(offset);
    let part = Page::first(left, limit, |_| (offset + limit).to_string());
    let stems = query.stems();
    let mut hits = Vec::with_capacity(part.items.len());
    for found in part.items {
        // A session that was deleted meanwhile has no results.
        let Ok(session) = local.view(found.session).await else {
            continue;
        };
        let (branch, stems) = (sought.branch.clone(), stems.clone());
        let look = move |state: &State| search_results::hit(&found, state, &branch, &stems, chars);
        hits.extend(session.inspect(look).await?);
    }
    Ok(SearchResults {
        notes: query.notes.iter().map(ToString::to_string).collect(),
        complete: answer.complete,
        hits,
        next: part.next,
    })
}

/// Refuses a branch that the session does not have. In all sessions, results are judged by `main` only.
async fn check_branch(
    local: &Local,
    session: Option<SessionId>,
    branch: &str,
) -> Result<(), Error> {
    let Some(session) = session else {
        if branch == MAIN_BRANCH {
            return Ok(());
        }
        let detail = format!(
            "branch {branch:?} belongs to one session: name that session as well (session:ID)"
        );
        return Err(Error::new(Code::Refused, detail));
    };
    let session = local.view(session).await?;
    let name = branch.to_owned();
    let known = move |state: &State| {
        // A session without messages has no branch.
        state.tree().is_empty() || state.tree().head(&name).is_some()
    };
    match session.inspect(known).await? {
        true => Ok(()),
        false => Err(unknown_branch(branch)),
    }
}

/// Number of messages on the previous pages: results are ranked, so there is no other position.
fn offset_of_cursor(sought: &SearchQuery) -> Result<usize, Error> {
    let offset = cursor(sought.cursor.as_deref())?.unwrap_or(0);
    if offset > DEEPEST {
        let detail = format!("search results end after {DEEPEST} messages: search for rarer words");
        return Err(Error::new(Code::Refused, detail));
    }
    Ok(offset)
}
