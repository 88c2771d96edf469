//! What agents may read beside the branch of their context, as far as [`Reach`] says: other branches
//! of the session, and other sessions of the same owner.
//!
//! Unlike what is found on the branch, this depends on when it is asked for. What came of a call is
//! a step of its run, so a replay has it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use serde::Deserialize;
use unisono_context::{Message, MessageId, Ordinal, SessionId};
use unisono_search::{Found, Scope, Search};
use unisono_session::{OWNER, State};
use unisono_store::Journal;

use crate::runtime::Env;

/// Sessions one search reads at most, beside its own.
const MAX_SESSIONS: usize = 8;
/// Messages looked at to find those that are not on the branch.
const LOOKED_AT: usize = 256;
/// Events read at a time.
const PAGE: usize = 1_024;

/// What `recall` may search and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// The branch of the context, up to where it was frozen.
    #[default]
    Branch,
    /// All branches of the session, too.
    Session,
    /// All sessions with the same label `owner`, too. A session without that label is alone.
    Owner,
}

/// A message that is not on the branch.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    /// Another session with its title; none: another branch of this one.
    pub(crate) session: Option<(SessionId, Arc<str>)>,
    /// A branch that it is on; none: no branch leads to it any more.
    pub(crate) branch: Option<Arc<str>>,
    /// The message before it.
    pub(crate) before: Option<Arc<Message>>,
    /// The message.
    pub(crate) message: Arc<Message>,
}

/// Where a message is to be read that is not on the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Another session; none: this one.
    pub(crate) session: Option<SessionId>,
    /// One of its branches.
    pub(crate) branch: String,
    /// The message's number there.
    pub(crate) ordinal: Ordinal,
}

/// What may be read, of a session that was looked at.
#[derive(Clone, Debug)]
pub(super) struct Allowed {
    session: SessionId,
    scope: Scope,
}

impl Allowed {
    /// What this reach opens to a session; none: nothing but the branch.
    pub(super) fn of(reach: Reach, session: SessionId, state: &State) -> Option<Allowed> {
        let owner = state.labels().get(OWNER).filter(|owner| !owner.is_empty());
        let scope = match (reach, owner) {
            (Reach::Branch, _) => return None,
            (Reach::Owner, Some(owner)) => Scope::Owner(owner.clone()),
            _ => Scope::Session(session),
        };
        Some(Allowed { session, scope })
    }

    fn has(&self, session: SessionId, state: &State) -> bool {
        match &self.scope {
            Scope::Owner(owner) => state.labels().get(OWNER) == Some(owner),
            Scope::Session(own) => *own == session,
        }
    }
}

/// The messages that fit a text best and are not on the branch that ends in `head`, at most `limit`;
/// or why they cannot be searched.
pub(super) async fn find(
    (env, search): (&Weak<Env>, &Search),
    allowed: Allowed,
    head: MessageId,
    text: &str,
    limit: usize,
) -> Result<Vec<Elsewhere>, String> {
    let found = search.recall_in(allowed.scope.clone(), text, LOOKED_AT);
    let found = found.await.map_err(|error| error.to_string())?;
    let mut read: HashMap<SessionId, Option<State>> = HashMap::new();
    let mut given = Vec::new();
    for Found {
        session, message, ..
    } in found
    {
        if given.len() == limit {
            break;
        }
        if !read.contains_key(&session) {
            if read.len() > MAX_SESSIONS {
                continue;
            }
            let state = folded(&journal(env)?, session).await;
            let state = state.filter(|state| allowed.has(session, state));
            read.insert(session, state);
        }
        let state = read.get(&session).and_then(Option::as_ref);
        let state = state.filter(|state| !is_on(state, head, message));
        given.extend(state.and_then(|state| elsewhere(state, &allowed, session, message)));
    }
    Ok(given)
}

fn elsewhere(
    state: &State,
    allowed: &Allowed,
    session: SessionId,
    message: MessageId,
) -> Option<Elsewhere> {
    let node = state.tree().get(message)?;
    let mut branches = state.tree().branches();
    let branch = branches.find(|(_, head)| is_on(state, *head, message));
    let before = node.message.parent.and_then(|id| state.tree().get(id));
    Some(Elsewhere {
        session: (session != allowed.session).then(|| (session, state.title().into())),
        branch: branch.map(|(name, _)| name.into()),
        before: before.map(|node| node.message.clone()),
        message: node.message.clone(),
    })
}

/// Whether a message is on the branch that ends in `head`.
fn is_on(state: &State, head: MessageId, message: MessageId) -> bool {
    let node = state.tree().get(message);
    let there = node.and_then(|node| state.tree().at(head, node.message.ordinal));
    there.is_some_and(|there| there.message.id == message)
}

/// The message at a place; or why there is none.
pub(super) async fn read(
    env: &Weak<Env>,
    allowed: Allowed,
    place: Place,
) -> Result<Arc<Message>, String> {
    let session = place.session.unwrap_or(allowed.session);
    let state = folded(&journal(env)?, session).await;
    let state = state.filter(|state| allowed.has(session, state));
    // What it may not read is not told apart from what is not there.
    let state = state.ok_or_else(|| format!("there is no session {session} of this owner"))?;
    let head = state.tree().head(&place.branch);
    let head = head.ok_or_else(|| format!("session {session} has no branch {:?}", place.branch))?;
    let node = state.tree().at(head, place.ordinal);
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

/// A session as its journal has it; none where it has none, or one that cannot be read. Nothing is
/// opened: turns that were interrupted there stay as they are.
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
