//! An agent's port to the session that dispatched it.

use std::sync::{Arc, Weak};

use ractor::ActorRef;
use tokio::sync::{oneshot, watch};
use unisono_context::tokens::Count;
use unisono_context::{Digest, Encoding, Message, MessageId, Ordinal, RunId, SessionId, Timestamp};
use unisono_search::{Branch, Search};
use unisono_session::budget::ReservationRequest;
use unisono_session::machine::{CallEnd, DelegateCall, NewCall};
use unisono_session::run::{AuxiliaryUsage, RunCause, Step, ToolResult};
use unisono_session::state::StepLocation;
use unisono_session::trace::AnsweredCalls;
use unisono_session::{Fact, Input, State as SessionState};
use unisono_store::Journal;

use crate::attachments;
use crate::env::Env;
use crate::error::Error;
use crate::failure::Failure;
use crate::session_port::{
    MessagePlace, PortFuture, PortResult, RecallResults, RecallScope, SessionPort,
};
use crate::tokenizer;

use super::budget_queue::QueuedCall;
use super::effects::{count_surely, feed};
use super::elsewhere::{self, ReadAccess};
use super::rounds::{self, Round, RoundKind};
use super::{Args, Feed, Msg, Progress};

/// Events per page when an agent reads the steps of another one.
const STEPS_PAGE: usize = 256;

/// An agent's port to the session that dispatched it.
pub(super) struct ActorPort {
    id: SessionId,
    /// Weak: a request that is kept somewhere has a port, too.
    env: Weak<Env>,
    session: ActorRef<Msg>,
    search: Search,
    reach: RecallScope,
    tokenizer: tokenizer::Handle,
    feed: Arc<Feed>,
}

impl ActorPort {
    pub(super) fn new(args: &Args, session: ActorRef<Msg>) -> ActorPort {
        ActorPort {
            id: args.id,
            env: Arc::downgrade(&args.env),
            session,
            search: args.env.search.clone(),
            reach: args.env.options.recall,
            tokenizer: args.tokenizer.clone(),
            feed: args.feed.clone(),
        }
    }

    /// Inspects the session's state, including events that are not on disk yet: the next step of
    /// the run is written after them.
    fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&SessionState) -> T + Send + 'static,
    ) -> PortResult<'_, T> {
        let (sender, seen) = oneshot::channel();
        let (reply, looked) = oneshot::channel();
        // The run may have ended meanwhile.
        let look = move |state: &SessionState| drop(sender.send(look(state)));
        let sent = self.session.send_message(Msg::Peek(Box::new(look), reply));
        Box::pin(async move {
            sent.map_err(|_| gone())?;
            let looked = looked.await.map_err(|_| gone())?;
            looked.map_err(|error| Failure::new(RunCause::Panic, error.to_string()))?;
            seen.await.map_err(|_| gone())
        })
    }

    /// Begins a round and waits for its results.
    fn round(
        &self,
        input: Input,
        round: Round,
        held: watch::Sender<bool>,
    ) -> PortResult<'_, Vec<ToolResult>> {
        let (results, ended) = oneshot::channel();
        let reply = rounds::RoundReply { results, held };
        let sent = self.session.send_message(Msg::Round {
            input,
            round,
            reply,
        });
        Box::pin(async move {
            sent.map_err(|_| gone())?;
            ended.await.map_err(|_| gone())?
        })
    }
}

async fn steps(
    journal: &Journal,
    id: SessionId,
    acts: StepLocation,
) -> Result<Vec<Arc<Step>>, Failure> {
    let (mut steps, mut next) = (Vec::new(), acts.first);
    let mut answered = AnsweredCalls::default();
    while next <= acts.last {
        let page = journal.read(id, next, STEPS_PAGE).await;
        let page = page.map_err(|error| Failure::new(RunCause::Panic, error.to_string()))?;
        let Some((last, _)) = page.last() else {
            break;
        };
        next = last + 1;
        let read = page.into_iter().filter_map(|(_, event)| {
            let results = answered.take(&event.fact);
            match event.fact {
                Fact::RunStepped { run, step } => Some((run, step)),
                _ => results.map(|(run, results)| (run, Arc::new(Step::Tools(results)))),
            }
        });
        let of_run = read.filter(|(run, _)| *run == acts.run);
        steps.extend(of_run.map(|(_, step)| step));
    }
    Ok(steps)
}

fn gone() -> Failure {
    Failure::new(RunCause::Panic, "the session is gone")
}

