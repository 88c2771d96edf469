//! A turn as its events tell it: counted, compacted, frozen, worked on, answered.

use std::sync::Arc;

use tokio::sync::broadcast;
use unisono_config::agents::{Change, answers_alone};
use unisono_config::settings::Compaction;
use unisono_context::call::Usage;
use unisono_context::checkpoint::{Body, Checkpoint, Writer};
use unisono_context::compaction::Step;
use unisono_context::policy::ModelQuota;
use unisono_context::{AgentId, Message, RunId, SnapshotId, Tokens, TurnId};
use unisono_runtime::{Events, Progress};
use unisono_session::budget::{EXCEEDED, Left};
use unisono_session::event::{Outcome, RunRole};
use unisono_session::run::Cause;
use unisono_session::run::calls::{CallPlace, Waiting};
use unisono_session::turn::Phase;
use unisono_session::{Event, Fact, State};

use super::member::{Status, Watched, members, place_of};
use crate::problem::{Problem, Result};

/// A turn, as far as it has come.
#[derive(Debug)]
pub(crate) struct Watch {
    state: State,
    pub(crate) turn: TurnId,
    /// Its agents: the fan-out in order, the lead, then those that were given tasks meanwhile.
    pub(crate) runs: Vec<Watched>,
    /// Why the lead gives nobody a task though it could choose from some.
    pub(crate) alone: Option<String>,
    pub(crate) frozen: Option<Frozen>,
    /// Effective tokens before anything was compacted.
    pub(crate) tokens_before: Option<Tokens>,
    /// Whether a step of it kept less than was asked for.
    pub(crate) tightened: bool,
    pub(crate) checkpoints: Vec<Arc<Checkpoint>>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) answer: Option<Arc<Message>>,
    /// Its agents that are defined otherwise by now.
    pub(crate) changed: Vec<(AgentId, Change)>,
    /// Whether it is told what was compacted by itself.
    pub(crate) notifies: bool,
    /// How its bounds and its session's stood when it ended.
    pub(crate) budgets: Vec<Left>,
    /// Whether a daemon works on it, and goes on when nobody watches.
    pub(crate) elsewhere: bool,
    /// What happens from before it began on: nothing is missed until it is followed.
    pub(crate) followed: Option<(Events, broadcast::Receiver<Progress>)>,
}

/// The frozen context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frozen {
    pub(crate) snapshot: SnapshotId,
    /// How many agents it is handed to.
    pub(crate) agents: usize,
    pub(crate) tokens: Tokens,
    pub(crate) usable: Tokens,
    pub(crate) messages: u64,
    pub(crate) summaries: usize,
    /// Notes that stand for what was dropped.
    pub(crate) notes: usize,
}

/// What an event changed, as far as people care.
#[derive(Clone, Debug)]
pub(crate) enum News {
    Accepted,
    Queued,
    Counted {
        messages: usize,
        tokens: Tokens,
    },
    Compacting {
        step: Step,
        /// Set where less is kept than the preset, or a person, asks for: the tokens that the
        /// context is to have at most.
        tightened: Option<Tokens>,
        /// The number of summaries that models may write by themselves, where that keeps them from
        /// this one.
        used_up: Option<ModelQuota>,
    },
    Compacted {
        checkpoint: Arc<Checkpoint>,
        /// The number of the one that it writes anew.
        rewrites: Option<u32>,
    },
    Shortened(usize),
    StepFailed {
        reason: Arc<str>,
        /// For a summary that was to be written anew: milliseconds until that is tried again.
        pause_ms: Option<i64>,
    },
    Frozen(Frozen),
    Retried {
        index: usize,
        reason: Arc<str>,
    },
    Runs(Vec<usize>),
    /// Calls of tools wait for a person from now on.
    Waits(Vec<Waiting>),
    Ended,
}

impl Watch {
    /// Watches a turn from a state on, in which it may not have begun.
    pub(crate) fn new(state: State, turn: TurnId) -> Watch {
        let mut watch = Watch {
            state,
            turn,
            runs: Vec::new(),
            alone: None,
            frozen: None,
            tokens_before: None,
            tightened: false,
            checkpoints: Vec::new(),
            outcome: None,
            answer: None,
            changed: Vec::new(),
            notifies: true,
            budgets: Vec::new(),
            elsewhere: false,
            followed: None,
        };
        watch.catch_up();
        // Who works on it elsewhere may have been faster.
        let ended = watch.state.ended(turn).map(|ended| ended.outcome.clone());
        if let Some(outcome) = ended {
            watch.ended(&outcome);
        }
        watch
    }

    /// Tells of compactions as the configuration says.
    pub(crate) fn notifying(mut self, compaction: &Compaction) -> Watch {
        self.notifies = compaction.notifies();
        self
    }

