//! An agent's port to its session: steps to journal, tasks to delegate, messages to read and
//! search, texts to count, progress.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::watch;
use unisono_context::tokens::Count;
use unisono_context::{Digest, Encoding, Message, MessageId, Ordinal, RunId, SessionId, Timestamp};
use unisono_session::budget::ReservationRequest;
use unisono_session::machine::{CallEnd, DelegateCall, NewCall};
use unisono_session::run::{AuxiliaryUsage, Step, ToolResult};

use crate::failure::Failure;

/// The scope of `recall`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecallScope {
    /// The branch of the context, up to the frozen head.
    #[default]
    Branch,
    /// Also all other branches of the session.
    Session,
    /// Also all sessions with the same label `owner`. A session without that label has no others.
    Owner,
}

#[derive(Clone, Debug)]
pub(crate) struct OutsideMessage {
    /// Another session with its title; none: another branch of this session.
    pub(crate) session: Option<(SessionId, Arc<str>)>,
    /// A branch that contains it; none: no branch contains it any more.
    pub(crate) branch: Option<Arc<str>>,
    pub(crate) before: Option<Arc<Message>>,
    pub(crate) message: Arc<Message>,
}

/// The place of a message outside the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessagePlace {
    /// Another session; none: this one.
    pub(crate) session: Option<SessionId>,
    pub(crate) branch: String,
    pub(crate) ordinal: Ordinal,
}

/// Search results for an agent.
#[derive(Debug, Default)]
pub(crate) struct RecallResults {
    /// On the branch of its context.
    pub(crate) on_branch: unisono_search::RecallResult,
    /// Outside the branch, best first.
    pub(crate) elsewhere: Vec<OutsideMessage>,
}

pub(crate) type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A future answer, or the failure of the run.
pub(crate) type PortResult<'a, T> = PortFuture<'a, Result<T, Failure>>;

/// The other end of a [`Port`]: the session, or a recording in tests.
pub(crate) trait SessionPort: Send + Sync + 'static {
    /// Sends a step at once; the future returns after it is on disk.
    fn step(&self, run: RunId, attempt: u32, step: Arc<Step>) -> PortResult<'_, ()>;

    /// Delegates tasks; returns after all of them have ended, with their results in the order of
    /// the calls. A repetition of the round finds its existing runs.
    fn delegate(
        &self,
        run: RunId,
        attempt: u32,
        round: u32,
        calls: Vec<DelegateCall>,
    ) -> PortResult<'_, Vec<ToolResult>>;

    /// Calls tools with effects outside; returns after all calls have ended, with their results in
    /// the order of the calls. A repetition of the round finds its existing calls. Meanwhile `held`
    /// says whether all remaining calls wait for a person.
    fn call_tools(
        &self,
        run: RunId,
        attempt: u32,
        round: u32,
        calls: Vec<NewCall>,
        held: watch::Sender<bool>,
    ) -> PortResult<'_, Vec<ToolResult>>;

    /// Withdraws the requests for permission in a round: its calls end.
    fn withdraw_permissions(&self, run: RunId, attempt: u32, round: u32);

    /// Reserves a model call; returns after the reservation is on disk, with the reason if a budget
    /// makes it the last call of its run.
    fn reserve(
        &self,
        run: RunId,
        attempt: u32,
        ask: ReservationRequest,
    ) -> PortResult<'_, Option<Arc<str>>>;

    /// Reports the end of a reserved call that is no step of its run.
    fn settle(&self, run: RunId, attempt: u32, call: u32, end: CallEnd);

    /// Reports a cost in addition to replies, for a request that continues; `call` is its
    /// reservation.
    fn spent(&self, run: RunId, attempt: u32, call: Option<u32>, spent: AuxiliaryUsage);

    /// Counts texts in an encoding, in order. If that fails, estimates them.
    fn count(&self, texts: Vec<String>, encoding: Encoding) -> PortFuture<'_, Vec<Count>>;

    /// The message at an ordinal of the branch with this `head`.
    fn read_message(
        &self,
        head: MessageId,
        ordinal: Ordinal,
    ) -> PortResult<'_, Option<Arc<Message>>>;

    /// The complete result with this name that the run got.
    fn read_result(&self, run: RunId, name: String) -> PortResult<'_, Option<Arc<str>>>;

    /// The steps of the agent that wrote the message at an ordinal of the branch with this `head`;
    /// empty if no agent of this session wrote it.
    fn read_steps(&self, head: MessageId, ordinal: Ordinal) -> PortResult<'_, Vec<Arc<Step>>>;

    /// The messages of the branch with this `head` that match a text best, and those outside it; an
    /// error says why the search is impossible.
    fn recall(
        &self,
        head: MessageId,
        text: String,
        limit: usize,
    ) -> PortResult<'_, Result<RecallResults, String>>;

    /// The message at a place outside the branch; an error says why it cannot be read.
    fn read_outside_message(
        &self,
        place: MessagePlace,
    ) -> PortResult<'_, Result<Arc<Message>, String>>;

    /// The bytes of a file in the result of a tool.
    fn read_content(&self, digest: Digest) -> PortResult<'_, Arc<[u8]>>;

    /// Publishes a progress report of an agent.
    fn progress(&self, run: RunId, text: Arc<str>);

    /// Publishes that a run pauses until then before a request to its model.
    fn pause(&self, run: RunId, until: Timestamp, reason: &str);

    /// Publishes a part of a model's reply as it arrives.
    fn text_delta(&self, run: RunId, piece: &str);
}

#[derive(Clone)]
pub(crate) struct Port(Arc<dyn SessionPort>);

impl Port {
    pub(crate) fn new(exchange: impl SessionPort) -> Port {
        Port(Arc::new(exchange))
    }
}

impl std::ops::Deref for Port {
    type Target = dyn SessionPort;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}
