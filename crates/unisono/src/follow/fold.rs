//! A turn folded from its session's events: counted, compacted, frozen, worked on, answered.

use std::sync::Arc;

use unisono_api::turn::{RunPause, Turn};
use unisono_api::turn_event::{
    FrozenContext, Member, NewCheckpoint, SummaryQuota, TurnEnd, TurnEvent, TurnState,
};
use unisono_config::agents::answers_alone;
use unisono_context::checkpoint::{Body, Checkpoint, Writer};
use unisono_context::compaction::{PERSON, Step};
use unisono_context::{CallId, RunId, SessionId, Timestamp, TurnId};
use unisono_session::budget::BudgetStatus;
use unisono_session::event::{HookPoint, Outcome};
use unisono_session::run::calls::{CallOutput, CallPlace, WaitingCall};
use unisono_session::trace::CompactionEffect;
use unisono_session::turn::Phase;
use unisono_session::{Event, Fact, State};

use super::member::Agents;
use crate::{approvals, fmt, values};

/// Maximum bytes of a tool result in an update.
const RESULT_BYTES: usize = 16 * 1024;
/// The decision about a call that ended before a person decided.
const WITHDRAWN: &str = "withdrawn";
/// Characters of the preview of a new summary.
const PREVIEW_CHARS: usize = 200;

/// A turn in its current state.
#[derive(Debug)]
pub(super) struct TurnFold {
    session: SessionId,
    turn: TurnId,
    state: State,
    agents: Agents,
    /// Why the lead does not delegate although it could choose delegates.
    no_delegation_reason: Option<String>,
    /// Whether a step of it kept fewer messages than requested.
    tightened: bool,
    /// The state of its budgets and its session's at its end.
    budgets: Vec<BudgetStatus>,
}

#[derive(Debug)]
pub(super) enum Change {
    /// At least one update. A client that has the last one has all of them.
    Events(Vec<TurnEvent>),
    Ended,
}

impl TurnFold {
    /// Starts from a state of its session, in which it may not have begun.
    pub(super) fn new(session: SessionId, state: State, turn: TurnId) -> TurnFold {
        let mut fold = TurnFold {
            session,
            turn,
            state,
            agents: Agents::default(),
            no_delegation_reason: None,
            tightened: false,
            budgets: Vec::new(),
        };
        fold.catch_up();
        fold
    }

    /// Number of folded events of the journal.
    pub(super) fn events(&self) -> u64 {
        self.state.events()
    }

    /// The state of its session after these events.
    pub(super) fn session_state(&self) -> &State {
        &self.state
    }

    /// The turn in its session, while it is open.
    pub(super) fn open_turn(&self) -> Option<&unisono_session::turn::Turn> {
        self.state.turn(self.turn)
    }

    /// Whether a run is known to belong to another turn.
    pub(super) fn is_of_other(&self, run: RunId) -> bool {
        let run = self.state.run(run);
        run.is_some_and(|run| run.turn != self.turn)
    }

    /// Whether a run is the lead's, or is not known yet.
    pub(super) fn may_be_lead(&self, run: RunId) -> bool {
        if self.is_of_other(run) {
            return false;
        }
        let (run, members) = (run.to_string(), self.agents.to_api());
        let known = members.iter().find(|one| one.run.as_ref() == Some(&run));
        known.is_none_or(|one| one.role == "lead")
    }

