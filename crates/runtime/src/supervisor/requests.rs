//! Requests to the supervisor.

use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::oneshot;
use unisono_context::SessionId;
use unisono_session::Definition;

use super::Msg;
use crate::pool;
use crate::runtime::Error;
use crate::session::{self, Feed, FeedReceiver, Folded};

/// Requests a session.
pub(crate) async fn activate(
    supervisor: &ActorRef<Msg>,
    session: SessionId,
) -> Result<session::Entry, Error> {
    let activate = |reply| Msg::Activate {
        session,
        folded: None,
        reply,
    };
    ask(supervisor, activate).await
}

/// Requests a session that this program took over.
pub(crate) async fn resume(
    supervisor: &ActorRef<Msg>,
    folded: Folded,
) -> Result<session::Entry, Error> {
    let activate = |reply| Msg::Activate {
        session: folded.session,
        folded: Some(Box::new(folded)),
        reply,
    };
    ask(supervisor, activate).await
}

/// Returns the session if it is live.
pub(crate) async fn find(supervisor: &ActorRef<Msg>, session: SessionId) -> Option<session::Entry> {
    let (reply, answer) = oneshot::channel();
    let asked = supervisor.send_message(Msg::Find { session, reply });
    asked.ok()?;
    answer.await.ok()?
}

/// Requests the feed of a session.
pub(crate) async fn follow(
    supervisor: &ActorRef<Msg>,
    session: SessionId,
) -> Result<(Arc<Feed>, FeedReceiver), Error> {
    ask(supervisor, |reply| Msg::Follow { session, reply }).await
}

/// Requests an agent's pool.
pub(crate) async fn pool_of(
    supervisor: &ActorRef<Msg>,
    definition: &Definition,
) -> Result<pool::Handle, Error> {
    let key = pool::key(definition);
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
