//! The session's machine: its state, and the effects that it has requested.

use std::collections::BTreeSet;

use unisono_context::{RunId, Timestamp};

use crate::event::{Event, Fact, LateOutput};
use crate::handle::Affected;
use crate::pending_effects::{self, Effect, EffectKey};
use crate::run::{Run, Step};
use crate::state::State;
use crate::{fold, handle};

pub use crate::event::{ImportNotes, WrittenSummary};
pub use crate::input::{
    Append, AttemptEnd, CallEnd, Counted, DelegateCall, EPHEMERAL, Import, Input, MAX_BRANCH,
    NewCall, NewTurn, PrecedingMessages, StepResult,
};
pub use crate::refusal::Refusal;
pub use crate::state::RESERVED_LABELS;

/// The result of an input: first make the events durable, then carry out the effects.
#[derive(Clone, Debug, Default)]
pub struct Reaction {
    /// Events to append to the journal, in order.
    pub events: Vec<Event>,
    /// Effects to carry out.
    pub effects: Vec<Effect>,
}

impl Reaction {
    /// Whether a short local computation follows whose result is the next input: these events can
    /// be written together with the events that follow from it.
    pub fn starts_computation(&self) -> bool {
        let computes = |effect: &Effect| matches!(effect, Effect::Count(_) | Effect::Render(_));
        self.effects.iter().any(computes)
    }

    /// Whether the events only end runs whose siblings are still awaited: they can be written
    /// together with the ends that follow soon. `state` is the state after the events.
    pub fn can_be_batched(&self, state: &State) -> bool {
        let gathers = |event: &Event| match &event.fact {
            Fact::RunEnded { run, .. } => state.has_awaited_siblings(*run),
            _ => false,
        };
        self.effects.is_empty() && !self.events.is_empty() && self.events.iter().all(gathers)
    }
}

/// A session in memory.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    state: State,
    requested: BTreeSet<EffectKey>,
    /// Cancelled attempts with a worker: each will still report its end.
    cancelled: BTreeSet<(RunId, u32)>,
}

