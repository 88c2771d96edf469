//! The session actor: carries out what its machine decides.
//!
//! Owns the machine, the journal's tail that is not on disk yet, and the prompts of its open
//! turns. Clients send to it through their [`Handle`], admitted by permits; its own effects send
//! their results back. One append is in flight at a time: what is decided meanwhile goes with the
//! next one, and what is decided while a count or a rendering is under way waits for that, for a
//! few milliseconds; so does the end of a run for those of its siblings. An effect with
//! consequences outside waits in the outbox until its intent is on disk.
//! When the actor dies its runs are cancelled, and its successor asks for them again.

mod budget_queue;
mod commit;
mod compacting;
mod effects;
mod elsewhere;
mod events;
mod feed;
mod handle;
mod idle;
mod indexed;
mod owned;
mod port;
pub(crate) mod render;
mod rounds;
mod settle;
mod shown;
mod weight;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::DropGuard;
use unisono_context::{Digest, RunId, SessionId, Timestamp, TurnId};
use unisono_model::prompt::Prefix;
use unisono_session::budget::Amount;
use unisono_session::event::HookPlace;
use unisono_session::run::calls::CallPlace;
use unisono_session::state::EndedTurn;
use unisono_session::{Effect, Event, Input, Machine, Outbox, Reaction, State as SessionState};

use crate::budget_broker::{self, Refused};
use crate::clock;
use crate::compactor;
use crate::concurrency::ConcurrencyLimits;
use crate::hook::Telling;
use crate::residence::Residence;
use crate::runtime::{Env, Error};
use crate::supervisor;
use crate::tokenizer;

use commit::Loaded;
use shown::Shown;

pub use elsewhere::Reach;
pub use events::Events;
pub use feed::{Said, SharedEvent};
pub use handle::{Handle, Progress};
pub use settle::settle;

pub(crate) use elsewhere::{Elsewhere, Place};
pub(crate) use feed::{Feed, Following};
pub(crate) use handle::Entry;

/// How long what was decided waits for a count or a rendering, or the end of a run for those of the
/// others that are waited for with it, before it goes to the disk alone. Counts and renderings are
/// over sooner, but for a conversation that was imported just now.
const HOLD: Duration = Duration::from_millis(5);

/// What a session is sent.
pub(crate) enum Msg {
    /// Read the journal. Always the first.
    Load,
    /// Take an input; the reply is given once all that follows from it is on disk.
    Request { input: Input, reply: Ack },
    /// Take what begins a round of a run; the reply is given once all of it is done with.
    Round {
        input: Input,
        round: rounds::Round,
        reply: rounds::Reply,
    },
    /// Reserved what a model call may take; the reply is given once that is on disk.
    Reserve(budget_queue::Asking),
    /// The daemon has answered a request: it has lent more of its budget, or has not.
    Raised(u64, Result<Amount, Refused>),
    /// Give back what was lent and is not used.
    Recall,
    /// Take what came of an effect.
    Feed(Input),
    /// The shared prompts of a turn, by definition digest, or why there is none.
    Rendered {
        turn: TurnId,
        prefixes: Result<HashMap<Digest, Prefix>, Arc<str>>,
    },
    /// What is pending has waited long enough.
    Flush,
    /// The tree is about to stop: what is decided goes to the disk.
    Drain(Busy),
    /// An append has ended.
    Committed(Result<u64, unisono_store::Error>),
    /// Look at the state. The reply waits until all that was seen is on disk.
    Inspect(Look, Ack),
    /// Look at the state as it is, for a run of this session.
    Peek(Look, Ack),
    /// Tell when a turn has ended.
    Wait {
        turn: TurnId,
        reply: oneshot::Sender<Result<EndedTurn, Error>>,
    },
    /// Leave memory if nobody was here for a while and there is nothing to do.
    CheckIdle,
    /// See whether the disk has room again.
    TryAgain,
    /// Leave memory if there is nothing to do.
    Leave,
    /// It was deleted: leave memory.
    Forget,
}

impl Msg {
    /// Whether somebody wants something of the session.
    fn is_asked(&self) -> bool {
        !matches!(self, Msg::CheckIdle | Msg::Leave | Msg::Forget)
    }
}

/// Held until what was decided is on disk, or cannot come there.
pub(crate) type Busy = mpsc::Sender<Infallible>;

/// The reply to a request.
pub(crate) type Ack = oneshot::Sender<Result<(), Error>>;

/// A look at the state.
pub(crate) type Look = Box<dyn FnOnce(&SessionState) + Send>;

/// What a session is made of.
pub(crate) struct Args {
    pub(crate) id: SessionId,
    pub(crate) env: Arc<Env>,
    pub(crate) tokenizer: tokenizer::Handle,
    pub(crate) compactor: compactor::Handle,
    /// Where the daemon has a budget.
    pub(crate) budget_broker: Option<budget_broker::Handle>,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
    /// What is told to those who follow it.
    pub(crate) feed: Arc<Feed>,
    pub(crate) residence: Arc<Residence>,
}

/// The actor.
pub(crate) struct Session;

