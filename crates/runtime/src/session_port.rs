//! An agent's port to its session: steps to journal, tasks to delegate, messages to read and
//! search, texts to count, progress.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use unisono_context::tokens::Count;
use unisono_context::{Digest, Encoding, Message, MessageId, Ordinal, RunId, Timestamp};
use unisono_session::budget::ReservationRequest;
use unisono_session::machine::{CallEnd, DelegateCall, NewCall};
use unisono_session::run::{AuxiliaryUsage, Step, ToolResult};

use crate::agent::Failure;
use crate::session::{MessagePlace, OutsideMessage};

/// Search results for an agent.
#[derive(Debug, Default)]
pub(crate) struct RecallResults {
    /// On the branch of its context.
    pub(crate) on_branch: unisono_search::RecallResult,
    /// Outside the branch, best first.
    pub(crate) elsewhere: Vec<OutsideMessage>,
}

/// A future answer.
pub(crate) type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The other end of a [`Port`]: the session, or a recording in tests.
pub(crate) trait SessionPort: Send + Sync + 'static {
    /// Sends a step at once; the future returns after it is on disk.
    fn step(
        &self,
        run: RunId,
        attempt: u32,
        step: Arc<Step>,
    ) -> PortFuture<'_, Result<(), Failure>>;

    /// Delegates tasks; returns after all of them have ended, with their results in the order of
    /// the calls. A repetition of the round finds its existing runs.
    fn delegate(
        &self,
        run: RunId,
        attempt: u32,
        round: u32,
        calls: Vec<DelegateCall>,
    ) -> PortFuture<'_, Result<Vec<ToolResult>, Failure>>;

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
    ) -> PortFuture<'_, Result<Vec<ToolResult>, Failure>>;

    /// Reserves a model call; returns after the reservation is on disk, with the reason if a budget
    /// makes it the last call of its run.
    fn reserve(
        &self,
        run: RunId,
        attempt: u32,
        ask: ReservationRequest,
    ) -> PortFuture<'_, Result<Option<Arc<str>>, Failure>>;

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
    ) -> PortFuture<'_, Result<Option<Arc<Message>>, Failure>>;

    /// The complete result with this name that the run got.
    fn read_result(
        &self,
        run: RunId,
        name: String,
    ) -> PortFuture<'_, Result<Option<Arc<str>>, Failure>>;

    /// The steps of the agent that wrote the message at an ordinal of the branch with this `head`;
    /// empty if no agent of this session wrote it.
    fn read_steps(
        &self,
        head: MessageId,
        ordinal: Ordinal,
    ) -> PortFuture<'_, Result<Vec<Arc<Step>>, Failure>>;

    /// The messages of the branch with this `head` that match a text best, and those outside it; an
    /// error says why the search is impossible.
    fn recall(
        &self,
        head: MessageId,
        text: String,
        limit: usize,
    ) -> PortFuture<'_, Result<Result<RecallResults, String>, Failure>>;

    /// The message at a place outside the branch; an error says why it cannot be read.
    fn read_outside_message(
        &self,
        place: MessagePlace,
    ) -> PortFuture<'_, Result<Result<Arc<Message>, String>, Failure>>;

    /// The bytes of a file in the result of a tool.
    fn read_content(&self, digest: Digest) -> PortFuture<'_, Result<Arc<[u8]>, Failure>>;

    /// Publishes a progress report of an agent.
    fn progress(&self, run: RunId, text: Arc<str>);

    /// Publishes that a run pauses until then before a request to its model.
    fn pause(&self, run: RunId, until: Timestamp, reason: &str);

    /// Publishes a part of a model's reply as it arrives.
    fn text_delta(&self, run: RunId, piece: &str);
}

/// A shared port.
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
