//! The session actor: carries out the decisions of its machine.
//!
//! Owns the machine, the part of the journal that is not on disk yet, and the prompts of its open
//! turns. Clients send to it through their [`Handle`], admitted by permits; its own effects send
//! their results back. One append is in flight at a time: decisions made meanwhile go with the next
//! one. Decisions wait a few milliseconds for a count or a rendering in progress, and the end of a
//! run waits for those of its siblings. An effect with consequences outside waits in the outbox
//! until its intent is on disk. When the actor dies its runs are cancelled, and its successor
//! requests them again.

mod admission;
mod budget_queue;
mod calling;
mod commit;
mod compacting;
mod effects;
mod elsewhere;
mod events;
mod feed;
mod handle;
mod idle;
mod indexed;
mod inspect;
mod owned;
mod port;
mod read_only;
pub(crate) mod render;
mod rounds;
mod settle;
pub(crate) mod supervision;
mod unanswered;
mod weight;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use unisono_context::{Digest, RunId, SessionId, Timestamp, TurnId};
use unisono_model::prompt::Prefix;
use unisono_session::budget::Amount;
use unisono_session::event::HookPlace;
use unisono_session::machine::AttemptEnd;
use unisono_session::run::calls::CallPlace;
use unisono_session::state::EndedTurn;
use unisono_session::{Effect, Event, Input, Machine, Outbox, Reaction, State as SessionState};

use crate::address::ActorResult;
use crate::budget_broker::{self, BudgetRefusal};
use crate::clock;
use crate::compactor;
use crate::concurrency::ConcurrencyLimits;
use crate::env::Env;
use crate::error::Error;
use crate::hook::EndHooksGuard;
use crate::residence::Residence;
use crate::tokenizer;

use commit::Loaded;
use read_only::ReadOnlySession;

pub use commit::Folded;
pub use events::Events;
pub use feed::{BegunReplies, ProgressUpdate, SharedEvent};
pub use handle::{Handle, Progress};
pub use settle::settle;

pub(crate) use feed::{Feed, FeedReceiver};
pub(crate) use handle::Entry;

/// The maximum time that decisions wait for a count or a rendering, or the end of a run for those
/// of its awaited siblings, before they are written alone. Counts and renderings take less, except
/// for a newly imported conversation.
const BATCH_DELAY: Duration = Duration::from_millis(5);

pub(crate) enum Msg {
    /// Read the journal. Always the first.
    Load,
    /// Handle an input; the reply is sent after all its events are on disk.
    Request { input: Input, reply: Ack },
    /// Handle an input that begins a round of a run; the reply is sent after the round has ended.
    Round {
        input: Input,
        round: rounds::Round,
        reply: rounds::RoundReply,
    },
    /// Reserve a model call; the reply is sent after the reservation is on disk.
    Reserve(budget_queue::QueuedCall),
    /// The budget broker's answer to a request: a larger grant, or a refusal.
    GrantAnswered(u64, Result<Amount, BudgetRefusal>),
    /// Return the unused grant.
    Recall,
    /// Handle the result of an effect.
    Feed(Input),
    /// The rendered prompts of a turn, by definition digest, or why there is none.
    Rendered {
        turn: TurnId,
        prefixes: Result<HashMap<Digest, Prefix>, Arc<str>>,
    },
    /// Pending events have waited long enough.
    Flush,
    /// The tree is about to stop: write all decisions.
    Drain(DrainGuard),
    /// An append has ended.
    Committed(Result<u64, unisono_store::Error>),
    /// Append again what the store has not answered.
    RetryAppend,
    /// Inspect the state. The reply waits until all of it is on disk.
    Inspect(Inspection, Ack),
    /// Inspect the current state, for a run of this session.
    Peek(Inspection, Ack),
    /// Report the end of a turn.
    Wait {
        turn: TurnId,
        reply: oneshot::Sender<Result<EndedTurn, Error>>,
    },
    /// Leave memory if there was no request for a while and there is no work.
    CheckIdle,
    /// Check whether the disk has free space again.
    RetryLoad,
    /// Other programs did not take the session over: carry out what was held back.
    LeaseRenewed,
    /// Leave memory if there is no work.
    Leave,
    /// The session was deleted: leave memory.
    Forget,
}

