//! An agent's port to its session: steps to be journaled, tasks for others, messages to be read
//! and found, texts to be counted, progress.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use unisono_context::tokens::Count;
use unisono_context::{Encoding, Message, MessageId, Ordinal, RunId};
use unisono_session::budget::ReservationRequest;
use unisono_session::machine::{CallEnd, DelegateCall, NewCall};
use unisono_session::run::{Spent, Step, ToolResult};

use crate::agent::Failure;
use crate::session::{MessagePlace, OutsideMessage};

/// What was found for an agent.
#[derive(Debug, Default)]
pub(crate) struct Recalled {
    /// On the branch of its context.
    pub(crate) on_branch: unisono_search::Recalled,
    /// Beside it, the best first.
    pub(crate) elsewhere: Vec<OutsideMessage>,
}

/// What is answered later.
pub(crate) type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The far end of a [`Port`]: the session, or a recording in tests.
pub(crate) trait SessionPort: Send + Sync + 'static {
    /// Journals a step; done once it is on disk.
    fn step(
        &self,
        run: RunId,
        attempt: u32,
        step: Arc<Step>,
    ) -> PortFuture<'_, Result<(), Failure>>;

    /// Gives tasks to other agents; done once all of them have ended, with what each came back
    /// with, in the order of the calls. The same round again finds the runs it has.
    fn delegate(
        &self,
        run: RunId,
        attempt: u32,
        round: u32,
        calls: Vec<DelegateCall>,
    ) -> PortFuture<'_, Result<Vec<ToolResult>, Failure>>;

    /// Calls tools with effects outside; done once all calls are done with, with what each came
    /// back with, in the order of the calls. The same round again finds the calls as they are.
    /// `held` says meanwhile whether nothing is done but to wait for a person.
    fn call_tools(
        &self,
        run: RunId,
        attempt: u32,
        round: u32,
        calls: Vec<NewCall>,
        held: watch::Sender<bool>,
    ) -> PortFuture<'_, Result<Vec<ToolResult>, Failure>>;

    /// Reserves what a model call may take; done once that is on disk, with the reason where it
    /// is the last of its run because of a budget.
    fn reserve(
        &self,
        run: RunId,
        attempt: u32,
        ask: ReservationRequest,
    ) -> PortFuture<'_, Result<Option<Arc<str>>, Failure>>;

    /// Says how a call ended that was reserved and is no step of its run.
    fn settle(&self, run: RunId, attempt: u32, call: u32, end: CallEnd);

    /// Says what was paid for besides replies, for a request that goes on; `call` is what was set
    /// aside for it.
    fn spent(&self, run: RunId, attempt: u32, call: Option<u32>, spent: Spent);

    /// Counts texts in an encoding, in order. Where that cannot be done, it is estimated.
    fn count(&self, texts: Vec<String>, encoding: Encoding) -> PortFuture<'_, Vec<Count>>;

    /// The message at an ordinal of the branch that ends in `head`.
    fn read_message(
        &self,
        head: MessageId,
        ordinal: Ordinal,
    ) -> PortFuture<'_, Result<Option<Arc<Message>>, Failure>>;

    /// The whole of a result that a run was handed, by its name.
    fn read_result(
        &self,
        run: RunId,
        name: String,
    ) -> PortFuture<'_, Result<Option<Arc<str>>, Failure>>;

    /// What the agent did that wrote the message at an ordinal of the branch that ends in `head`:
    /// nothing where no agent of this session did.
    fn read_steps(
        &self,
        head: MessageId,
        ordinal: Ordinal,
    ) -> PortFuture<'_, Result<Vec<Arc<Step>>, Failure>>;

    /// The messages of the branch that ends in `head` that fit a text best, and those beside it; or
    /// why they cannot be searched.
    fn recall(
        &self,
        head: MessageId,
        text: String,
        limit: usize,
    ) -> PortFuture<'_, Result<Result<Recalled, String>, Failure>>;

    /// The message at a place that is not on the branch; or why it is not given.
    fn read_outside_message(
        &self,
        place: MessagePlace,
    ) -> PortFuture<'_, Result<Result<Arc<Message>, String>, Failure>>;

    /// Passes on what an agent says it is doing.
    fn progress(&self, run: RunId, text: Arc<str>);

    /// Passes on a piece of a model's reply, as it comes.
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