impl SessionPort for ActorPort {
    fn step(&self, run: RunId, attempt: u32, step: Arc<Step>) -> PortResult<'_, ()> {
        let (reply, durable) = oneshot::channel();
        let input = Input::RunStepped { run, attempt, step };
        let sent = self.session.send_message(Msg::Request { input, reply });
        Box::pin(async move {
            sent.map_err(|_| gone())?;
            let stored: Result<(), Error> = durable.await.map_err(|_| gone())?;
            stored.map_err(|error| Failure::new(RunCause::Panic, error.to_string()))
        })
    }

    fn delegate(
        &self,
        run: RunId,
        attempt: u32,
        round: u32,
        calls: Vec<DelegateCall>,
    ) -> PortResult<'_, Vec<ToolResult>> {
        let (number, kind) = (round, RoundKind::Tasks);
        let input = Input::Delegate {
            run,
            attempt,
            round,
            calls,
        };
        self.round(
            input,
            Round { run, number, kind },
            watch::Sender::new(false),
        )
    }

    fn call_tools(
        &self,
        run: RunId,
        attempt: u32,
        round: u32,
        calls: Vec<NewCall>,
        held: watch::Sender<bool>,
    ) -> PortResult<'_, Vec<ToolResult>> {
        let (number, kind) = (round, RoundKind::Calls);
        let input = Input::CallTools {
            run,
            attempt,
            round,
            calls,
        };
        self.round(input, Round { run, number, kind }, held)
    }

    fn withdraw_permissions(&self, run: RunId, attempt: u32, round: u32) {
        let withdrawn = Input::WithdrawPermissions {
            run,
            attempt,
            round,
        };
        feed(&self.session, withdrawn);
    }

    fn reserve(
        &self,
        run: RunId,
        attempt: u32,
        ask: ReservationRequest,
    ) -> PortResult<'_, Option<Arc<str>>> {
        let (reply, granted) = oneshot::channel();
        let asking = QueuedCall {
            run,
            attempt,
            ask,
            reply,
        };
        let sent = self.session.send_message(Msg::Reserve(asking));
        Box::pin(async move {
            sent.map_err(|_| gone())?;
            granted.await.map_err(|_| gone())?
        })
    }

    fn settle(&self, run: RunId, attempt: u32, call: u32, end: CallEnd) {
        let ended = Input::Settle {
            run,
            attempt,
            call,
            end,
        };
        feed(&self.session, ended);
    }

    fn spent(&self, run: RunId, attempt: u32, call: Option<u32>, spent: AuxiliaryUsage) {
        // A reply that is no step is paid for: its text is none of the next reply.
        self.feed.break_off(run);
        let paid = Input::Spent {
            run,
            attempt,
            call,
            spent,
        };
        feed(&self.session, paid);
    }

    fn count(&self, texts: Vec<String>, encoding: Encoding) -> PortFuture<'_, Vec<Count>> {
        Box::pin(count_surely(&self.tokenizer, texts, encoding))
    }

    fn read_message(
        &self,
        head: MessageId,
        ordinal: Ordinal,
    ) -> PortResult<'_, Option<Arc<Message>>> {
        self.look(move |state| Some(state.tree().node_at(head, ordinal)?.message.clone()))
    }

    fn read_result(&self, run: RunId, name: String) -> PortResult<'_, Option<Arc<str>>> {
        self.look(move |state| state.result_by_name(run, &name))
    }

    fn read_steps(&self, head: MessageId, ordinal: Ordinal) -> PortResult<'_, Vec<Arc<Step>>> {
        let acts = self.look(move |state| {
            let written = state.tree().node_at(head, ordinal)?;
            state.step_location(written.message.id)
        });
        Box::pin(async move {
            match acts.await? {
                Some(acts) => {
                    let env = self.env.upgrade().ok_or_else(gone)?;
                    steps(&env.journal, self.id, acts).await
                }
                None => Ok(Vec::new()),
            }
        })
    }

    fn recall(
        &self,
        head: MessageId,
        text: String,
        limit: usize,
    ) -> PortResult<'_, Result<RecallResults, String>> {
        let (id, reach) = (self.id, self.reach);
        let seen = self.look(move |state| {
            let branch = Branch::new(id, state.tree(), head);
            (branch, ReadAccess::new(reach, id, state))
        });
        Box::pin(async move {
            let (branch, allowed) = seen.await?;
            let on_branch = match self.search.recall(&branch, &text, limit).await {
                Ok(found) => found,
                Err(error) => return Ok(Err(error.to_string())),
            };
            let elsewhere = match allowed {
                Some(allowed) => {
                    let by = (&self.env, &self.search);
                    elsewhere::find(by, allowed, head, &text, limit).await
                }
                None => Ok(Vec::new()),
            };
            Ok(elsewhere.map(|elsewhere| RecallResults {
                on_branch,
                elsewhere,
            }))
        })
    }

    fn read_outside_message(
        &self,
        place: MessagePlace,
    ) -> PortResult<'_, Result<Arc<Message>, String>> {
        let (id, reach) = (self.id, self.reach);
        let allowed = self.look(move |state| ReadAccess::new(reach, id, state));
        Box::pin(async move {
            Ok(match allowed.await? {
                Some(allowed) => elsewhere::read(&self.env, allowed, place).await,
                None => Err("only the branch of this conversation can be read".to_owned()),
            })
        })
    }

    fn read_content(&self, digest: Digest) -> PortResult<'_, Arc<[u8]>> {
        Box::pin(async move {
            let env = self.env.upgrade().ok_or_else(gone)?;
            let read = attachments::read(&env.journal, digest).await;
            read.map_err(|reason| Failure::new(RunCause::Panic, reason))
        })
    }

    fn progress(&self, run: RunId, text: Arc<str>) {
        self.feed.publish_progress(|| Progress::Run { run, text });
    }

    fn pause(&self, run: RunId, until: Timestamp, reason: &str) {
        self.feed.publish_progress(|| Progress::Pause {
            run,
            until,
            reason: reason.into(),
        });
    }

    fn text_delta(&self, run: RunId, piece: &str) {
        self.feed.publish_text(run, piece);
    }
}
