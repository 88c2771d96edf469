//! The session's machine: its state, and which effects were already asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::checkpoint::NotActive;
use unisono_context::message::Role;
use unisono_context::{CallId, MessageId, RunId, Timestamp, TurnId, tree};

use crate::event::{Event, Fact, Late};
use crate::handle::Reach;
use crate::pending_effects::{self, Effect, Key};
use crate::run::Step;
use crate::state::State;
use crate::{fold, handle};

pub use crate::event::ImportNotes;
pub use crate::input::{
    Append, AttemptEnd, CallEnd, Counted, DelegateCall, EPHEMERAL, Import, Input, MAX_BRANCH,
    NewCall, NewTurn, Preceding, RESERVED_LABELS, StepResult, Written,
};

/// What the machine decided: first make the events durable, then carry out the effects.
#[derive(Clone, Debug, Default)]
pub struct Reaction {
    /// To be appended to the journal, in order.
    pub events: Vec<Event>,
    /// To be carried out.
    pub effects: Vec<Effect>,
}

impl Reaction {
    /// Whether something is to be worked out, here and soon, whose result is the next input: what
    /// was decided can go to the disk together with what follows from that.
    pub fn computes(&self) -> bool {
        let computes = |effect: &Effect| matches!(effect, Effect::Count(_) | Effect::Render(_));
        self.effects.iter().any(computes)
    }

    /// Whether it is the end of runs alone that others work beside, whose ends are waited for as
    /// well: it can go to the disk together with those that follow soon. `state` is the one after
    /// it.
    pub fn gathers(&self, state: &State) -> bool {
        let gathers = |event: &Event| match &event.fact {
            Fact::RunEnded { run, .. } => state.is_waited_for_with_others(*run),
            _ => false,
        };
        self.effects.is_empty() && !self.events.is_empty() && self.events.iter().all(gathers)
    }
}

/// Why an input was not taken. Nothing was changed, but for [`Refusal::Fold`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The session exists, and not as this import would make it.
    #[error("the session already exists")]
    AlreadyCreated,
    /// The session does not exist.
    #[error("the session does not exist")]
    NotCreated,
    /// An import without a session id.
    #[error("the import names no session id")]
    NoSessionId,
    /// A label whose name is the daemon's own.
    #[error(
        "the label {0:?} is reserved: names that begin with \"{RESERVED_LABELS}\" are given by the \
         program alone; give it another name, or leave it out"
    )]
    ReservedLabel(Arc<str>),
    /// The name cannot be a branch's.
    #[error(
        "{0:?} cannot be a branch's name: that has 1 to {MAX_BRANCH} characters, none of which ends \
         a line or controls a terminal, and not only blanks"
    )]
    BranchName(Arc<str>),
    /// A message or branch does not fit.
    #[error(transparent)]
    Tree(#[from] tree::Error),
    /// The branch is not there.
    #[error("branch {0:?} does not exist")]
    UnknownBranch(Arc<str>),
    /// A turn works on the branch.
    #[error("branch {0:?} is busy: a turn works on it")]
    BranchBusy(Arc<str>),
    /// Messages that were to follow the newest one of a branch do not follow it any more.
    #[error("branch {0:?} has other messages than before: read it again, and ask again")]
    BranchMoved(Arc<str>),
    /// The message is one of another branch.
    #[error("message {message} is not on branch {branch:?}")]
    NotOnBranch {
        /// The message.
        message: MessageId,
        /// The branch.
        branch: Arc<str>,
    },
    /// The checkpoint does not stand in the context of the branch.
    #[error(transparent)]
    NotActive(#[from] NotActive),
    /// There is no topic to end.
    #[error(
        "branch {branch:?} has no topic to seal: {}",
        match messages {
            0 => "its last one is sealed, and nothing was said since",
            _ => "the current one has one message, and a message alone is never sealed",
        }
    )]
    NothingToSeal {
        /// The branch.
        branch: Arc<str>,
        /// Messages of the current topic.
        messages: u32,
    },
    /// There is nothing to do.
    #[error("the task is empty")]
    EmptyTask,
    /// There is nothing to put in place of a summary.
    #[error("the summary is empty")]
    EmptySummary,
    /// Something else was asked for under the key.
    #[error(
        "the key {0:?} was given with another request before: a key stands for one request only"
    )]
    KeyReused(Arc<str>),
    /// There is nothing in the message.
    #[error("the message is empty: give it text, an attachment, or the calls and results of tools")]
    EmptyMessage,
    /// A role that says something else than its messages can.
    #[error(
        "a message of role {role} cannot have such a part: a user's has text and attachments, an \
         assistant's text, attachments and calls of tools, a tool's results, a system's text"
    )]
    WrongParts {
        /// The role.
        role: Role,
    },
    /// What a turn answers is not something a person can have said.
    #[error(
        "message {0} is not an input: it must be a user's, of text and attachments only, or the \
         results of tools"
    )]
    NotAnInput(MessageId),
    /// What a tool is said to have come back with answers no call.
    #[error(
        "no call {call_id:?} waits for a result at the end of branch {branch:?}: give the results of \
         the calls that the newest message made, each once"
    )]
    NotCalled {
        /// The id of the call.
        call_id: Arc<str>,
        /// The branch.
        branch: Arc<str>,
    },
    /// The turn is not open.
    #[error("turn {0} is not open")]
    UnknownTurn(TurnId),
    /// The run is not open.
    #[error("run {0} is not open")]
    UnknownRun(RunId),
    /// No call of that name waits for a person.
    #[error("no call {0} waits for a decision")]
    UnknownCall(CallId),
    /// It was decided about the call before.
    #[error("call {0} has already been decided")]
    Decided(CallId),
    /// The decision does not answer what the call waits for.
    #[error(
        "call {call} cannot be {decision}: {}",
        if *in_doubt {
            "it is in doubt; say whether it was done, failed, or is to be repeated"
        } else {
            "it waits to be approved or denied"
        }
    )]
    WrongDecision {
        /// The call.
        call: CallId,
        /// What was decided.
        decision: &'static str,
        /// Whether it is in doubt, and not to be approved.
        in_doubt: bool,
    },
    /// An event that was just decided does not fold: a defect of this program. The machine must
    /// not be used further; recover it from its journal.
    #[error("internal: a decided event does not fold: {0}")]
    Fold(#[from] fold::Error),
}