impl Msg {
    fn is_request(&self) -> bool {
        !matches!(
            self,
            Msg::CheckIdle | Msg::LeaseRenewed | Msg::Leave | Msg::Forget
        )
    }
}

/// Held until all decisions are on disk, or cannot be written.
pub(crate) type DrainGuard = mpsc::Sender<Infallible>;

/// The reply to a request.
pub(crate) type Ack = oneshot::Sender<Result<(), Error>>;

pub(crate) type Inspection = Box<dyn FnOnce(&SessionState) + Send>;

pub(crate) struct Args {
    pub(crate) id: SessionId,
    pub(crate) env: Arc<Env>,
    pub(crate) tokenizer: tokenizer::Handle,
    pub(crate) compactor: compactor::Handle,
    /// None if the daemon has no budget.
    pub(crate) budget_broker: Option<budget_broker::Handle>,
    pub(crate) supervisor: ActorRef<supervision::Msg>,
    /// The channel to its followers.
    pub(crate) feed: Arc<Feed>,
    pub(crate) residence: Arc<Residence>,
    /// Its state, if it was taken over.
    pub(crate) folded: Option<Box<Folded>>,
}

pub(crate) struct Session;

/// Loading, live, read-only, or broken.
pub(crate) enum Phase {
    Loading,
    Live(Box<Live>),
    ReadOnly(Box<ReadOnlySession>),
    Broken(Error),
}

pub(crate) struct State {
    args: Args,
    phase: Phase,
    /// When it was last tried to load the session.
    tried_at: Option<Instant>,
    /// Timers of the next idle check. They end with the actor: each keeps its mailbox in memory.
    idle_checks: JoinSet<()>,
    /// The timer of the next try to load the session, in the same way.
    retries: JoinSet<()>,
}

pub(crate) struct Live {
    machine: Machine,
    outbox: Outbox,
    /// Effects that wait until it is known that no other program took the session over.
    held_back: Vec<Effect>,
    epoch: u64,
    /// Sequence number of the last decided event.
    decided: u64,
    /// Decided events that the store does not have yet.
    pending: Vec<Event>,
    /// Whether pending events wait for a result.
    held: bool,
    /// Dropped when nothing is pending.
    drained: Option<DrainGuard>,
    /// Events that the store is writing.
    in_flight: Arc<Vec<Event>>,
    acks: Vec<(u64, Ack)>,
    /// The same for steps of runs.
    step_acks: Vec<(u64, Ack)>,
    /// Why the store does not answer an append, which is tried again.
    unanswered: Option<Error>,
    waits: HashMap<TurnId, Vec<oneshot::Sender<Result<EndedTurn, Error>>>>,
    rounds: rounds::Rounds,
    budget_queue: budget_queue::BudgetQueue,
    concurrency_limits: ConcurrencyLimits,
    prefixes: HashMap<(TurnId, Digest), Prefix>,
    /// Cancels the run if it is no longer wanted, or the session dies.
    runs: HashMap<RunId, effects::RunGuard>,
    /// Cancels a tool call in the same way.
    calls: HashMap<CallPlace, calling::CallGuard>,
    /// Held while hooks of ended turns are pending.
    end_hooks: Option<EndHooksGuard>,
    /// Cancels a question to a hook in the same way.
    hooks: HashMap<HookPlace, DropGuard>,
    /// Cancels the compaction step of a turn in the same way.
    compactions: HashMap<TurnId, DropGuard>,
    /// Timers for the next look at the state. Empty when no turn is open.
    wakes: JoinSet<()>,
    /// The start of each turn's compaction, whose steps share one deadline.
    compacting: HashMap<TurnId, compactor::CompactionStart>,
    active_at: Timestamp,
    /// The messages that the search index has.
    indexed: indexed::Indexed,
    weight: weight::Weight,
}

