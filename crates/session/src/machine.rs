//! The session's machine: its state, and which effects were already asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::{Body, Checkpoint, KeyFact, Writer};
use unisono_context::message::NewMessage;
use unisono_context::policy::Policy;
use unisono_context::snapshot::{RebuildError, ToolSpec};
use unisono_context::tokens::{Count, Counts, Ppm};
use unisono_context::{
    Digest, Encoding, MessageId, RunId, SessionId, Snapshot, Timestamp, TurnId, tree,
};

use crate::agent::Team;
use crate::due::{self, Effect, Key};
use crate::event::{Event, Work};
use crate::run::{Cause, Step, Usage};
use crate::state::State;
use crate::turn::Phase;
use crate::{fold, handle};

/// What reaches a session.
#[derive(Clone, Debug)]
pub enum Input {
    /// Create the session from a conversation. Only as the first input.
    Import(Import),
    /// Answer an input, or compact on request. The same turn again is not an error.
    Accept(NewTurn),
    /// Start a branch at a message, or set it there.
    Fork {
        /// Its name.
        branch: Arc<str>,
        /// Its head.
        at: MessageId,
    },
    /// [`Effect::Count`] was carried out.
    Counted(Counted),
    /// [`Effect::Compact`] was carried out.
    StepDone {
        /// The turn.
        turn: TurnId,
        /// The step, as in the job.
        step: u32,
        /// What came of it.
        result: StepResult,
    },
    /// [`Effect::Compact`] failed.
    StepFailed {
        /// The turn.
        turn: TurnId,
        /// The step, as in the job.
        step: u32,
        /// Why.
        reason: Arc<str>,
    },
    /// [`Effect::Render`] was carried out: prefix digests by definition digest.
    Rendered {
        /// The turn.
        turn: TurnId,
        /// Digest of the shared prompt bytes, per definition.
        prefixes: BTreeMap<Digest, Digest>,
    },
    /// A run finished a step.
    RunStepped {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// The step.
        step: Arc<Step>,
    },
    /// An attempt of a run ended.
    RunEnded {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// How.
        end: AttemptEnd,
    },
    /// Stop a turn and all its runs.
    Cancel {
        /// The turn.
        turn: TurnId,
    },
    /// Time passed.
    Tick,
}

/// A conversation that becomes a session.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Its id.
    pub session: Option<SessionId>,
    /// A title for people.
    pub title: Arc<str>,
    /// The system text.
    pub system: Arc<str>,
    /// Labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Messages with their parents, parents first.
    pub messages: Vec<(Option<MessageId>, NewMessage)>,
    /// Branch heads; without any, `main` ends in the last message.
    pub branches: Vec<(Arc<str>, MessageId)>,
    /// Checkpoints, oldest first.
    pub checkpoints: Vec<Arc<Checkpoint>>,
}

/// A turn to be accepted.
#[derive(Clone, Debug)]
pub struct NewTurn {
    /// Its id.
    pub id: TurnId,
    /// The branch.
    pub branch: Arc<str>,
    /// What it does.
    pub work: Work,
    /// Its agents.
    pub team: Team,
    /// When and how to compact.
    pub policy: Policy,
    /// Safety margin as a share of the window.
    pub safety: Ppm,
    /// The tools the agents are told of.
    pub tools: Vec<ToolSpec>,
}

/// Counts that were asked for.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The turn.
    pub turn: TurnId,
    /// The encoding.
    pub encoding: Encoding,
    /// System text and tools, if they were asked for.
    pub preamble: Option<(Digest, Count)>,
    /// The messages.
    pub messages: Vec<(MessageId, Count)>,
}

/// What came of a compaction step.
#[derive(Clone, Debug)]
pub enum StepResult {
    /// Messages are masked or cut.
    Altered(Vec<Alteration>),
    /// A summary was written, or a note for a dropped range.
    Written(Written),
}

/// A summary with all that is recorded of its making.
#[derive(Clone, Debug)]
pub struct Written {
    /// What stands in the context.
    pub body: Body,
    /// Facts carried verbatim.
    pub key_facts: Vec<KeyFact>,
    /// Tokens of the whole block, in each encoding of the job.
    pub counts: Counts,
    /// Who wrote it.
    pub writer: Writer,
    /// The model's name.
    pub model: Arc<str>,
    /// What it cost, in millionths of a dollar; none where the price is unknown.
    pub cost_micros: Option<u64>,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether a model should redo it.
    pub degraded: bool,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// With a result.
    Finished {
        /// The answer.
        text: Arc<str>,
        /// Set where it is not complete, saying why.
        partial: Option<Arc<str>>,
        /// What it used.
        usage: Usage,
    },
    /// Without one.
    Failed {
        /// Why.
        cause: Cause,
        /// What happened.
        reason: Arc<str>,
    },
}

