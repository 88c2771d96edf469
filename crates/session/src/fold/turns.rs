//! Folds facts about the beginning, the progress and the end of turns and runs.

use std::sync::Arc;

use unisono_context::checkpoint::Checkpoint;
use unisono_context::compaction::{Plan, Step};
use unisono_context::message::{Part, Role};
use unisono_context::snapshot::{Manifest, Preamble};
use unisono_context::{CheckpointId, Digest, RunId, SnapshotId, Timestamp, Tokens, TurnId};

use crate::agent::{Assignment, Definition, Team};
use crate::event::{AcceptedTurn, Calibration, OpenedRun, Outcome, RunRole, Work};
use crate::run::{self, Ending, Run};
use crate::state::{EndedTurn, KeyTarget, State, full_system_text};
use crate::tool::{self, HookEvent};
use crate::turn::{Cached, Lazy, Phase, Turn};

use super::{Error, hooks};

impl State {
    pub(super) fn accept(&mut self, accepted: &AcceptedTurn, at: Timestamp) -> Result<(), Error> {
        let team = self.team(accepted)?;
        if matches!(accepted.work, Work::Answer { .. }) {
            self.newest_tools = accepted.tools.clone();
        }
        if let Some(key) = &accepted.key {
            let keyed = Arc::make_mut(&mut self.keyed);
            keyed.insert(
                key.name.clone(),
                (key.request, KeyTarget::Turn(accepted.id)),
            );
        }
        let queue = self.queues.entry(accepted.branch.clone()).or_default();
        queue.push_back(accepted.id);
        let turn = Turn {
            team,
            instructions: self.instructions.clone(),
            phrases: self.phrases.clone(),
            preamble: Preamble::new("", Vec::new()),
            started_at: at,
            counts_from: at,
            resumed_at: Cached(None),
            phase: Phase::Queued,
            steps_planned: 0,
            measured: Vec::new(),
            covered: false,
            repaired: false,
            step_failures: 0,
            tokens_before: None,
            measured_by: None,
            runs: Vec::new(),
            lead_run: None,
            fan_out: Vec::new(),
            open_runs: 0,
            open_fan_out: 0,
            unopened: 0,
            messages_appended: 0,
            snapshot: Cached(None),
            prefixes: Cached(None),
            headrooms: Cached(None),
            needs: Lazy::default(),
            rules: self.tool_rules.clone(),
            hooks_due: Vec::new(),
            hook_instructions: Vec::new(),
            call_cap: self.call_cap,
            settings: self.settings.clone(),
            accepted: accepted.clone(),
            accepted_event: self.events + 1,
        };
        self.turns.insert(accepted.id, Box::new(turn));
        Ok(())
    }

    fn team(&self, accepted: &AcceptedTurn) -> Result<Team, Error> {
        let find = |digest: &Digest| -> Result<Arc<Definition>, Error> {
            let known = self.definitions.get(digest).cloned();
            known.ok_or(Error::UnknownDefinition(*digest))
        };
        let delegates = accepted.delegates.iter().map(|(digest, task)| {
            Ok(Assignment {
                agent: find(digest)?,
                task: task.clone(),
            })
        });
        Ok(Team {
            lead: find(&accepted.lead)?,
            delegates: delegates.collect::<Result<_, Error>>()?,
            available: accepted
                .available
                .iter()
                .map(find)
                .collect::<Result<_, Error>>()?,
        })
    }

    pub(super) fn start(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let system = self.system.clone();
        let turn = self.turn_in(id, "start", |phase| *phase == Phase::Queued)?;
        turn.phase = Phase::Preparing;
        turn.started_at = at;
        turn.counts_from = at;
        let system = full_system_text(&system, &turn.instructions);
        turn.preamble = Preamble::new(system, turn.accepted.tools.clone());
        turn.needs = Lazy::default();
        if hooks::has_turn_hooks(&turn.accepted.work) {
            turn.schedule_hooks(HookEvent::TurnAccepted);
        }
        let branch = turn.accepted.branch.clone();
        if let Work::Answer { input, .. } = &turn.accepted.work {
            let mut input = input.clone();
            if input.role == Role::User {
                // Tool results come before the next text.
                let is_result = |part: &Part| matches!(part, Part::ToolResult { .. });
                let (results, texts) = input.parts.into_iter().partition(is_result);
                input.parts = texts;
                if !results.is_empty() {
                    self.append_own((id, Role::Tool), results, None, input.at)?;
                }
            }
            self.append(Some(&branch), self.tree.head(&branch), input)?;
        }
        Ok(())
    }

