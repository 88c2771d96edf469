//! The budget broker as sessions see it: requests for grants, and grants that are returned.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use unisono_context::SessionId;
use unisono_session::budget::{Amount, Level, SessionUse, Shortage};

use super::Msg;
use crate::address::ActorAddress;

/// A session needs a larger grant. Until the answer its grant is the amount that it has in use.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) session: SessionId,
    pub(crate) owner: Option<Arc<str>>,
    /// The number of the request in the session.
    pub(crate) number: u64,
    pub(crate) session_use: SessionUse,
    pub(crate) needed: Amount,
    /// Whether its run keeps an amount for its last call: it is served before others.
    pub(crate) begun: bool,
    /// As in [`ReturnedGrant::spending`].
    pub(crate) spending: bool,
    pub(crate) recall: Recall,
}

impl Request {
    /// Why nothing more is granted; an owner's budget is named.
    pub(super) fn describe(&self, short: &Shortage) -> Arc<str> {
        match (&self.owner, short.level) {
            (Some(owner), Level::Owner) => format!("{short} (budget of owner {owner})").into(),
            _ => short.to_string().into(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReturnedGrant {
    pub(crate) session: SessionId,
    pub(crate) session_use: SessionUse,
    /// Whether it will release a part of its use without a larger grant.
    pub(crate) spending: bool,
    /// Its waiting request: once that is answered, this message is outdated.
    pub(crate) pending: Option<u64>,
}

/// Asks a session to return its unused grant, and to report changes from then on; false if it has
/// left memory.
#[derive(Clone)]
pub(crate) struct Recall(pub(super) Arc<dyn Fn() -> bool + Send + Sync>);

impl Recall {
    pub(crate) fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Recall {
        Recall(Arc::new(ask))
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recall(..)")
    }
}

/// The reason why no larger grant is given.
#[derive(Clone, Debug)]
pub(crate) enum BudgetRefusal {
    /// The budget is too small.
    Short(Arc<str>),
    /// The grant could not be recorded, or the broker is gone.
    Failed(Arc<str>),
}

/// The handle for sessions.
#[derive(Clone, Debug)]
pub(crate) struct Handle(pub(crate) ActorAddress<Msg>);

impl Handle {
    /// Requests a larger grant; returns the new ceiling. Sent at once, answered later.
    pub(crate) fn raise(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Amount, BudgetRefusal>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        // Without a broker, the reply is dropped.
        let _ = self.0.send_now(Msg::Raise(request, reply));
        async {
            let gone = || BudgetRefusal::Failed("the daemon's budget is not available".into());
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
    }

    /// Returns the unused grant. A restarted broker requests the grants again, so a lost message does
    /// no harm.
    pub(crate) fn lower(&self, back: ReturnedGrant) {
        let _ = self.0.send_now(Msg::Lower(back));
    }

    /// Takes back the unused grants of these sessions.
    pub(crate) fn settle(&self, sessions: Vec<SessionId>, reply: oneshot::Sender<()>) {
        // Without a broker, the reply is dropped.
        let _ = self.0.send_now(Msg::Settle(sessions, reply));
    }

    pub(crate) fn session_gone(&self, session: SessionId) {
        let _ = self.0.send_now(Msg::SessionGone(session));
    }
}