/// Loading, live, to be looked at only, or not to be had.
pub(crate) enum Phase {
    Loading,
    Live(Box<Live>),
    Shown(Box<Shown>),
    Broken(Error),
}

pub(crate) struct State {
    args: Args,
    phase: Phase,
}

/// A session in memory.
pub(crate) struct Live {
    machine: Machine,
    outbox: Outbox,
    epoch: u64,
    /// Sequence number of the last decided event.
    decided: u64,
    /// Decided, not yet handed to the store.
    pending: Vec<Event>,
    /// What is pending waits for what is being worked out.
    held: bool,
    /// Somebody waits until nothing is pending.
    drained: Option<Busy>,
    /// Handed to the store.
    in_flight: Arc<Vec<Event>>,
    acks: Vec<(u64, Ack)>,
    waits: HashMap<TurnId, Vec<oneshot::Sender<Result<EndedTurn, Error>>>>,
    rounds: rounds::Rounds,
    budget_queue: budget_queue::BudgetQueue,
    concurrency_limits: ConcurrencyLimits,
    prefixes: HashMap<(TurnId, Digest), Prefix>,
    /// Cancels what it guards when the run is no longer wanted, or the session dies.
    runs: HashMap<RunId, DropGuard>,
    /// Cancels a call of a tool in the same way.
    calls: HashMap<CallPlace, DropGuard>,
    /// There while hooks are to be told of turns that have ended.
    telling: Option<Telling>,
    /// Stops asking a hook in the same way.
    hooks: HashMap<HookPlace, DropGuard>,
    /// Cancels the compaction step of a turn in the same way.
    compactions: HashMap<TurnId, DropGuard>,
    /// Times at which it is to look again. There are none once no turn is open.
    wakes: JoinSet<()>,
    /// When the compaction of a turn began, which has one deadline for all its steps.
    compacting: HashMap<TurnId, compactor::Began>,
    active_at: Timestamp,
    /// What the search index is told of.
    indexed: indexed::Indexed,
    weight: weight::Weight,
}

impl State {
    /// Claims the session and folds its journal.
    async fn on_load(&mut self, myself: &ActorRef<Msg>) {
        let id = self.args.id;
        let was_shown = matches!(self.phase, Phase::Shown(_));
        match commit::load(&self.args.env.journal, id, &self.phase).await {
            Ok(Loaded::Still) => self.schedule_try(myself),
            Ok(Loaded::Shown(shown)) => {
                tracing::warn!(session = %id, why = %shown.why, "a session can only be looked at");
                self.args.feed.is_durable(shown.state().events());
                self.phase = Phase::Shown(shown);
                self.schedule_try(myself);
                self.schedule_idle_check(myself);
            }
            Ok(Loaded::Live(live, reaction)) => {
                self.args.feed.is_durable(live.decided);
                self.phase = Phase::Live(live);
                // What an earlier incarnation held and did not use.
                self.on_recall();
                self.react(myself, reaction);
                if !was_shown {
                    self.schedule_idle_check(myself);
                }
                self.weigh();
            }
            Err(error) if error.is_owned_elsewhere() => {
                tracing::debug!(session = %id, %error, "a session is another program's");
                self.lose(error);
            }
            Err(error) => {
                tracing::error!(session = %id, %error, "session cannot be opened");
                self.phase = Phase::Broken(error);
                self.schedule_try(myself);
            }
        }
    }