impl Machine {
    /// A session before its creation.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// A session recovered from its journal, and the effects that its open turns wait for.
    /// Snapshots of open turns are rebuilt and compared with their recorded ids; a turn whose
    /// snapshot cannot be rebuilt fails with `snapshot_mismatch`.
    ///
    /// # Errors
    /// The journal does not fold.
    pub fn recover<'e>(
        events: impl IntoIterator<Item = &'e Event>,
        now: Timestamp,
    ) -> Result<(Machine, Reaction), fold::Error> {
        Machine::resume(State::from_events(events)?, now)
    }

    /// As [`Machine::recover`], from the state that was folded from the journal.
    ///
    /// # Errors
    /// An event that is decided here does not fold.
    pub fn resume(state: State, now: Timestamp) -> Result<(Machine, Reaction), fold::Error> {
        let mut machine = Machine {
            state,
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
        handle::drop_interrupted(&mut recorder)?;
        handle::cancel_orphans(&mut recorder)?;
        handle::mark_in_doubt(&mut recorder)?;
        handle::advance(&mut recorder)?;
        let events = recorder.into_events();
        let effects = machine.request_effects(now);
        Ok((machine, Reaction { events, effects }))
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Handles an input and returns its consequences. The cost depends on the changes and the
    /// number of open runs of open turns, not on the length of the history.
    ///
    /// # Errors
    /// The input was refused; the machine is unchanged, except by [`Refusal::Fold`].
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Result<Reaction, Refusal> {
        if self.state.id.is_none() && !matches!(input, Input::Import(_)) {
            return Err(Refusal::NotCreated);
        }
        // Time, cached values and results without effect change the due effects without any event.
        let changes_due = matches!(
            input,
            Input::Tick | Input::Rendered { .. } | Input::Counted(_)
        );
        // The workers of a cancelled run must be notified.
        let changes_due = changes_due || matches!(input, Input::CancelRun { .. });
        let changes_due = changes_due || self.may_end_wait(&input);
        self.settle(&input);
        let late = self.late_fact(&input);
        let mut recorder = handle::Recorder::new(&mut self.state, now);
        match late {
            Some(late) => recorder.record(late)?,
            None => handle::input(&mut recorder, input)?,
        }
        if changes_due || recorder.affected() != Affected::Nothing {
            handle::advance(&mut recorder)?;
        }
        let reach = if changes_due {
            Affected::All
        } else {
            recorder.affected()
        };
        let events = recorder.into_events();
        let effects = match reach {
            Affected::Nothing => Vec::new(),
            Affected::Run(run) => self.request_run_effects(run, now),
            Affected::All => self.request_effects(now),
        };
        Ok(Reaction { events, effects })
    }

    /// Whether the input may end a wait for a person without a decision: the time limit of the turn
    /// then begins again.
    fn may_end_wait(&self, input: &Input) -> bool {
        match input {
            Input::RunEnded { run, .. } | Input::WithdrawPermissions { run, .. } => {
                let run = self.state.runs.get(run);
                run.is_some_and(Run::waits_for_person)
            }
            _ => false,
        }
    }

    /// Marks the answered requests as settled: they need no cancellation, and an insufficient
    /// answer leads to a new request.
    fn settle(&mut self, input: &Input) {
        match input {
            Input::RunEnded { run, attempt, .. } => {
                self.requested.remove(&EffectKey::Run(*run, *attempt));
            }
            Input::Counted(counted) => {
                self.requested
                    .remove(&EffectKey::Count(counted.turn, counted.encoding));
            }
            Input::Measured { turn, .. } => {
                let answered = EffectKey::Measure(*turn, 0)..=EffectKey::Measure(*turn, u32::MAX);
                self.requested.retain(|key| !answered.contains(key));
            }
            Input::StepDone { turn, step, .. } | Input::StepFailed { turn, step, .. } => {
                let answered = EffectKey::Compact(*turn, *step, 0)
                    ..=EffectKey::Compact(*turn, *step, u32::MAX);
                self.requested.retain(|key| !answered.contains(key));
            }
            Input::HookAnswered { place, .. } => {
                self.requested.remove(&EffectKey::Hook(*place));
            }
            Input::ToolEnded { call, .. } | Input::ToolTaskLost { call } => {
                self.requested.remove(&EffectKey::Call(*call));
            }
            // A clock that was set back may wake the session early.
            Input::Tick => self
                .requested
                .retain(|key| !matches!(key, EffectKey::Wake(_))),
            _ => {}
        }
    }

    /// The late output of a cancelled attempt: an answer, a reply or the result of a named step in
    /// transit, or the beginning of a reply.
    fn late_fact(&mut self, input: &Input) -> Option<Fact> {
        if self.cancelled.is_empty() {
            return None;
        }
        let (run, attempt, late) = match input {
            Input::RunStepped { run, attempt, step }
                if self.cancelled.contains(&(*run, *attempt)) =>
            {
                let late = match &**step {
                    Step::Model(reply) => LateOutput::Reply(reply.clone()),
                    Step::Named { name, result } => LateOutput::Named {
                        name: name.clone(),
                        result: result.clone(),
                    },
                    Step::Tools(_)
                    | Step::Narrowed { .. }
                    | Step::Summarised { .. }
                    | Step::Spent(_) => return None,
                };
                (*run, *attempt, late)
            }
            Input::Spent {
                run,
                attempt,
                spent,
                ..
            } if self.cancelled.contains(&(*run, *attempt)) => {
                (*run, *attempt, LateOutput::Spent(spent.clone()))
            }
            Input::RunEnded { run, attempt, end } if self.cancelled.remove(&(*run, *attempt)) => {
                let late = match end.clone() {
                    AttemptEnd::Finished {
                        text,
                        partial,
                        usage,
                        ..
                    } => LateOutput::Answer {
                        text,
                        partial,
                        usage,
                    },
                    AttemptEnd::Failed { text, .. } => LateOutput::Incomplete { text: text? },
                };
                (*run, *attempt, late)
            }
            _ => return None,
        };
        Some(Fact::LateOutputReceived { run, attempt, late })
    }

    /// The effects that are due and not requested yet, and cancellations of effects that are no
    /// longer due.
    fn request_effects(&mut self, now: Timestamp) -> Vec<Effect> {
        let due = pending_effects::due_keys(&self.state, &self.requested, now);
        let due_set: BTreeSet<EffectKey> = due.iter().copied().collect();
        let dropped = self.requested.difference(&due_set);
        let mut effects = Vec::new();
        for key in dropped {
            if let EffectKey::Run(run, attempt) = key {
                self.cancelled.insert((*run, *attempt));
            }
            effects.extend(pending_effects::cancellation(*key));
        }
        let new = due.into_iter().filter(|key| !self.requested.contains(key));
        effects.extend(new.filter_map(|key| pending_effects::effect(&self.state, key)));
        self.requested = due_set;
        effects
    }

    /// The same if only one run can be due and its earlier requests are settled.
    fn request_run_effects(&mut self, run: RunId, now: Timestamp) -> Vec<Effect> {
        let due = pending_effects::keys_of_run(&self.state, run, &self.requested, now);
        let calls = self.requested.range(pending_effects::calls_of(run));
        let hooks = self.requested.range(pending_effects::hooks_of(run));
        let calls = calls.chain(hooks).copied();
        let dropped: Vec<EffectKey> = calls.filter(|key| !due.contains(key)).collect();
        for key in &dropped {
            self.requested.remove(key);
        }
        let cancelled = dropped
            .into_iter()
            .filter_map(pending_effects::cancellation);
        let mut effects: Vec<Effect> = cancelled.collect();
        for key in due {
            if self.requested.insert(key) {
                effects.extend(pending_effects::effect(&self.state, key));
            }
        }
        effects
    }
}