    /// What the runs that have finished used together.
    pub(crate) fn used(&self) -> Usage {
        let finished = self.runs.iter().filter_map(|run| match &run.status {
            Status::Done { usage, .. } => Some(*usage),
            _ => None,
        });
        finished.fold(Usage::NONE, |sum, usage| sum + usage)
    }

    /// The run that answers, once it is open.
    pub(crate) fn lead(&self) -> Option<RunId> {
        let mut runs = self.runs.iter();
        runs.find(|run| run.role == RunRole::Lead)?.run
    }

    /// Takes over what the state knows of the turn.
    fn catch_up(&mut self) {
        let Some(turn) = self.state.turn(self.turn) else {
            return;
        };
        self.runs = members(&self.state, turn);
        self.alone = answers_alone(&turn.team);
        self.tokens_before = turn.tokens_before;
        self.frozen = self.freeze();
    }

    /// How many events of the journal are taken in.
    pub(crate) fn events(&self) -> u64 {
        self.state.events()
    }

    /// Takes the next event.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<Option<News>> {
        let under_way = match &event.fact {
            Fact::CompactionFailed { turn, .. } => self.state.step_under_way(*turn),
            _ => None,
        };
        let under_way = under_way.map(|plan| plan.step.clone());
        if matches!(event.fact, Fact::TurnEnded { turn, .. } if turn == self.turn) {
            self.budgets = self.state.budgets(Some(self.turn), event.at);
        }
        self.state.apply(event).map_err(|error| {
            Problem::failed(format!("an event of the session does not fit: {error}"))
                .hint("run `unisono doctor`")
        })?;
        let own = |turn: TurnId| turn == self.turn;
        Ok(match &event.fact {
            Fact::TurnAccepted { turn } if own(turn.id) => {
                self.catch_up();
                let queue = self.state.active_turn(&turn.branch);
                let waits = queue.is_some_and(|first| first.accepted.id != self.turn);
                Some(if waits { News::Queued } else { News::Accepted })
            }
            Fact::Counted { counts, .. } if self.is_preparing() && !counts.is_empty() => {
                Some(News::Counted {
                    messages: counts.len(),
                    tokens: counts.iter().map(|(_, count)| count.tokens).sum(),
                })
            }
            Fact::CompactionPlanned { turn, plan } if own(*turn) => {
                self.tokens_before.get_or_insert(plan.before);
                // Told once: what follows in the turn does no better.
                let tightened = plan.tightened && !self.tightened;
                self.tightened |= plan.tightened;
                Some(News::Compacting {
                    step: plan.step.clone(),
                    tightened: tightened.then(|| plan.target.min(plan.budget.usable)),
                    used_up: self.used_up(&plan.step),
                })
            }
            Fact::Altered {
                turn: Some(turn),
                alterations,
            } if own(*turn) => Some(News::Shortened(alterations.len())),
            Fact::Compacted {
                turn: Some(turn),
                checkpoint,
            } if own(*turn) => {
                self.checkpoints.push(checkpoint.clone());
                Some(News::Compacted {
                    checkpoint: checkpoint.clone(),
                    rewrites: self.rewrites(checkpoint),
                })
            }
            Fact::CompactionFailed { turn, reason } if own(*turn) => Some(News::StepFailed {
                reason: reason.clone(),
                pause_ms: under_way.and_then(|step| self.pause_ms(&step)),
            }),
            Fact::Frozen { turn, .. } if own(*turn) => {
                self.frozen = self.freeze();
                self.frozen.map(News::Frozen)
            }
            Fact::RunOpened { .. }
            | Fact::Delegated { .. }
            | Fact::RunRetried { .. }
            | Fact::RunEnded { .. } => self.run_changed(event),
            Fact::ToolsCalled { run, round, .. } => {
                self.waits(|place| (place.run, place.round) == (*run, *round))
            }
            Fact::ToolInDoubt { call } => self.waits(|place| place == *call),
            Fact::TurnEnded { turn, outcome } if own(*turn) => Some(self.ended(outcome)),
            _ => None,
        })
    }

    /// The calls of the turn that wait for a person, of every agent.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let all = self.state.waiting_calls();
        all.filter(|waiting| waiting.turn == self.turn)
    }

    fn waits(&self, new: impl Fn(CallPlace) -> bool) -> Option<News> {
        let waiting: Vec<Waiting> = self.waiting().filter(|one| new(one.place)).collect();
        (!waiting.is_empty()).then_some(News::Waits(waiting))
    }

    /// The quota that keeps models from writing a summary.
    fn used_up(&self, step: &Step) -> Option<ModelQuota> {
        let Step::Summarise { writer, .. } = step else {
            return None;
        };
        let quota = self.state.turn(self.turn)?.accepted.policy.quota?;
        (*writer == Writer::Deterministic && quota.checkpoints > 0).then_some(quota)
    }

    /// How long a summary that could not be written anew stays as it is.
    fn pause_ms(&self, step: &Step) -> Option<i64> {
        let Step::Rewrite { cover, .. } = step else {
            return None;
        };
        let old = cover.supersedes.first()?;
        let failed = self.state.checkpoints().failed_repairs(*old)?;
        Some(failed.pause_ms())
    }

    /// The number of the checkpoint that one of this turn writes anew.
    pub(crate) fn rewrites(&self, checkpoint: &Checkpoint) -> Option<u32> {
        let rewritten = self.state.checkpoints().rewritten_by(checkpoint);
        rewritten.map(|old| old.number)
    }

    fn is_preparing(&self) -> bool {
        let turn = self.state.turn(self.turn);
        turn.is_some_and(|turn| turn.phase == Phase::Preparing)
    }

    fn run_changed(&mut self, event: &Event) -> Option<News> {
        match &event.fact {
            Fact::RunOpened { run } if run.turn == self.turn => {
                let index = place_of(&mut self.runs, run.role, &run.agent);
                let watched = &mut self.runs[index];
                watched.run = Some(run.id);
                watched.opened_at = event.at;
                watched.status = Status::Running { attempt: 1 };
                Some(News::Runs(vec![index]))
            }
            Fact::Delegated { run, .. } => Some(News::Runs(vec![self.look_at(*run)?])),
            Fact::RunRetried { run, reason, .. } => {
                let index = self.look_at(*run)?;
                let reason = reason.clone();
                Some(News::Retried { index, reason })
            }
            Fact::RunEnded { run, .. } => {
                let index = self.look_at(*run)?;
                let parent = match self.runs[index].role {
                    RunRole::Child { parent, .. } => self.goes_on(parent),
                    RunRole::Lead | RunRole::Delegate { .. } => None,
                };
                Some(News::Runs(
                    [Some(index), parent].into_iter().flatten().collect(),
                ))
            }
            _ => None,
        }
    }

    /// Takes over what a run is at now.
    fn look_at(&mut self, id: RunId) -> Option<usize> {
        let mut runs = self.runs.iter();
        let index = runs.position(|watched| watched.run == Some(id))?;
        self.runs[index].status = Status::at(self.state.run(id)?);
        Some(index)
    }

    /// The place of a run that does not wait for others any more.
    fn goes_on(&mut self, id: RunId) -> Option<usize> {
        let index = self.look_at(id)?;
        matches!(self.runs[index].status, Status::Running { .. }).then_some(index)
    }

    fn ended(&mut self, outcome: &Outcome) -> News {
        for watched in &mut self.runs {
            if watched.status.is_open() {
                watched.status = Status::Cancelled;
            }
        }
        self.outcome = Some(outcome.clone());
        let answer = self.state.ended(self.turn).and_then(|ended| ended.answer);
        let node = answer.and_then(|id| self.state.tree().get(id));
        self.answer = node.map(|node| node.message.clone());
        News::Ended
    }

    fn freeze(&self) -> Option<Frozen> {
        let turn = self.state.turn(self.turn)?;
        let Phase::Frozen {
            snapshot, manifest, ..
        } = &turn.phase
        else {
            return None;
        };
        let view = self.state.view(manifest.head, true)?;
        let budgets = self.state.kept_budgets(turn, &view)?;
        let budget = budgets.iter().next()?;
        let notes = view
            .active()
            .iter()
            .filter(|c| c.body == Body::Tombstone)
            .count();
        Some(Frozen {
            snapshot: *snapshot,
            agents: self.state.sharing(turn),
            tokens: view.effective(budget)?.tokens,
            usable: budget.usable,
            messages: manifest
                .spans
                .iter()
                .map(|span| u64::from(span.len()))
                .sum(),
            summaries: manifest.checkpoints.len() - notes,
            notes,
        })
    }

    /// The names of the agents whose runs stand so.
    pub(crate) fn of_status(&self, is: impl Fn(&Status) -> bool) -> Vec<&str> {
        let runs = self.runs.iter().filter(|run| is(&run.status));
        runs.map(|run| run.agent.as_str()).collect()
    }

    /// Why an agent was stopped by a budget, or the turn was.
    pub(crate) fn over_budget(&self) -> Option<&str> {
        if let Some(Outcome::Failed { code, reason }) = &self.outcome
            && **code == *EXCEEDED
        {
            return Some(reason);
        }
        self.runs.iter().find_map(|run| match &run.status {
            Status::Done { partial, .. } => {
                let partial = partial.as_deref();
                partial.filter(|why| why.starts_with(EXCEEDED))
            }
            Status::Failed { cause, reason, .. } => (*cause == Cause::Budget).then_some(&**reason),
            _ => None,
        })
    }
}