    /// The state of a run that pauses before a request to its model; none if it does not run.
    pub(super) fn pausing(&self, run: RunId, until: Timestamp, reason: &str) -> Option<Member> {
        let pause = RunPause {
            until: values::instant(until),
            reason: reason.to_owned(),
        };
        let mut members = self.agents.to_api().into_iter();
        let run = run.to_string();
        let running = members.find(|one| one.run.as_ref() == Some(&run) && one.state == "running");
        Some(Member {
            pause: Some(Box::new(pause)),
            ..running?
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.ended_turn(self.turn).is_some()
    }

    pub(super) fn state(&self) -> TurnState {
        let turn = self.open_turn();
        let mut waiting = self.waiting(|_| true);
        let ahead = self.calls_ahead();
        waiting.extend(ahead.iter().map(|one| approvals::to_api(self.session, one)));
        TurnState {
            agents: self.agents.to_api(),
            no_delegation_reason: self.no_delegation_reason.clone(),
            context: self.frozen(),
            tokens_before: turn.and_then(|turn| turn.tokens_before).map(|t| t.0),
            waiting,
            changed_agents: Vec::new(),
        }
    }

    /// The end of the turn, from its final value.
    pub(super) fn end(&self, turn: Turn) -> TurnEnd {
        let ended = self.state.ended_turn(self.turn);
        let amounts = match ended.map(|ended| &ended.outcome) {
            Some(Outcome::Compacted { before, after } | Outcome::Reverted { before, after }) => {
                Some((before.0, after.0))
            }
            _ => None,
        };
        let answer = ended.and_then(|ended| self.state.tree().get(ended.answer?));
        TurnEnd {
            turn,
            agents: self.agents.to_api(),
            answer_message: answer.map(|node| node.ordinal().0),
            tokens_before: amounts.map(|(before, _)| before),
            tokens_after: amounts.map(|(_, after)| after),
            budgets: self.budgets.iter().map(values::budget).collect(),
        }
    }

    /// Copies the data of the turn from the state.
    fn catch_up(&mut self) {
        let Some(turn) = self.state.turn(self.turn) else {
            return;
        };
        self.agents = Agents::at_work(&self.state, turn);
        self.no_delegation_reason = answers_alone(&turn.team);
    }

    /// Folds the next event, or returns why it does not follow from the earlier events.
    pub(super) fn apply(&mut self, event: &Event) -> Result<Option<Change>, String> {
        let before = self.calls_ahead();
        let mut changes = self.withdrawn_by(&event.fact);
        match self.apply_own(event)? {
            Some(Change::Ended) => return Ok(Some(Change::Ended)),
            Some(Change::Events(events)) => changes.extend(events),
            None => {}
        }
        changes.extend(self.changed_ahead(&before, &event.fact));
        Ok((!changes.is_empty()).then_some(Change::Events(changes)))
    }

    /// The calls of the turn that this queued turn waits for.
    fn calls_ahead(&self) -> Vec<WaitingCall> {
        self.state.waiting_calls_ahead(self.turn).collect()
    }

    /// The waiting calls of the turn that a fact ends without a decision.
    fn withdrawn_by(&self, fact: &Fact) -> Vec<TurnEvent> {
        let is_ended = |place: CallPlace| match fact {
            Fact::ToolEnded { call, .. } => place == *call,
            Fact::RunEnded { run, .. } => place.run == *run,
            _ => false,
        };
        if !matches!(fact, Fact::ToolEnded { .. } | Fact::RunEnded { .. }) {
            return Vec::new();
        }
        let all = self.state.waiting_calls();
        let own = all.filter(|one| one.turn == self.turn && is_ended(one.place));
        own.map(|one| decided(&one, WITHDRAWN, None)).collect()
    }

    /// The changes of these calls by a fact. A call that is not decided ends with its turn or run.
    fn changed_ahead(&self, before: &[WaitingCall], fact: &Fact) -> Vec<TurnEvent> {
        let now = self.calls_ahead();
        let (decision, by) = match fact {
            Fact::ToolDecided { decision, by, .. } => (decision.name(), by.as_ref()),
            _ => (WITHDRAWN, None),
        };
        let gone = before.iter().filter(|one| !has(&now, one.id));
        let mut changes: Vec<TurnEvent> = gone.map(|one| decided(one, decision, by)).collect();
        let new = now.iter().filter(|one| !has(before, one.id));
        let calls: Vec<_> = new
            .map(|one| approvals::to_api(self.session, one))
            .collect();
        if !calls.is_empty() {
            changes.push(TurnEvent::Waiting { calls });
        }
        changes
    }

    /// Folds the next event into the turn and its runs.
    fn apply_own(&mut self, event: &Event) -> Result<Option<Change>, String> {
        let under_way = match &event.fact {
            Fact::CompactionFailed { turn, .. } => self.state.step_under_way(*turn).cloned(),
            _ => None,
        };
        let is_prepared = matches!(&event.fact,
            Fact::Compacted { checkpoint, .. } if self.state.is_prepared(checkpoint.id));
        let waited = match &event.fact {
            Fact::ToolDecided { call, .. } => self.waiting_at(*call),
            _ => None,
        };
        let own = |turn: TurnId| turn == self.turn;
        if matches!(event.fact, Fact::TurnEnded { turn, .. } if own(turn)) {
            self.budgets = self.state.budgets(Some(self.turn), event.at);
        }
        (self.state.apply(event)).map_err(|error| error.to_string())?;
        let changed = match &event.fact {
            Fact::TurnAccepted { turn } if own(turn.id) => {
                self.catch_up();
                let first = self.state.active_turn(&turn.branch);
                Some(TurnEvent::Accepted {
                    queued: first.is_some_and(|first| first.accepted.id != self.turn),
                    agents: self.agents.to_api(),
                    no_delegation_reason: self.no_delegation_reason.clone(),
                })
            }
            Fact::Frozen { turn, .. } if own(*turn) => {
                let context = self.frozen();
                context.map(|context| TurnEvent::Frozen { context })
            }
            Fact::ToolsCalled { run, round, .. } => {
                self.waits(|place| (place.run, place.round) == (*run, *round))
            }
            Fact::ToolInDoubt { call } => self.waits(|place| place == *call),
            // The hook let it through: now a person may have to.
            Fact::HookAnswered { place, .. } => match place.point {
                HookPoint::Call(call) => self.waits(|place| place == call),
                HookPoint::Turn { .. } => None,
            },
            Fact::ToolDecided { decision, by, .. } => {
                waited.map(|call| decided(&call, decision.name(), by.as_ref()))
            }
            Fact::ToolStarted { call } => self.tool_started(*call),
            Fact::ToolEnded { call, output } => self.tool_ended(*call, output),
            Fact::TurnEnded { turn, .. } if own(*turn) => {
                self.agents.cancel_open();
                return Ok(Some(Change::Ended));
            }
            Fact::CompactionFailed { turn, reason } if own(*turn) => Some(TurnEvent::StepFailed {
                reason: reason.to_string(),
                pause_ms: under_way.and_then(|plan| self.pause_ms(&plan.step)),
            }),
            fact => self
                .compacted(fact, is_prepared)
                .or_else(|| self.run_changed(fact)),
        };
        Ok(changed.map(|event| Change::Events(vec![event])))
    }

    /// The changes of the context before it is frozen.
    fn compacted(&mut self, fact: &Fact, prepared: bool) -> Option<TurnEvent> {
        match fact {
            Fact::Counted { counts, .. } if self.is_preparing() && !counts.is_empty() => {
                Some(TurnEvent::Counted {
                    messages: counts.len() as u64,
                    tokens: counts.iter().map(|(_, count)| count.tokens.0).sum(),
                })
            }
            Fact::CompactionPlanned { turn, plan } if *turn == self.turn => {
                // Reported once: later steps of the turn do not improve it.
                let tightened = plan.tightened && !self.tightened;
                self.tightened |= plan.tightened;
                Some(TurnEvent::Compacting {
                    step: fmt::step(&plan.step),
                    tokens_before: plan.before.0,
                    tightened: tightened.then(|| plan.target.min(plan.budget.usable).0),
                    quota_reached: self.quota_reached(&plan.step),
                })
            }
            Fact::Altered {
                turn: Some(turn),
                alterations,
            } if *turn == self.turn => Some(TurnEvent::Shortened {
                messages: alterations.len() as u64,
                effect: values::effect(CompactionEffect::of_alterations(alterations)),
            }),
            Fact::Compacted {
                turn: Some(turn),
                checkpoint,
            } if *turn == self.turn => Some(TurnEvent::Compacted {
                checkpoint: NewCheckpoint {
                    prepared,
                    ..self.made(checkpoint)
                },
            }),
            Fact::PreparationDropped {
                by: Some(turn),
                reason,
                ..
            } if *turn == self.turn => Some(TurnEvent::PreparationDropped {
                reason: reason.to_string(),
            }),
            _ => None,
        }
    }

    pub(super) fn made(&self, checkpoint: &Checkpoint) -> NewCheckpoint {
        let counted = checkpoint.counts.iter().next();
        let rewritten = self.state.checkpoints().rewritten_by(checkpoint);
        NewCheckpoint {
            number: checkpoint.number,
            messages: checkpoint.messages_included,
            tokens_before: checkpoint.original.0,
            tokens_after: counted.map_or(0, |(_, count)| count.tokens.0),
            model: checkpoint.model.to_string(),
            writer: match (checkpoint.writer, &*checkpoint.model) {
                (Writer::Model, _) => "model",
                (Writer::Deterministic, PERSON) => "person",
                (Writer::Deterministic, _) => "quotes",
            }
            .to_owned(),
            degraded: checkpoint.degraded,
            summary: matches!(checkpoint.body, Body::Summary(_)),
            regenerates: rewritten.map(|old| old.number),
            duration_ms: checkpoint.duration_ms,
            preview: match &checkpoint.body {
                Body::Summary(text) => fmt::line(text, PREVIEW_CHARS),
                Body::Tombstone => checkpoint.context_text(),
            },
            prepared: false,
            coverage: checkpoint.coverage.map(values::coverage),
        }
    }

    pub(super) fn tool_started(&self, place: CallPlace) -> Option<TurnEvent> {
        let run = self
            .state
            .run(place.run)
            .filter(|run| run.turn == self.turn)?;
        let call = run.calls(place.round)?.calls.get(place.index as usize)?;
        Some(TurnEvent::ToolStarted {
            call: self.state.call_id(place)?.to_string(),
            run: place.run.to_string(),
            tool: call.planned.tool.to_string(),
            arguments: serde_json::from_str(&call.planned.arguments).unwrap_or_default(),
        })
    }

    pub(super) fn tool_ended(&self, place: CallPlace, output: &CallOutput) -> Option<TurnEvent> {
        self.state
            .run(place.run)
            .filter(|run| run.turn == self.turn)?;
        let content = &output.content;
        let mut end = content.len().min(RESULT_BYTES);
        while !content.is_char_boundary(end) {
            end -= 1;
        }
        Some(TurnEvent::ToolEnded {
            call: self.state.call_id(place)?.to_string(),
            run: place.run.to_string(),
            content: content[..end].to_owned(),
            is_error: output.is_error,
        })
    }

    fn waiting_at(&self, place: CallPlace) -> Option<WaitingCall> {
        let mut all = self.state.waiting_calls();
        all.find(|waiting| waiting.turn == self.turn && waiting.place == place)
    }

    /// The waiting calls of the turn, of every agent.
    fn waiting(&self, at: impl Fn(CallPlace) -> bool) -> Vec<unisono_api::approval::Approval> {
        let all = self.state.waiting_calls();
        let own = all.filter(|waiting| waiting.turn == self.turn && at(waiting.place));
        own.map(|waiting| approvals::to_api(self.session, &waiting))
            .collect()
    }

    fn waits(&self, new: impl Fn(CallPlace) -> bool) -> Option<TurnEvent> {
        let calls = self.waiting(new);
        (!calls.is_empty()).then_some(TurnEvent::Waiting { calls })
    }

    /// The quota that prevents a model from writing a summary.
    fn quota_reached(&self, step: &Step) -> Option<SummaryQuota> {
        let Step::Summarise { writer, .. } = step else {
            return None;
        };
        let quota = self.open_turn()?.accepted.policy.quota?;
        let is_used_up = *writer == Writer::Deterministic && quota.checkpoints > 0;
        is_used_up.then_some(SummaryQuota {
            checkpoints: quota.checkpoints,
            per_ms: quota.per_ms,
        })
    }

    /// The pause before the next attempt to regenerate a summary.
    fn pause_ms(&self, step: &Step) -> Option<i64> {
        let Step::Regenerate { cover, .. } = step else {
            return None;
        };
        let old = cover.supersedes.first()?;
        let failed = self.state.checkpoints().failed_repairs(*old)?;
        Some(failed.pause_ms())
    }

    fn is_preparing(&self) -> bool {
        let turn = self.open_turn();
        turn.is_some_and(|turn| turn.phase == Phase::Preparing)
    }

    fn run_changed(&mut self, fact: &Fact) -> Option<TurnEvent> {
        match fact {
            Fact::RunOpened { run } if run.turn == self.turn => Some(TurnEvent::Runs {
                agents: vec![self.agents.open(run.role, &run.agent, run.id)],
            }),
            Fact::Delegated { run, .. } => Some(TurnEvent::Runs {
                agents: vec![self.agents.update(self.state.run(*run)?)?],
            }),
            Fact::RunRetried { run, reason, .. } => Some(TurnEvent::RunRetried {
                agent: self.agents.update(self.state.run(*run)?)?,
                reason: reason.to_string(),
            }),
            Fact::RunStepped { run, .. } | Fact::ToolsAnswered { run, .. }
                if self.state.run(*run)?.turn == self.turn =>
            {
                Some(TurnEvent::RunStepped {
                    run: run.to_string(),
                })
            }
            Fact::RunEnded { run, .. } => {
                let ended = self.agents.update(self.state.run(*run)?)?;
                let parent = self.agents.parent_of(*run);
                let parent = parent.and_then(|parent| self.continued(parent));
                Some(TurnEvent::Runs {
                    agents: [Some(ended), parent].into_iter().flatten().collect(),
                })
            }
            _ => None,
        }
    }

    /// A run that does not wait for its delegates any more.
    fn continued(&mut self, run: RunId) -> Option<Member> {
        let member = self.agents.update(self.state.run(run)?)?;
        (member.state == "running").then_some(member)
    }

    fn frozen(&self) -> Option<FrozenContext> {
        let turn = self.open_turn()?;
        let Phase::Frozen {
            snapshot, manifest, ..
        } = &turn.phase
        else {
            return None;
        };
        let view = self.state.view(manifest.head, true)?;
        let budgets = self.state.required_budgets(turn, &view)?;
        let budget = budgets.iter().next()?;
        let active = view.active().iter();
        let notes = active.filter(|c| c.body == Body::Tombstone).count();
        let spans = manifest.spans.iter();
        Some(FrozenContext {
            snapshot: snapshot.to_string(),
            agents: self.state.sharing_agents(turn) as u64,
            tokens: view.effective(budget)?.tokens.0,
            usable_tokens: budget.usable.0,
            messages: spans.map(|span| u64::from(span.len())).sum(),
            summaries: (manifest.checkpoints.len() - notes) as u64,
            notes: notes as u64,
        })
    }
}

fn decided(call: &WaitingCall, decision: &str, by: Option<&Arc<str>>) -> TurnEvent {
    TurnEvent::Decided {
        call: call.id.to_string(),
        decision: decision.to_owned(),
        by: by.map(ToString::to_string),
    }
}

fn has(calls: &[WaitingCall], id: CallId) -> bool {
    calls.iter().any(|one| one.id == id)
}