    /// Takes an input of a client; the reply waits for the disk.
    fn on_request(&mut self, myself: &ActorRef<Msg>, input: Input, reply: Ack) {
        match self.decide(input) {
            Ok(reaction) => {
                self.react(myself, reaction);
                if let Phase::Live(live) = &mut self.phase {
                    live.acks.push((live.decided, reply));
                    live.acknowledge();
                }
            }
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Takes what came of an effect. A refusal means that it came too late to matter.
    fn on_feed(&mut self, myself: &ActorRef<Msg>, input: Input) {
        // A run whose pool was stopped before the session has not failed: it goes on at the next
        // start, as everything does that is open.
        if self.args.env.is_stopping() {
            return;
        }
        if let Input::RunEnded { run, .. } = &input
            && let Phase::Live(live) = &mut self.phase
            && let Some(guard) = live.runs.remove(run)
        {
            guard.disarm();
        }
        if let Input::ToolEnded { call, .. } = &input
            && let Phase::Live(live) = &mut self.phase
            && let Some(guard) = live.calls.remove(call)
        {
            guard.disarm();
        }
        if let Input::HookAnswered { place, .. } = &input
            && let Phase::Live(live) = &mut self.phase
            && let Some(guard) = live.hooks.remove(place)
        {
            guard.disarm();
        }
        match self.decide(input) {
            Ok(reaction) => self.react(myself, reaction),
            Err(error) => tracing::debug!(session = %self.args.id, %error, "late result"),
        }
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
        if let (Phase::Live(live), Ok(prefixes)) = (&mut self.phase, prefixes) {
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

    fn on_inspect(&mut self, look: Look, reply: Ack) {
        match &mut self.phase {
            Phase::Live(live) => {
                look(live.machine.state());
                live.acks.push((live.decided, reply));
                live.acknowledge();
            }
            _ => self.on_peek(look, reply),
        }
    }

    fn on_peek(&self, look: Look, reply: Ack) {
        let state = match &self.phase {
            Phase::Live(live) => Ok(live.machine.state()),
            Phase::Shown(shown) => Ok(shown.state()),
            Phase::Broken(error) => Err(error.clone()),
            Phase::Loading => Err(Error::Unavailable("session")),
        };
        // Whoever asked may have given up.
        let _ = reply.send(state.map(look));
    }

    fn on_wait(&mut self, turn: TurnId, reply: oneshot::Sender<Result<EndedTurn, Error>>) {
        match &mut self.phase {
            Phase::Live(live) => live.wait_for(turn, reply),
            Phase::Shown(shown) => {
                let ended = shown.state().ended(turn).cloned();
                drop(reply.send(ended.ok_or_else(|| shown.why.clone())));
            }
            Phase::Broken(error) => drop(reply.send(Err(error.clone()))),
            Phase::Loading => drop(reply.send(Err(Error::Unavailable("session")))),
        }
    }

    fn on_check_idle(&mut self, myself: &ActorRef<Msg>) {
        if self.is_idle(self.args.env.options.passivate_after) {
            self.yield_permits(myself)
        } else {
            self.schedule_idle_check(myself)
        }
    }

    fn on_leave(&mut self, myself: &ActorRef<Msg>) {
        if self.is_idle(Duration::ZERO) {
            self.yield_permits(myself);
        }
    }

    fn decide(&mut self, input: Input) -> Result<Reaction, Error> {
        match &mut self.phase {
            Phase::Live(live) => {
                live.active_at = clock::now();
                Ok(live.machine.handle(input, live.active_at)?)
            }
            Phase::Shown(shown) => Err(shown.why.clone()),
            Phase::Broken(error) => Err(error.clone()),
            Phase::Loading => Err(Error::Unavailable("session")),
        }
    }

    /// Puts decided events on their way to the disk, and carries out what may be carried out.
    fn react(&mut self, myself: &ActorRef<Msg>, reaction: Reaction) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        live.decided += reaction.events.len() as u64;
        let tells = live.machine.state().tells_hooks();
        if tells != live.telling.is_some() {
            live.telling = tells.then(|| self.args.env.hooks.telling());
        }
        live.rounds
            .decided(live.machine.state(), &reaction.events, live.decided);
        let freed = budget_queue::frees(&reaction.events);
        let first = live.pending.is_empty();
        let waits = reaction.computes() || reaction.gathers(live.machine.state());
        live.held = waits && (live.held || first) && !self.args.env.is_stopping();
        match live.pending.is_empty() {
            // Those of an import are many: they are not copied.
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
            self.spend(myself);
        }
    }

    /// Carries out effects; a tree that is stopping begins nothing, its next start does.
    fn carry_out(&mut self, myself: &ActorRef<Msg>, effects: Vec<Effect>) {
        if self.args.env.is_stopping() || self.may_be_elsewhere() {
            return;
        }
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        for effect in effects {
            effects::carry_out(&self.args, live, myself, effect);
        }
    }
}

fn flush_later(session: &ActorRef<Msg>) {
    let session = session.clone();
    tokio::spawn(async move {
        tokio::time::sleep(HOLD).await;
        // One that died meanwhile has nothing pending.
        let _ = session.send_message(Msg::Flush);
    });
}

impl Actor for Session {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        args: Args,
    ) -> Result<State, ActorProcessingErr> {
        myself
            .send_message(Msg::Load)
            .map_err(|_| "the session's mailbox is closed")?;
        Ok(State {
            args,
            phase: Phase::Loading,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if message.is_asked() {
            state.args.residence.used();
        }
        match message {
            Msg::Load => state.on_load(&myself).await,
            Msg::Request { input, reply } => {
                state.try_again(&myself).await;
                state.on_request(&myself, input, reply);
            }
            Msg::Round {
                input,
                round,
                reply,
            } => state.on_round(&myself, input, round, reply),
            Msg::Reserve(asking) => state.on_reserve(&myself, asking),
            Msg::Raised(number, raised) => state.on_raised(&myself, number, raised),
            Msg::Recall => state.on_recall(),
            Msg::Feed(input) => state.on_feed(&myself, input),
            Msg::Rendered { turn, prefixes } => state.on_rendered(&myself, turn, prefixes),
            Msg::Flush => state.on_flush(&myself),
            Msg::Drain(busy) => state.on_drain(&myself, busy),
            Msg::Committed(result) => state.on_committed(&myself, result)?,
            Msg::Inspect(look, reply) => state.on_inspect(look, reply),
            Msg::Peek(look, reply) => state.on_peek(look, reply),
            Msg::Wait { turn, reply } => state.on_wait(turn, reply),
            Msg::CheckIdle => state.on_check_idle(&myself),
            Msg::TryAgain => state.try_again(&myself).await,
            Msg::Leave => state.on_leave(&myself),
            Msg::Forget => state.yield_permits(&myself),
        }
        Ok(())
    }
}