    pub(super) fn planned(&mut self, id: TurnId, plan: &Plan) -> Result<(), Error> {
        let turn = self.turn_in(id, "compaction plan", |phase| *phase == Phase::Preparing)?;
        turn.steps_planned += 1;
        turn.step_failures = 0;
        turn.repaired |= matches!(plan.step, Step::Regenerate { .. });
        turn.tokens_before.get_or_insert(plan.before);
        turn.measured_by.get_or_insert(plan.budget);
        turn.phase = Phase::Compacting(Box::new(plan.clone()));
        turn.hook_instructions.clear();
        if plan.step.cover().is_some() {
            turn.schedule_hooks(HookEvent::BeforeCompaction);
        }
        Ok(())
    }

    /// Records that a provider was asked for a count, and the calibration of its model.
    pub(super) fn measured(&mut self, id: TurnId, known: &Calibration) -> Result<(), Error> {
        let turn = self.turn_in(id, "count by a provider", |phase| {
            matches!(phase, Phase::Preparing | Phase::Compacting(_))
        })?;
        turn.measured.push(known.model.clone());
        let calibrations = turn.accepted.calibrations.iter_mut();
        for before in calibrations.filter(|before| before.model == known.model) {
            *before = known.clone();
        }
        Ok(())
    }

    pub(super) fn preparing(&mut self, id: TurnId) -> Result<&mut Turn, Error> {
        self.turn_in(id, "decision about topics", |phase| {
            *phase == Phase::Preparing
        })
    }

    pub(super) fn compacting(&mut self, id: TurnId) -> Result<&mut Turn, Error> {
        self.turn_in(id, "compaction step", |phase| {
            matches!(phase, Phase::Compacting(_))
        })
    }

    /// A failed step may be retried. A summary whose regeneration failed stays as it is: the turn
    /// continues without it, and a later turn tries again.
    pub(super) fn step_failed(&mut self, id: TurnId, at: Timestamp) -> Result<(), Error> {
        let turn = self.compacting(id)?;
        turn.step_failures += 1;
        let Phase::Compacting(plan) = &turn.phase else {
            return Ok(());
        };
        if let Step::Regenerate { cover, .. } = &plan.step {
            let replaced = cover.supersedes.clone();
            turn.phase = Phase::Preparing;
            for old in replaced {
                Arc::make_mut(&mut self.checkpoints).repair_failed(old, at);
            }
        }
        Ok(())
    }

    pub(super) fn step_done(&mut self, id: TurnId) -> Result<&mut Turn, Error> {
        let turn = self.compacting(id)?;
        turn.phase = Phase::Preparing;
        Ok(turn)
    }

    /// Records that a step made a checkpoint, or that a person's text became one.
    pub(super) fn covered(&mut self, id: TurnId, checkpoint: CheckpointId) -> Result<(), Error> {
        let turn = self.turn_mut(id)?;
        let turn = match turn.accepted.work {
            Work::Edit { .. } => self.turn_in(id, "edit", |p| *p == Phase::Preparing)?,
            _ => self.step_done(id)?,
        };
        turn.covered = true;
        let branch = turn.accepted.branch.clone();
        // Another text of a summary is not the compaction that a lead requested.
        if turn.accepted.work.checkpoint().is_none() {
            self.requested_compactions.remove(&branch);
        }
        self.preparation_used(&branch, checkpoint);
        Ok(())
    }

    /// Replaces messages by a checkpoint, and schedules hooks if a turn made it.
    pub(super) fn compacted(
        &mut self,
        turn: Option<TurnId>,
        checkpoint: &Arc<Checkpoint>,
    ) -> Result<(), Error> {
        let plan = turn.and_then(|turn| self.step_under_way(turn));
        let tightened = plan.is_some_and(|plan| plan.tightened);
        if let Some(turn) = turn {
            self.covered(turn, checkpoint.id)?;
        }
        let checkpoints = Arc::make_mut(&mut self.checkpoints);
        checkpoints.add(checkpoint.clone());
        if tightened {
            checkpoints.note_tightened(checkpoint.id);
        }
        if let Some(turn) = turn.and_then(|turn| self.turns.get_mut(&turn)) {
            turn.schedule_hooks(HookEvent::AfterCompaction);
        }
        Ok(())
    }

