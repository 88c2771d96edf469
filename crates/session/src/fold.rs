//! Folding events into the state. Total on every journal this program wrote.

use std::sync::Arc;

use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::snapshot::Preamble;
use unisono_context::{Message, MessageId, Timestamp, TurnId, tree};

use crate::agent::{Assignment, Team};
use crate::brief;
use crate::event::{AcceptedTurn, Event, Fact, Outcome, RunRole, Work};
use crate::ids;
use crate::run::{Ending, Run};
use crate::state::{EndedTurn, State};
use crate::turn::{Cached, Phase, Turn};

/// Why an event does not follow from the ones before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A message or branch does not fit.
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
    UnknownRun(unisono_context::RunId),
    /// The event names a definition that was not recorded.
    #[error("agent definition {0} was not recorded")]
    UnknownDefinition(unisono_context::Digest),
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
    /// The fold of a journal.
    ///
    /// # Errors
    /// The first event that does not follow from those before it.
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
    /// The event does not follow from those before it; the state is then not to be used further.
    pub fn apply(&mut self, event: &Event) -> Result<(), Error> {
        let at = event.at;
        if self.id.is_some() == matches!(event.fact, Fact::Created { .. }) {
            return Err(Error::Creation);
        }
        match &event.fact {
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
            } => {
                self.append(branch.as_deref(), *parent, message.clone())?;
            }
            Fact::BranchSet { branch, head } => self.tree.set_branch(branch, *head)?,
            Fact::Counted { encoding, counts } => {
                for (message, count) in counts {
                    self.tree.set_count(*message, *encoding, *count)?;
                }
            }
            Fact::PreambleCounted {
                preamble,
                encoding,
                count,
            } => {
                self.preambles
                    .entry(*preamble)
                    .or_default()
                    .set(*encoding, *count);
            }
            Fact::Defined { definition } => {
                self.definitions
                    .insert(definition.digest(), definition.clone());
            }
            Fact::TurnAccepted { turn } => self.accept(turn, at)?,
            Fact::TurnStarted { turn } => self.start(*turn, at)?,
            Fact::CompactionPlanned { turn, plan } => {
                let turn = self.turn_mut(*turn)?;
                turn.steps_planned += 1;
                turn.step_failures = 0;
                turn.tokens_before.get_or_insert(plan.before);
                turn.phase = Phase::Compacting(Box::new(plan.clone()));
            }
            Fact::Altered { turn, alterations } => {
                self.step_done(*turn)?;
                for alteration in alterations {
                    self.alterations.set(alteration.clone());
                }
            }
            Fact::Compacted { turn, checkpoint } => {
                if let Some(turn) = turn {
                    self.step_done(*turn)?;
                    self.turn_mut(*turn)?.covered = true;
                }
                self.checkpoints.add(checkpoint.clone());
            }
            Fact::CompactionFailed { turn, .. } => self.turn_mut(*turn)?.step_failures += 1,
            Fact::Frozen {
                turn,
                snapshot,
                manifest,
            } => {
                self.turn_mut(*turn)?.phase = Phase::Frozen {
                    snapshot: *snapshot,
                    manifest: Box::new(manifest.clone()),
                    delivered: false,
                };
            }
            Fact::RunOpened { run } => {
                let delegated = matches!(run.role, RunRole::Delegate { index: 0 });
                self.turn_mut(run.turn)?.runs.push(run.id);
                self.runs.insert(run.id, Run::new(run, at));
                if delegated {
                    self.append_delegation(run.turn, at)?;
                }
            }
            Fact::RunStepped { run, step } => self.run_mut(*run)?.steps.push(step.clone()),
            Fact::RunRetried {
                run,
                attempt,
                not_before,
                ..
            } => {
                let run = self.run_mut(*run)?;
                run.attempt = *attempt;
                run.not_before = *not_before;
            }
            Fact::RunEnded { run, ending } => {
                let run = self.run_mut(*run)?;
                run.ending = Some(ending.clone());
                let turn = run.turn;
                self.deliver_if_complete(turn, at)?;
            }
            Fact::TurnEnded { turn, outcome } => self.end(*turn, outcome, at)?,
        }
        self.events += 1;
        Ok(())
    }

    fn append(
        &mut self,
        branch: Option<&str>,
        parent: Option<MessageId>,
        message: NewMessage,
    ) -> Result<Arc<Message>, Error> {
        let message = self.tree.append(parent, message)?.clone();
        if let Some(branch) = branch {
            self.tree.set_branch(branch, message.id)?;
        }
        Ok(message)
    }

    fn accept(&mut self, accepted: &AcceptedTurn, at: Timestamp) -> Result<(), Error> {
        let find = |digest| {
            self.definitions
                .get(digest)
                .cloned()
                .ok_or(Error::UnknownDefinition(*digest))
        };
        let delegates = accepted.delegates.iter().map(|(digest, task)| {
            Ok(Assignment {
                agent: find(digest)?,
                task: task.clone(),
            })
        });
        let team = Team {
            lead: find(&accepted.lead)?,
            delegates: delegates.collect::<Result<_, Error>>()?,
        };
        self.queues
            .entry(accepted.branch.clone())
            .or_default()
            .push_back(accepted.id);
        let turn = Turn {
            team,
            preamble: Preamble::new("", Vec::new()),
            started_at: at,
            phase: Phase::Queued,
            steps_planned: 0,
            covered: false,
            step_failures: 0,
            tokens_before: None,
            runs: Vec::new(),
            messages_appended: 0,
            snapshot: Cached(None),
            prefixes: Cached(None),
            accepted: accepted.clone(),
        };
        self.turns.insert(accepted.id, turn);
        Ok(())
    }

    fn start(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let system = self.system.clone();
        let turn = self.turn_mut(id)?;
        if turn.phase != Phase::Queued {
            return Err(Error::Phase {
                event: "start",
                turn: id,
            });
        }
        turn.phase = Phase::Preparing;
        turn.started_at = at;
        turn.preamble = Preamble::new(system, turn.accepted.tools.clone());
        let branch = turn.accepted.branch.clone();
        if let Work::Answer { input } = &turn.accepted.work {
            let input = input.clone();
            self.append(Some(&branch), self.tree.head(&branch), input)?;
        }
        Ok(())
    }

    /// Appends the lead's delegate calls, one per delegate, before its agents work.
    fn append_delegation(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let turn = self.turn_mut(id)?;
        let parts = turn
            .team
            .delegates
            .iter()
            .enumerate()
            .map(|(index, delegate)| {
                let task = brief::task_of(
                    turn,
                    RunRole::Delegate {
                        index: index as u32,
                    },
                );
                Part::ToolCall {
                    id: brief::call_id(index).into(),
                    name: "delegate".into(),
                    arguments: brief::delegate_arguments(&delegate.agent.id, &task).into(),
                }
            });
        let parts = parts.collect();
        self.append_own(id, Role::Assistant, parts, at)
    }

    /// Appends the delegates' results, in the order of the fan-out, once the last one ended.
    fn deliver_if_complete(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let turn = self.turns.get(&id).ok_or(Error::UnknownTurn(id))?;
        let Phase::Frozen {
            delivered: false, ..
        } = turn.phase
        else {
            return Ok(());
        };
        let mut runs: Vec<&Run> = self
            .runs_of(turn)
            .filter(|r| r.role != RunRole::Lead)
            .collect();
        let complete = runs.len() == turn.team.delegates.len() && runs.iter().all(|r| !r.is_open());
        if runs.is_empty() || !complete {
            return Ok(());
        }
        runs.sort_by_key(|run| run.role);
        let results: Vec<Part> = runs
            .iter()
            .enumerate()
            .map(|(index, run)| {
                let (content, is_error) = brief::result_text(run);
                Part::ToolResult {
                    call_id: brief::call_id(index).into(),
                    content,
                    is_error,
                }
            })
            .collect();
        if let Phase::Frozen { delivered, .. } = &mut self.turn_mut(id)?.phase {
            *delivered = true;
        }
        for part in results {
            self.append_own(id, Role::Tool, vec![part], at)?;
        }
        Ok(())
    }

    /// Appends a message of the turn's own to its branch, under a derived id.
    fn append_own(
        &mut self,
        id: TurnId,
        role: Role,
        parts: Vec<Part>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let turn = self.turn_mut(id)?;
        let branch = turn.accepted.branch.clone();
        let author = (role == Role::Assistant).then(|| turn.team.lead.id.clone());
        let message = ids::message(id, turn.messages_appended);
        turn.messages_appended += 1;
        let message = NewMessage {
            id: message,
            role,
            parts,
            author,
            at,
            usage: None,
        };
        self.append(Some(&branch), self.tree.head(&branch), message)?;
        Ok(())
    }

    fn end(&mut self, id: TurnId, outcome: &Outcome, at: Timestamp) -> Result<(), Error> {
        let turn = self.turns.get(&id).ok_or(Error::UnknownTurn(id))?;
        let branch = turn.accepted.branch.clone();
        let mut answer = None;
        if *outcome == Outcome::Answered {
            let lead = self.runs_of(turn).find(|run| run.role == RunRole::Lead);
            let Some(Ending::Finished { text, .. }) = lead.and_then(|run| run.ending.as_deref())
            else {
                return Err(Error::Phase {
                    event: "answer",
                    turn: id,
                });
            };
            let parts = vec![Part::Text(text.clone())];
            self.append_own(id, Role::Assistant, parts, at)?;
            answer = self.tree.head(&branch);
        }
        if let Some(turn) = self.turns.remove(&id) {
            for run in &turn.runs {
                self.runs.remove(run);
            }
        }
        if let Some(queue) = self.queues.get_mut(&branch) {
            queue.retain(|queued| *queued != id);
            if queue.is_empty() {
                self.queues.remove(&branch);
            }
        }
        self.ended.insert(
            id,
            EndedTurn {
                outcome: outcome.clone(),
                answer,
            },
        );
        Ok(())
    }

    fn step_done(&mut self, id: TurnId) -> Result<(), Error> {
        let turn = self.turn_mut(id)?;
        if !matches!(turn.phase, Phase::Compacting(_)) {
            return Err(Error::Phase {
                event: "compaction step",
                turn: id,
            });
        }
        turn.phase = Phase::Preparing;
        Ok(())
    }

    fn turn_mut(&mut self, id: TurnId) -> Result<&mut Turn, Error> {
        self.turns.get_mut(&id).ok_or(Error::UnknownTurn(id))
    }

    fn run_mut(&mut self, id: unisono_context::RunId) -> Result<&mut Run, Error> {
        self.runs
            .get_mut(&id)
            .filter(|run| run.is_open())
            .ok_or(Error::UnknownRun(id))
    }
}