/// A session in memory.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    state: State,
    asked: BTreeSet<Key>,
    /// Attempts that were cancelled while somebody worked on them: each still says how it ended.
    cancelled: BTreeSet<(RunId, u32)>,
}

impl Machine {
    /// A session that is to be created.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// A session as its journal left it, and what its open turns are waiting for. Snapshots of
    /// open turns are rebuilt and checked against their recorded ids; a turn whose snapshot
    /// cannot be rebuilt fails with `snapshot_mismatch`.
    ///
    /// # Errors
    /// The journal does not fold.
    pub fn recover<'e>(
        events: impl IntoIterator<Item = &'e Event>,
        now: Timestamp,
    ) -> Result<(Machine, Reaction), fold::Error> {
        let mut machine = Machine {
            state: State::from_events(events)?,
            ..Machine::default()
        };
        for turn in machine.state.turns.values_mut() {
            turn.resumed_at.0 = Some(now);
        }
        let mut broken = Vec::new();
        for turn in machine.state.turns.keys().copied().collect::<Vec<_>>() {
            if let Err(error) = machine.state.rebuild_snapshot(turn) {
                broken.push((turn, error));
            }
        }
        let mut recorder = handle::Recorder::new(&mut machine.state, now);
        for (turn, error) in &broken {
            recorder.fail_mismatch(*turn, error)?;
        }
        handle::settle_lost(&mut recorder)?;
        handle::cancel_orphans(&mut recorder)?;
        handle::doubt(&mut recorder)?;
        handle::advance(&mut recorder)?;
        let events = recorder.into_events();
        let effects = machine.ask(now);
        Ok((machine, Reaction { events, effects }))
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes an input and says what follows from it. Costs what the input changes and the number
    /// of open runs of open turns, not the length of the history.
    ///
    /// # Errors
    /// The input was refused; the machine is as it was, but for [`Refusal::Fold`].
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Result<Reaction, Refusal> {
        if self.state.id.is_none() && !matches!(input, Input::Import(_)) {
            return Err(Refusal::NotCreated);
        }
        // Time, what is cached and an answer that brought nothing change what is to be asked
        // without any event.
        let stirs = matches!(
            input,
            Input::Tick | Input::Rendered { .. } | Input::Counted(_)
        );
        // Whoever works on what is cancelled is to be told.
        let stirs = stirs || matches!(input, Input::CancelRun { .. });
        self.settle(&input);
        let late = self.late(&input);
        let mut recorder = handle::Recorder::new(&mut self.state, now);
        match late {
            Some(late) => recorder.keep_late(late)?,
            None => handle::input(&mut recorder, input)?,
        }
        if stirs || recorder.reach() != Reach::Nothing {
            handle::advance(&mut recorder)?;
        }
        let reach = if stirs { Reach::All } else { recorder.reach() };
        let events = recorder.into_events();
        let effects = match reach {
            Reach::Nothing => Vec::new(),
            Reach::Run(run) => self.ask_for(run, now),
            Reach::All => self.ask(now),
        };
        Ok(Reaction { events, effects })
    }

    /// Forgets that somebody was asked for what now is answered: an answer needs no
    /// cancellation, and one that was not enough is asked for again.
    fn settle(&mut self, input: &Input) {
        match input {
            Input::RunEnded { run, attempt, .. } => {
                self.asked.remove(&Key::Run(*run, *attempt));
            }
            Input::Counted(counted) => {
                self.asked
                    .remove(&Key::Count(counted.turn, counted.encoding));
            }
            Input::Measured { turn, .. } => {
                let answered = Key::Measure(*turn, 0)..=Key::Measure(*turn, u32::MAX);
                self.asked.retain(|key| !answered.contains(key));
            }
            Input::StepDone { turn, step, .. } | Input::StepFailed { turn, step, .. } => {
                let answered = Key::Compact(*turn, *step, 0)..=Key::Compact(*turn, *step, u32::MAX);
                self.asked.retain(|key| !answered.contains(key));
            }
            Input::HookAnswered { place, .. } => {
                self.asked.remove(&Key::Hook(*place));
            }
            Input::ToolEnded { call, .. } => {
                self.asked.remove(&Key::Call(*call));
            }
            // A clock that went backwards may wake us early.
            Input::Tick => self.asked.retain(|key| !matches!(key, Key::Wake(_))),
            _ => {}
        }
    }

    /// What comes of an attempt that was cancelled: an answer, or a reply that was on its way.
    fn late(&mut self, input: &Input) -> Option<Fact> {
        if self.cancelled.is_empty() {
            return None;
        }
        match input {
            Input::RunStepped { run, attempt, step }
                if self.cancelled.contains(&(*run, *attempt)) =>
            {
                match &**step {
                    Step::Model(reply) => Some(Fact::CameLate {
                        run: *run,
                        attempt: *attempt,
                        late: Late::Reply(reply.clone()),
                    }),
                    Step::Tools(_)
                    | Step::Named { .. }
                    | Step::Narrowed { .. }
                    | Step::Summarised { .. }
                    | Step::Spent(_) => None,
                }
            }
            Input::Spent {
                run,
                attempt,
                spent,
                ..
            } if self.cancelled.contains(&(*run, *attempt)) => Some(Fact::CameLate {
                run: *run,
                attempt: *attempt,
                late: Late::Spent(spent.clone()),
            }),
            Input::RunEnded { run, attempt, end } if self.cancelled.remove(&(*run, *attempt)) => {
                match end.clone() {
                    AttemptEnd::Finished {
                        text,
                        partial,
                        usage,
                        ..
                    } => Some(Fact::CameLate {
                        run: *run,
                        attempt: *attempt,
                        late: Late::Answer {
                            text,
                            partial,
                            usage,
                        },
                    }),
                    AttemptEnd::Failed { .. } => None,
                }
            }
            _ => None,
        }
    }

    /// The effects that are due and were not asked for, and cancellations of what is no longer.
    fn ask(&mut self, now: Timestamp) -> Vec<Effect> {
        let due = pending_effects::keys(&self.state, &self.asked, now);
        let asked: BTreeSet<Key> = due.iter().copied().collect();
        let dropped = self.asked.difference(&asked);
        let mut effects = Vec::new();
        for key in dropped {
            if let Key::Run(run, attempt) = key {
                self.cancelled.insert((*run, *attempt));
            }
            effects.extend(pending_effects::cancellation(*key));
        }
        let new = due.into_iter().filter(|key| !self.asked.contains(key));
        effects.extend(new.filter_map(|key| pending_effects::effect(&self.state, key)));
        self.asked = asked;
        effects
    }

    /// The same where only one run can be due and what it was asked for is settled.
    fn ask_for(&mut self, run: RunId, now: Timestamp) -> Vec<Effect> {
        let due = pending_effects::keys_of_run(&self.state, run, &self.asked, now);
        let calls = self.asked.range(pending_effects::calls_of(run));
        let hooks = self.asked.range(pending_effects::hooks_of(run));
        let calls = calls.chain(hooks).copied();
        let dropped: Vec<Key> = calls.filter(|key| !due.contains(key)).collect();
        for key in &dropped {
            self.asked.remove(key);
        }
        let cancelled = dropped
            .into_iter()
            .filter_map(pending_effects::cancellation);
        let mut effects: Vec<Effect> = cancelled.collect();
        for key in due {
            if self.asked.insert(key) {
                effects.extend(pending_effects::effect(&self.state, key));
            }
        }
        effects
    }
}