    /// Adds a step to a run. A call of `compact` that a lead made requests a compaction.
    pub(super) fn stepped(&mut self, id: RunId, step: &Arc<run::Step>) -> Result<(), Error> {
        let run = self.run_mut(id)?;
        let asks = run.role == RunRole::Lead && has_called_compact(&run.steps, step);
        run.steps.push(step.clone());
        let turn = run.turn;
        if let Some(turn) = self.turns.get(&turn).filter(|_| asks)
            && tool::allows(&turn.team.lead.tools, tool::COMPACT)
        {
            self.requested_compactions
                .insert(turn.accepted.branch.clone());
        }
        Ok(())
    }

    pub(super) fn reverted(
        &mut self,
        id: Option<TurnId>,
        checkpoint: CheckpointId,
        before: Tokens,
    ) -> Result<(), Error> {
        let Some(id) = id else {
            Arc::make_mut(&mut self.checkpoints).retire(checkpoint);
            return Ok(());
        };
        let turn = self.turn_in(id, "revert", |phase| *phase == Phase::Preparing)?;
        turn.covered = true;
        turn.tokens_before = Some(before);
        let branch = turn.accepted.branch.clone();
        if let Some(head) = self.tree.head(&branch) {
            let (checkpoints, alterations) = self.without_checkpoint(head, checkpoint);
            (self.checkpoints, self.alterations) = (checkpoints.into(), alterations.into());
        }
        Ok(())
    }

    pub(super) fn frozen(
        &mut self,
        id: TurnId,
        snapshot: SnapshotId,
        manifest: &Manifest,
    ) -> Result<(), Error> {
        let turn = self.turn_in(id, "freeze", |phase| *phase == Phase::Preparing)?;
        turn.phase = Phase::Frozen {
            snapshot,
            manifest: Box::new(manifest.clone()),
            delivered: false,
        };
        let branch = turn.accepted.branch.clone();
        self.requested_compactions.remove(&branch);
        Ok(())
    }

    pub(super) fn opened(&mut self, run: &OpenedRun, at: Timestamp) -> Result<(), Error> {
        let frozen = |phase: &Phase| matches!(phase, Phase::Frozen { .. });
        let turn = self.turn_in(run.turn, "run", frozen)?;
        let first = turn.runs.is_empty();
        turn.runs.push(run.id);
        turn.open_runs += 1;
        match run.role {
            RunRole::Lead => turn.lead_run = Some(run.id),
            RunRole::Delegate { .. } => {
                turn.fan_out.push(run.id);
                turn.open_fan_out += 1;
            }
            RunRole::Child { parent, round, .. } => self.child_opened(parent, round)?,
        }
        let event = self.events + 1;
        self.runs.insert(run.id, Run::new(run, at, event));
        if first && run.role != RunRole::Lead {
            self.append_calls(run.turn, at)?;
        }
        Ok(())
    }

    pub(super) fn retried(
        &mut self,
        run: RunId,
        attempt: u32,
        not_before: Timestamp,
        reason: &Arc<str>,
    ) -> Result<(), Error> {
        let bounded = self.is_bounded(run);
        let run = self.run_mut(run)?;
        if !bounded {
            run.requested = Some(run.next_request());
        }
        let first = run.failures.take().map(|(first, _)| first);
        run.failures = Some((first.unwrap_or_else(|| reason.clone()), reason.clone()));
        (run.attempt, run.not_before) = (attempt, not_before);
        Ok(())
    }

    pub(super) fn run_ended(
        &mut self,
        id: RunId,
        ending: &Arc<Ending>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let run = self.run_mut(id)?;
        let was_held = run.waits_for_person();
        run.ending = Some(ending.clone());
        let (turn_id, role) = (run.turn, run.role);
        let turn = self.turn_mut(turn_id)?;
        turn.open_runs = turn.open_runs.saturating_sub(1);
        if was_held {
            turn.counts_from = at;
        }
        match role {
            RunRole::Lead => {}
            RunRole::Delegate { .. } => {
                turn.open_fan_out = turn.open_fan_out.saturating_sub(1);
                if turn.open_fan_out == 0 && turn.fan_out.len() >= turn.team.delegates.len() {
                    self.append_results(turn_id, at)?;
                }
            }
            RunRole::Child { parent, round, .. } => self.child_ended(parent, round, at)?,
        }
        self.give_up_unopened(id, at)
    }