/// What the machine decided: first make the events durable, then carry out the effects.
#[derive(Clone, Debug, Default)]
pub struct Reaction {
    /// To be appended to the journal, in order.
    pub events: Vec<Event>,
    /// To be carried out.
    pub effects: Vec<Effect>,
}

/// Why an input was not taken. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The session exists.
    #[error("the session already exists")]
    AlreadyCreated,
    /// The session does not exist.
    #[error("the session does not exist")]
    NotCreated,
    /// An import without a session id.
    #[error("the import names no session id")]
    NoSessionId,
    /// A message or branch does not fit.
    #[error(transparent)]
    Tree(#[from] tree::Error),
    /// The branch is not there.
    #[error("branch {0:?} does not exist")]
    UnknownBranch(Arc<str>),
    /// A turn works on the branch.
    #[error("branch {0:?} is busy: a turn works on it")]
    BranchBusy(Arc<str>),
    /// There is nothing to do.
    #[error("the task is empty")]
    EmptyTask,
    /// The turn is not open.
    #[error("turn {0} is not open")]
    UnknownTurn(TurnId),
    /// An event that was just decided does not fold: a defect of this program.
    #[error("internal: a decided event does not fold: {0}")]
    Fold(#[from] fold::Error),
}

/// A session in memory.
#[derive(Debug, Default)]
pub struct Machine {
    state: State,
    asked: BTreeSet<Key>,
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
            asked: BTreeSet::new(),
        };
        let mut broken = Vec::new();
        for turn in machine.state.turns.keys().copied().collect::<Vec<_>>() {
            match machine.rebuild_snapshot(turn) {
                Ok(()) => {}
                Err(error) => broken.push((turn, error)),
            }
        }
        let reaction = machine
            .transact(now, |tx| {
                broken
                    .iter()
                    .try_for_each(|(turn, error)| tx.fail_mismatch(*turn, error))
            })
            .map_err(|refusal| match refusal {
                Refusal::Fold(error) => error,
                _ => fold::Error::Creation,
            })?;
        Ok((machine, reaction))
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes an input and says what follows from it.
    ///
    /// # Errors
    /// The input was refused; the machine is as it was.
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Result<Reaction, Refusal> {
        if self.state.id.is_none() != matches!(input, Input::Import(_)) {
            let created = self.state.id.is_some();
            return Err(if created {
                Refusal::AlreadyCreated
            } else {
                Refusal::NotCreated
            });
        }
        match &input {
            // Otherwise the run that ended by itself would be cancelled.
            Input::RunEnded { run, attempt, .. } => {
                drop(self.asked.remove(&Key::Run(*run, *attempt)))
            }
            // A clock that went backwards may wake us early: ask again.
            Input::Tick => self.asked.retain(|key| !matches!(key, Key::Wake(_))),
            _ => {}
        }
        self.transact(now, |tx| handle::input(tx, input))
    }

    fn transact(
        &mut self,
        now: Timestamp,
        decide: impl FnOnce(&mut handle::Tx<'_>) -> Result<(), Refusal>,
    ) -> Result<Reaction, Refusal> {
        let mut tx = handle::Tx::new(&mut self.state, now);
        decide(&mut tx)?;
        handle::advance(&mut tx)?;
        let events = tx.into_events();
        Ok(Reaction {
            events,
            effects: self.ask(now),
        })
    }

    /// The effects that are due and were not asked for, and cancellations of what is no longer.
    fn ask(&mut self, now: Timestamp) -> Vec<Effect> {
        let due: BTreeSet<Key> = due::keys(&self.state, now).into_iter().collect();
        let dropped = self.asked.difference(&due).filter_map(|key| match key {
            Key::Run(run, _) => Some(Effect::CancelRun(*run)),
            _ => None,
        });
        let mut effects: Vec<Effect> = dropped.collect();
        let new = due.difference(&self.asked);
        effects.extend(new.filter_map(|key| due::effect(&self.state, *key)));
        self.asked = due;
        effects
    }

    fn rebuild_snapshot(&mut self, id: TurnId) -> Result<(), RebuildError> {
        let state = &mut self.state;
        let Some(turn) = state.turns.get_mut(&id) else {
            return Ok(());
        };
        let Phase::Frozen {
            snapshot, manifest, ..
        } = &turn.phase
        else {
            return Ok(());
        };
        let rebuilt = Snapshot::rebuild(
            manifest,
            *snapshot,
            &state.tree,
            &state.checkpoints,
            turn.preamble.clone(),
        )?;
        turn.snapshot.0 = Some(Arc::new(rebuilt));
        Ok(())
    }
}
