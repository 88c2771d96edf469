//! The messages of sessions, their handles and the runtime to the supervisor of the tree.

use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::oneshot;
use unisono_context::SessionId;
use unisono_session::Definition;

use super::{DrainGuard, Entry, Feed, FeedReceiver, Folded};
use crate::error::Error;
use crate::pool_port;

#[derive(Debug)]
pub(crate) enum Msg {
    /// Return the session; start it if it is not live.
    Activate {
        session: SessionId,
        /// Its state, if it was taken over.
        folded: Option<Box<Folded>>,
        reply: oneshot::Sender<Result<Entry, Error>>,
    },
    /// Return the session if it is live.
    Find {
        session: SessionId,
        reply: oneshot::Sender<Option<Entry>>,
    },
    /// Return the feed of the session, whether it is live or not.
    Follow {
        session: SessionId,
        reply: oneshot::Sender<Result<(Arc<Feed>, FeedReceiver), Error>>,
    },
    /// The session was deleted: drop everything, and notify its followers.
    Forget(SessionId),
    /// Other programs may own all sessions by now: drop everything.
    ForgetAll,
    /// This program was cut off: drop the sessions that other programs may own, and have the others
    /// go on.
    ForgetLost,
    /// Return the number of sessions in memory with open turns.
    CountWorking(oneshot::Sender<usize>),
    /// Have the budget broker take back the unused grants of these sessions.
    SettleBudget {
        sessions: Vec<SessionId>,
        reply: oneshot::Sender<()>,
    },
    /// Sessions exceed the memory limit: some of them have to leave.
    MakeRoom,
    /// Return the pool of an agent; start it if there is none.
    PoolOf {
        key: pool_port::Key,
        reply: oneshot::Sender<Result<pool_port::Handle, Error>>,
    },
    Restart(Child),
    /// Have every session write its decisions to disk.
    Drain(DrainGuard),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Child {
    Tokenizer,
    Compactor,
    BudgetBroker,
    Pool(pool_port::Key),
    ToolServer(Arc<str>),
    Session(SessionId),
}

pub(crate) async fn activate(
    supervisor: &ActorRef<Msg>,
    session: SessionId,
) -> Result<Entry, Error> {
    let activate = |reply| Msg::Activate {
        session,
        folded: None,
        reply,
    };
    ask(supervisor, activate).await
}

/// Requests a session that this program took over.
pub(crate) async fn resume(supervisor: &ActorRef<Msg>, folded: Folded) -> Result<Entry, Error> {
    let activate = |reply| Msg::Activate {
        session: folded.session,
        folded: Some(Box::new(folded)),
        reply,
    };
    ask(supervisor, activate).await
}

/// Returns the session if it is live.
pub(crate) async fn find(supervisor: &ActorRef<Msg>, session: SessionId) -> Option<Entry> {
    let (reply, answer) = oneshot::channel();
    let asked = supervisor.send_message(Msg::Find { session, reply });
    asked.ok()?;
    answer.await.ok()?
}

pub(crate) async fn follow(
    supervisor: &ActorRef<Msg>,
    session: SessionId,
) -> Result<(Arc<Feed>, FeedReceiver), Error> {
    ask(supervisor, |reply| Msg::Follow { session, reply }).await
}

pub(crate) async fn pool_of(
    supervisor: &ActorRef<Msg>,
    definition: &Definition,
) -> Result<pool_port::Handle, Error> {
    let key = pool_port::key(definition);
    ask(supervisor, |reply| Msg::PoolOf { key, reply }).await
}

async fn ask<T>(
    supervisor: &ActorRef<Msg>,
    make: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Msg,
) -> Result<T, Error> {
    let gone = || Error::Unavailable("supervisor");
    let (reply, answer) = oneshot::channel();
    supervisor.send_message(make(reply)).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}