    pub(super) fn end(
        &mut self,
        id: TurnId,
        outcome: &Outcome,
        at: Timestamp,
    ) -> Result<(), Error> {
        // A turn that ended while its fan-out was being opened leaves no unanswered call.
        self.append_results(id, at)?;
        let turn = self.turn_mut(id)?;
        let branch = turn.accepted.branch.clone();
        let accepted = turn.accepted_event;
        let mut answer = None;
        if *outcome == Outcome::Answered {
            let parts = self.answer_parts(id)?;
            let lead = self.turn_mut(id)?.lead_run;
            let usage = self.reported_usage(lead);
            let written = self.append_own((id, Role::Assistant), parts, usage, at)?;
            self.record_step_location(written, lead);
            answer = Some(written);
        } else if let Work::Answer { input, .. } = &turn.accepted.work {
            let (input, lead) = (input.id, turn.lead_run);
            if let Some(location) = self.location_of_steps(lead) {
                Arc::make_mut(&mut self.unanswered).insert(input, location);
            }
        }
        if let Some(turn) = self.turns.remove(&id) {
            for run in &turn.runs {
                self.runs.remove(run);
            }
            self.schedule_end_hooks(&turn);
        }
        let mut worked = true;
        if let Some(queue) = self.queues.get_mut(&branch) {
            worked = queue.front() == Some(&id);
            queue.retain(|queued| *queued != id);
            if queue.is_empty() {
                self.queues.remove(&branch);
            }
        }
        // A turn that is still queued may be cancelled while another one works.
        if worked {
            self.append_waiting(&branch)?;
        }
        let ended = EndedTurn {
            accepted,
            outcome: outcome.clone(),
            answer,
        };
        Arc::make_mut(&mut self.ended).insert(accepted, (id, ended));
        Arc::make_mut(&mut self.ended_ids).insert(id, accepted);
        Ok(())
    }

    /// The text of the lead's answer, and the calls that it leaves to the client.
    fn answer_parts(&self, id: TurnId) -> Result<Vec<Part>, Error> {
        let turn = self.turns.get(&id).ok_or(Error::UnknownTurn(id))?;
        let lead = turn.run(RunRole::Lead).and_then(|run| self.runs.get(&run));
        match lead.and_then(|run| run.ending.as_deref()) {
            Some(Ending::Finished { text, calls, .. }) => {
                let has_text = calls.is_empty() || !text.trim().is_empty();
                let text = has_text.then(|| Part::Text(text.clone()));
                let calls = calls.iter().map(|call| {
                    Part::tool_call(call.id.clone(), call.name.clone(), call.arguments.clone())
                });
                Ok(text.into_iter().chain(calls).collect())
            }
            _ => Err(Error::Phase {
                event: "answer",
                turn: id,
            }),
        }
    }

    pub(super) fn turn_mut(&mut self, id: TurnId) -> Result<&mut Turn, Error> {
        let turn = self.turns.get_mut(&id).map(|turn| &mut **turn);
        turn.ok_or(Error::UnknownTurn(id))
    }

    /// The turn, if its phase permits the event.
    fn turn_in(
        &mut self,
        id: TurnId,
        event: &'static str,
        allowed: impl Fn(&Phase) -> bool,
    ) -> Result<&mut Turn, Error> {
        let turn = self.turn_mut(id)?;
        if allowed(&turn.phase) {
            Ok(turn)
        } else {
            Err(Error::Phase { event, turn: id })
        }
    }

    pub(super) fn run_mut(&mut self, id: RunId) -> Result<&mut Run, Error> {
        let run = self.runs.get_mut(&id).filter(|run| run.is_open());
        run.ok_or(Error::UnknownRun(id))
    }
}

/// Whether a step has the result of a call of `compact` in the last reply before it. A call that was
/// not made has an error as its result.
fn has_called_compact(before: &[Arc<run::Step>], step: &run::Step) -> bool {
    let run::Step::Tools(results) = step else {
        return false;
    };
    let reply = before.iter().rev().find_map(|step| step.reply());
    let calls = reply.into_iter().flat_map(|reply| &reply.calls);
    calls
        .zip(results)
        .any(|(call, result)| *call.name == *tool::COMPACT && !result.is_error)
}