impl State {
    /// Claims the session and folds its journal.
    async fn on_load(&mut self, myself: &ActorRef<Msg>) {
        let id = self.args.id;
        let was_shown = matches!(self.phase, Phase::ReadOnly(_));
        let folded = self.args.folded.take();
        let loaded = commit::load(&self.args.env.journal, id, &self.phase, folded).await;
        self.tried_at = Some(Instant::now());
        match loaded {
            Ok(Loaded::Unchanged) => self.schedule_retry(myself),
            Ok(Loaded::ReadOnly(shown)) => {
                tracing::warn!(session = %id, why = %shown.why, "a session can only be looked at");
                self.args.feed.set_durable(shown.state().events());
                self.phase = Phase::ReadOnly(shown);
                self.schedule_retry(myself);
                self.schedule_idle_check(myself);
            }
            Ok(Loaded::Live(live, reaction)) => {
                self.args.feed.clear_replies();
                self.args.feed.set_durable(live.decided);
                self.phase = Phase::Live(live);
                // The unused grant of an earlier incarnation.
                self.on_recall();
                self.react(myself, reaction);
                if !was_shown {
                    self.schedule_idle_check(myself);
                }
                self.weigh(myself);
            }
            Err(error) if error.is_owned_elsewhere() => {
                tracing::debug!(session = %id, %error, "a session is another program's");
                self.lose(error);
            }
            Err(error) => {
                self.log_failure(&error);
                self.phase = Phase::Broken(error);
                self.schedule_retry(myself);
            }
        }
    }

    /// Handles an input of a client; the reply waits for the disk.
    fn on_request(&mut self, myself: &ActorRef<Msg>, input: Input, reply: Ack) {
        let is_step = matches!(input, Input::RunStepped { .. });
        if let Some(error) = self.refusal(&input) {
            return drop(reply.send(Err(error)));
        }
        match self.decide(input) {
            Ok(reaction) => {
                self.react(myself, reaction);
                if let Phase::Live(live) = &mut self.phase {
                    let acks = match is_step {
                        true => &mut live.step_acks,
                        false => &mut live.acks,
                    };
                    acks.push((live.decided, reply));
                    live.acknowledge();
                }
            }
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Handles the result of an effect. A refusal means that it came too late.
    fn on_feed(&mut self, myself: &ActorRef<Msg>, mut input: Input) {
        // A run whose pool was stopped before the session has not failed: it continues at the next
        // start, like everything that is open.
        if self.args.env.is_stopping() {
            return;
        }
        if let Phase::Live(live) = &mut self.phase {
            effects::drop_ended(live, &input);
            compacting::forget_ahead(live, &input);
            calling::drop_excess_files(&self.args, live, &mut input);
        }
        self.keep_text(&mut input);
        match self.decide(input) {
            Ok(reaction) => self.react(myself, reaction),
            Err(error) => tracing::debug!(session = %self.args.id, %error, "late result"),
        }
    }

    /// Adds what was said of an incomplete reply to the failure of its attempt. At the end of an attempt
    /// its text leaves memory.
    fn keep_text(&self, input: &mut Input) {
        let Input::RunEnded { run, end, .. } = input else {
            return;
        };
        if let AttemptEnd::Failed { text, .. } = end {
            *text = self.args.feed.incomplete_text(*run);
        }
        self.args.feed.end_attempt(*run);
    }

    fn on_rendered(
        &mut self,
        myself: &ActorRef<Msg>,
        turn: TurnId,
        prefixes: Result<HashMap<Digest, Prefix>, Arc<str>>,
    ) {
        let digests = prefixes.as_ref().map(|prefixes| {
            let each = prefixes.iter();
            each.map(|(agent, prefix)| (*agent, prefix.digest()))
                .collect()
        });
        let digests = digests.map_err(Arc::clone);
        // Of a turn that has ended meanwhile nobody needs them.
        if let (Phase::Live(live), Ok(prefixes)) = (&mut self.phase, prefixes)
            && live.machine.state().turn(turn).is_some()
        {
            let keyed = prefixes
                .into_iter()
                .map(|(agent, prefix)| ((turn, agent), prefix));
            live.prefixes.extend(keyed);
        }
        self.on_feed(
            myself,
            Input::Rendered {
                turn,
                prefixes: digests,
            },
        );
    }

    fn decide(&mut self, input: Input) -> Result<Reaction, Error> {
        match &mut self.phase {
            Phase::Live(live) => {
                live.active_at = clock::now();
                if matches!(input, Input::Tick) {
                    // All times that are still due are requested again.
                    live.wakes.abort_all();
                }
                Ok(live.machine.handle(input, live.active_at)?)
            }
            Phase::ReadOnly(shown) => Err(shown.why.clone()),
            Phase::Broken(error) => Err(error.clone()),
            Phase::Loading => Err(Error::Unavailable("session")),
        }
    }

    /// Starts writing decided events, and carries out the effects that may be carried out.
    fn react(&mut self, myself: &ActorRef<Msg>, reaction: Reaction) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        live.decided += reaction.events.len() as u64;
        let has_pending = live.machine.state().has_pending_end_hooks();
        if has_pending != live.end_hooks.is_some() {
            live.end_hooks = has_pending.then(|| self.args.env.hooks.track_end_hooks());
        }
        live.rounds
            .on_decided(live.machine.state(), &reaction.events, live.decided);
        let freed = budget_queue::frees(&reaction.events);
        let first = live.pending.is_empty();
        let waits = reaction.starts_computation() || reaction.can_be_batched(live.machine.state());
        live.held = waits && (live.held || first) && !self.args.env.is_stopping();
        match live.pending.is_empty() {
            // An import has many events: they are moved, not copied.
            true => live.pending = reaction.events,
            false => live.pending.extend(reaction.events),
        }
        live.indexed
            .decided(live.decided, live.machine.state().tree());
        if live.held && first && !live.pending.is_empty() {
            flush_later(myself);
        }
        let free = live.outbox.put(live.decided, reaction.effects);
        self.start_append(myself);
        self.carry_out(myself, free);
        if freed {
            self.grant_waiting(myself);
        }
        self.begin_later_round(myself);
    }

    /// Carries out effects. A stopping tree begins nothing; its next start does. While another program
    /// may take the session over, they are held back.
    fn carry_out(&mut self, myself: &ActorRef<Msg>, effects: Vec<Effect>) {
        let may_be_taken_over = self.may_be_taken_over();
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        live.held_back.extend(effects);
        if self.args.env.is_stopping() || may_be_taken_over {
            return;
        }
        for effect in std::mem::take(&mut live.held_back) {
            effects::carry_out(&self.args, live, myself, effect);
        }
    }
}

fn flush_later(session: &ActorRef<Msg>) {
    let session = session.clone();
    tokio::spawn(async move {
        tokio::time::sleep(BATCH_DELAY).await;
        // A session that died meanwhile has nothing pending.
        let _ = session.send_message(Msg::Flush);
    });
}

impl Actor for Session {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, myself: ActorRef<Msg>, args: Args) -> ActorResult<State> {
        myself
            .send_message(Msg::Load)
            .map_err(|_| "the session's mailbox is closed")?;
        Ok(State {
            args,
            phase: Phase::Loading,
            tried_at: None,
            idle_checks: JoinSet::new(),
            retries: JoinSet::new(),
        })
    }

