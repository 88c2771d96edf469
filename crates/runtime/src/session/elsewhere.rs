//! Messages that agents may read outside the branch of their context, according to [`RecallScope`]:
//! on other branches of the session, and in other sessions of the same owner.
//!
//! Unlike matches on the branch, these depend on the time of the call. The result of a call is a
//! step of its run, so a replay has it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use unisono_context::{Message, MessageId, SessionId};
use unisono_search::{FoundMessage, Scope, Search};
use unisono_session::{OWNER, State};
use unisono_store::Journal;

use crate::env::Env;
use crate::session_port::{MessagePlace, OutsideMessage, RecallScope};

/// The maximum number of other sessions that one search reads.
const MAX_SESSIONS: usize = 8;
/// The number of matches that are checked for messages outside the branch.
const LOOKED_AT: usize = 256;
/// Events per page.
const PAGE: usize = 1_024;

/// The accessible part of a session.
#[derive(Clone, Debug)]
pub(super) struct ReadAccess {
    session: SessionId,
    scope: Scope,
}

impl ReadAccess {
    /// The accessible part of a session for this scope; none: only the branch.
    pub(super) fn new(reach: RecallScope, session: SessionId, state: &State) -> Option<ReadAccess> {
        let owner = state.labels().get(OWNER).filter(|owner| !owner.is_empty());
        let scope = match (reach, owner) {
            (RecallScope::Branch, _) => return None,
            (RecallScope::Owner, Some(owner)) => Scope::Owner(owner.clone()),
            _ => Scope::Session(session),
        };
        Some(ReadAccess { session, scope })
    }

    fn has(&self, session: SessionId, state: &State) -> bool {
        match &self.scope {
            Scope::Owner(owner) => state.labels().get(OWNER) == Some(owner),
            Scope::Session(own) => *own == session,
        }
    }
}

/// The messages that match a text best and are not on the branch with this `head`, at most `limit`;
/// an error says why the search is impossible.
pub(super) async fn find(
    (env, search): (&Weak<Env>, &Search),
    allowed: ReadAccess,
    head: MessageId,
    text: &str,
    limit: usize,
) -> Result<Vec<OutsideMessage>, String> {
    let found = search.recall_in(allowed.scope.clone(), text, LOOKED_AT);
    let found = found.await.map_err(|error| error.to_string())?;
    let mut read: HashMap<SessionId, Option<State>> = HashMap::new();
    let mut messages = Vec::new();
    for FoundMessage {
        session, message, ..
    } in found
    {
        if messages.len() == limit {
            break;
        }
        if !read.contains_key(&session) {
            if !may_read(&read, allowed.session, session) {
                continue;
            }
            let state = folded(&journal(env)?, session).await;
            let state = state.filter(|state| allowed.has(session, state));
            read.insert(session, state);
        }
        let state = read.get(&session).and_then(Option::as_ref);
        let state = state.filter(|state| !is_on(state, head, message));
        messages.extend(state.and_then(|state| elsewhere(state, &allowed, session, message)));
    }
    Ok(messages)
}

/// Whether a search reads one more session: its own, or another one within the limit.
fn may_read(read: &HashMap<SessionId, Option<State>>, own: SessionId, session: SessionId) -> bool {
    session == own || read.keys().filter(|read| **read != own).count() < MAX_SESSIONS
}

fn elsewhere(
    state: &State,
    allowed: &ReadAccess,
    session: SessionId,
    message: MessageId,
) -> Option<OutsideMessage> {
    let node = state.tree().get(message)?;
    let mut branches = state.tree().branches();
    let branch = branches.find(|(_, head)| is_on(state, *head, message));
    let before = node.message.parent.and_then(|id| state.tree().get(id));
    Some(OutsideMessage {
        session: (session != allowed.session).then(|| (session, state.title().into())),
        branch: branch.map(|(name, _)| name.into()),
        before: before.map(|node| node.message.clone()),
        message: node.message.clone(),
    })
}

fn is_on(state: &State, head: MessageId, message: MessageId) -> bool {
    let node = state.tree().get(message);
    let there = node.and_then(|node| state.tree().node_at(head, node.message.ordinal));
    there.is_some_and(|there| there.message.id == message)
}

/// The message at a place; an error says why there is none.
pub(super) async fn read(
    env: &Weak<Env>,
    allowed: ReadAccess,
    place: MessagePlace,
) -> Result<Arc<Message>, String> {
    let session = place.session.unwrap_or(allowed.session);
    let state = folded(&journal(env)?, session).await;
    let state = state.filter(|state| allowed.has(session, state));
    // An inaccessible session is reported like a missing one.
    let state = state.ok_or_else(|| format!("this owner has no session {session}"))?;
    let head = state.tree().head(&place.branch);
    let head = head.ok_or_else(|| format!("session {session} has no branch {:?}", place.branch))?;
    let node = state.tree().node_at(head, place.ordinal);
    let node = node.ok_or_else(|| {
        let (branch, ordinal) = (&place.branch, place.ordinal);
        format!("branch {branch:?} of session {session} has no message {ordinal}")
    })?;
    Ok(node.message.clone())
}

fn journal(env: &Weak<Env>) -> Result<Journal, String> {
    let env = env.upgrade();
    env.map(|env| env.journal.clone())
        .ok_or_else(|| "the runtime has stopped".to_owned())
}

/// A session from its journal; none if it has no readable journal. Nothing is opened: interrupted
/// turns stay as they are.
async fn folded(journal: &Journal, session: SessionId) -> Option<State> {
    let mut state = State::default();
    loop {
        let page = journal.read(session, state.events() + 1, PAGE).await;
        let page = match page {
            Ok(page) if page.is_empty() => return state.id().map(|_| state),
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%session, %error, "a session cannot be recalled");
                return None;
            }
        };
        for (_, event) in &page {
            state.apply(event).ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_reads_its_own_session_and_no_more_others_than_the_limit() {
        let (own, others) = (SessionId::from_u128(0), 1..=MAX_SESSIONS as u128);
        let last = SessionId::from_u128(MAX_SESSIONS as u128);
        let next = SessionId::from_u128(MAX_SESSIONS as u128 + 1);
        let mut read: HashMap<SessionId, Option<State>> =
            others.map(|id| (SessionId::from_u128(id), None)).collect();
        assert!(may_read(&read, own, own));
        assert!(!may_read(&read, own, next));
        read.remove(&last);
        read.insert(own, None);
        assert!(may_read(&read, own, last));
    }
}
