//! Folds events into the state. It accepts every journal that this program wrote.

use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::message::{NewMessage, Part};
use unisono_context::topic::DecidedTopics;
use unisono_context::{Digest, MessageId, RunId, Timestamp, TurnId, tree};

use crate::event::{Event, Fact};
use crate::run::calls::{CallCap, CallPlace, CallStatus};
use crate::state::State;

mod calls;
mod delegation;
mod hooks;
mod posted;
mod prepared;
mod spending;
mod summary_usage;
mod turns;

/// An event that does not follow from the events before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A message or branch does not fit the tree.
    #[error(transparent)]
    Tree(#[from] tree::Error),
    /// The session was created twice, or another event came first.
    #[error("a journal begins with exactly one creation")]
    Creation,
    /// The event names a turn that is not open.
    #[error("turn {0} is not open")]
    UnknownTurn(TurnId),
    /// The event names a run that is not open.
    #[error("run {0} is not open")]
    UnknownRun(RunId),
    /// The event names a call that was not recorded.
    #[error("no tool call was recorded at {0:?}")]
    UnknownCall(CallPlace),
    /// The event names a definition that was not recorded.
    #[error("agent definition {0} was not recorded")]
    UnknownDefinition(Digest),
    /// The event does not fit the turn's phase.
    #[error("{event} does not fit the phase of turn {turn}")]
    Phase {
        /// The event.
        event: &'static str,
        /// The turn.
        turn: TurnId,
    },
}

impl State {
    /// Folds a journal.
    ///
    /// # Errors
    /// The first event that does not follow from the events before it.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Result<State, Error> {
        let mut state = State::default();
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    /// Folds one event.
    ///
    /// # Errors
    /// The event does not follow from the events before it. The state must not be used any more.
    pub fn apply(&mut self, event: &Event) -> Result<(), Error> {
        if self.id.is_some() == matches!(event.fact, Fact::Created { .. }) {
            return Err(Error::Creation);
        }
        self.apply_to_budget(&event.fact, event.at);
        self.apply_to_summary_usage(&event.fact);
        let is_folded = self.apply_to_preparations(&event.fact)
            || self.apply_to_conversation(&event.fact)?
            || self.apply_to_topics(&event.fact, event.at)
            || self.apply_to_rules(&event.fact);
        if !is_folded {
            self.apply_to_turns(&event.fact, event.at)?;
        }
        self.events += 1;
        Ok(())
    }