    async fn handle(&self, myself: ActorRef<Msg>, message: Msg, state: &mut State) -> ActorResult {
        if message.is_request() {
            state.args.residence.mark_used();
        }
        match message {
            Msg::Load => state.on_load(&myself).await,
            Msg::Request { input, reply } => {
                state.retry_for_request(&myself).await;
                state.on_request(&myself, input, reply);
            }
            Msg::Round {
                input,
                round,
                reply,
            } => state.on_round(&myself, input, round, reply),
            Msg::Reserve(asking) => state.on_reserve(&myself, asking),
            Msg::GrantAnswered(number, raised) => state.on_grant_answered(&myself, number, raised),
            Msg::Recall => state.on_recall(),
            Msg::Feed(input) => state.on_feed(&myself, input),
            Msg::Rendered { turn, prefixes } => state.on_rendered(&myself, turn, prefixes),
            Msg::Flush => state.on_flush(&myself),
            Msg::Drain(busy) => state.on_drain(&myself, busy),
            Msg::Committed(result) => state.on_committed(&myself, result)?,
            Msg::RetryAppend => state.on_retry_append(&myself),
            Msg::Inspect(look, reply) => state.on_inspect(look, reply),
            Msg::Peek(look, reply) => state.on_peek(look, reply),
            Msg::Wait { turn, reply } => state.on_wait(turn, reply),
            Msg::CheckIdle => state.on_check_idle(&myself),
            Msg::LeaseRenewed => state.carry_out(&myself, Vec::new()),
            Msg::RetryLoad => state.retry_load(&myself).await,
            Msg::Leave => state.on_leave(&myself),
            Msg::Forget => state.yield_permits(&myself),
        }
        Ok(())
    }
}