    /// Folds facts about messages, branches and counts; false for other facts.
    fn apply_to_conversation(&mut self, fact: &Fact) -> Result<bool, Error> {
        match fact {
            Fact::Created {
                session,
                title,
                system,
                labels,
            } => {
                self.id = Some(*session);
                self.title = title.clone();
                self.system = system.clone();
                self.labels = labels.clone();
            }
            Fact::Appended {
                branch,
                parent,
                message,
            } => self.append(branch.as_deref(), *parent, message.clone())?,
            Fact::BranchSet { branch, head } => {
                Arc::make_mut(&mut self.tree).set_branch(branch, *head)?;
            }
            Fact::Counted { encoding, counts } => {
                let tree = Arc::make_mut(&mut self.tree);
                for (message, count) in counts {
                    tree.set_count(*message, *encoding, *count)?;
                }
            }
            Fact::PreambleCounted {
                preamble,
                encoding,
                count,
            } => {
                let counts = self.preambles.entry(*preamble).or_default();
                counts.set(*encoding, *count);
            }
            Fact::Pinned { messages } => Arc::make_mut(&mut self.pinned).extend(messages),
            Fact::Unpinned { messages } => {
                Arc::make_mut(&mut self.pinned).retain(|message| !messages.contains(message));
            }
            Fact::Posted {
                branch,
                message,
                key,
            } => self.posted(branch, message, key.as_ref())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Folds ends of topics that a person decided or imported; false for other facts.
    fn apply_to_topics(&mut self, fact: &Fact, at: Timestamp) -> bool {
        match fact {
            Fact::TopicSealed { last, .. } => {
                Arc::make_mut(&mut self.topics).seal(*last, Some(at));
            }
            Fact::TopicsImported {
                decided,
                sealed,
                notes,
            } => {
                let topics = Arc::make_mut(&mut self.topics);
                for DecidedTopics { through, ends } in decided {
                    topics.decided(&self.tree, *through, ends, None);
                }
                sealed.iter().for_each(|last| topics.seal(*last, None));
                topics.note_times(&notes.opened, &notes.sealed);
                let checkpoints = Arc::make_mut(&mut self.checkpoints);
                for id in &notes.tightened {
                    checkpoints.note_tightened(*id);
                }
            }
            _ => return false,
        }
        true
    }

    /// Folds agents, instructions, rules and settings; false for other facts.
    fn apply_to_rules(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::Defined { definition } => {
                let digest = definition.digest();
                self.definitions.insert(digest, definition.clone());
            }
            Fact::InstructionsSet { text } => self.instructions = text.clone(),
            Fact::PhrasesSet { phrases } => self.phrases = phrases.as_slice().into(),
            Fact::CallCapSet { calls } => self.call_cap = CallCap(*calls),
            Fact::ToolRulesSet { rules } => self.tool_rules = rules.clone(),
            Fact::SettingsSet { settings } => self.settings = Arc::new(settings.clone()),
            _ => return false,
        }
        true
    }

    /// Folds facts about turns, their compactions and their runs.
    fn apply_to_turns(&mut self, fact: &Fact, at: Timestamp) -> Result<(), Error> {
        match fact {
            Fact::TurnAccepted { turn } => self.accept(turn, at),
            Fact::TurnStarted { turn } => self.start(*turn, at),
            Fact::CompactionPlanned { turn, plan } => self.planned(*turn, plan),
            Fact::Altered { turn, alterations } => self.altered(*turn, alterations),
            Fact::Compacted { turn, checkpoint } => self.compacted(*turn, checkpoint),
            Fact::Reverted {
                turn,
                checkpoint,
                before,
            } => self.reverted(*turn, *checkpoint, *before),
            Fact::CompactionFailed { turn, .. } => self.step_failed(*turn, at),
            Fact::TopicsDecided {
                turn,
                through,
                ends,
            } => {
                self.preparing(*turn)?;
                let topics = Arc::make_mut(&mut self.topics);
                topics.decided(&self.tree, *through, ends, Some(at));
                Ok(())
            }
            Fact::Measured { turn, calibration } => self.measured(*turn, calibration),
            Fact::Frozen {
                turn,
                snapshot,
                manifest,
            } => self.frozen(*turn, *snapshot, manifest),
            Fact::RunOpened { run } => self.opened(run, at),
            Fact::RunStepped { run, step } => self.stepped(*run, step),
            Fact::Delegated { run, round, calls } => self.delegated(*run, *round, calls, at),
            Fact::ToolsCalled { run, round, calls } => self.tools_called(*run, *round, calls, at),
            Fact::ToolStarted { call } => self.start_call(*call),
            Fact::ToolTaskStarted { call, task } => self.set_call_task(*call, task),
            Fact::ToolEnded { call, output } => self.end_call(*call, output, at),
            Fact::ToolsAnswered { run, round } => self.tools_answered(*run, *round),
            Fact::ToolInDoubt { call } => self.set_call_status(*call, CallStatus::InDoubt),
            Fact::ToolDecided { call, decision, .. } => self.tool_decided(*call, decision, at),
            Fact::HookAnswered {
                place,
                hook,
                answer,
            } => self.hook_answered(*place, hook, answer),
            Fact::RunRetried {
                run,
                attempt,
                not_before,
                reason,
            } => self.retried(*run, *attempt, *not_before, reason),
            Fact::Reserved { run, reservation } => self.reserved(*run, reservation),
            Fact::RunEnded { run, ending } => self.run_ended(*run, ending, at),
            Fact::TurnEnded { turn, outcome } => self.end(*turn, outcome, at),
            // Folded above, or relevant only for sums.
            _ => Ok(()),
        }
    }

    fn altered(&mut self, turn: Option<TurnId>, alterations: &[Alteration]) -> Result<(), Error> {
        if let Some(turn) = turn {
            self.step_done(turn)?;
        }
        let newest = self.checkpoints.next_number() - 1;
        let altered = Arc::make_mut(&mut self.alterations);
        for alteration in alterations {
            altered.set(alteration.clone(), newest);
        }
        Ok(())
    }

    fn append(
        &mut self,
        branch: Option<&str>,
        parent: Option<MessageId>,
        message: NewMessage,
    ) -> Result<(), Error> {
        let id = message.id;
        let kept: u64 = message.parts.iter().map(Part::kept_bytes).sum();
        let tree = Arc::make_mut(&mut self.tree);
        tree.append(parent, message)?;
        self.attached_bytes = self.attached_bytes.saturating_add(kept);
        if let Some(branch) = branch {
            tree.set_branch(branch, id)?;
        }
        Ok(())
    }
}
