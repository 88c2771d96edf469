//! Summaries that are written ahead: after a turn, when the next one will probably need them.
//!
//! A branch has at most one. It is planned with the end of a turn, written while no turn waits, and
//! used by the first turn whose compaction can use it. A dropped one stays until the branch has a
//! new checkpoint, so that no second one is paid for until then; only if the capacity for it was
//! missing is another one planned after the next turn.

use std::sync::Arc;

use unisono_context::alteration::{Alteration, Form};
use unisono_context::budget::Budget;
use unisono_context::checkpoint::{Checkpoint, Kind, Span};
use unisono_context::compaction::{
    self, Cover, ExpectedGrowth, MaskTarget, NewSummary, Plan, Step,
};
use unisono_context::digest::Hasher;
use unisono_context::message::Role;
use unisono_context::tokens::{Count, Counts};
use unisono_context::view::View;
use unisono_context::{
    CheckpointId, Digest, Encoding, MessageId, Ordinal, Ppm, RunId, Timestamp, Tokens, TurnId,
};

use crate::assignment::{AHEAD, CompactionJob};
use crate::event::{
    DropReason, PlannedPreparation, Preparation, PreparationStatus, Work, WrittenSummary,
};
use crate::ids;
use crate::input::EPHEMERAL;
use crate::state::State;
use crate::tool::HookEvent;
use crate::turn::{Phase, Turn};

impl State {
    /// The summary that is written ahead on a branch, or was dropped since its last checkpoint.
    pub fn preparation(&self, branch: &str) -> Option<&Preparation> {
        self.preparations.get(branch)
    }

    /// Whether the checkpoint is the prepared summary of a branch.
    pub fn is_prepared(&self, checkpoint: CheckpointId) -> bool {
        let mut all = self.preparations.values();
        all.any(|of| ids::prepared(of.planned.turn) == checkpoint)
    }

    /// The summaries that models write ahead.
    pub(crate) fn preparations_in_progress(&self) -> impl Iterator<Item = &Preparation> {
        let all = self.preparations.values();
        all.filter(|preparation| preparation.is_writing())
    }

    /// The summary that a model writes ahead after this turn.
    pub(crate) fn preparation_in_progress(&self, turn: TurnId) -> Option<&Preparation> {
        self.preparations_in_progress()
            .find(|preparation| preparation.planned.turn == turn)
    }

    /// Whether this is the account of a summary that a model writes ahead.
    pub(crate) fn is_preparing(&self, account: RunId) -> bool {
        let turn = self.budget.turn_of(account);
        turn.is_some_and(|turn| self.preparation_in_progress(turn).is_some())
    }

    /// The summary to write ahead after a turn that has ended; none if the next turn of its branch
    /// will probably need none, or may not use it.
    pub(crate) fn foreseen(&self, turn: &Turn, now: Timestamp) -> Option<PlannedPreparation> {
        let Work::Answer { input, .. } = &turn.accepted.work else {
            return None;
        };
        let branch = &turn.accepted.branch;
        let may = turn.accepted.prepare.is_some()
            && !self.labels.contains_key(EPHEMERAL)
            && !self.requested_compactions.contains(branch)
            && !has_hooks(turn)
            && turn.settings == self.settings;
        let head = self.tree.head(branch).filter(|_| may)?;
        // The branch is counted up to the input.
        let view = self.view(input.id, false)?;
        if self.checkpoints.rests(&self.tree, head) {
            return None;
        }
        let growth = self.growth(turn, &view, head)?;
        let budgets = self.required_budgets(turn, &view)?;
        let policy = &turn.accepted.policy;
        let foreseen = compaction::foresee(&view, &budgets, policy, growth, now)?;
        let cover = foreseen.plan.step.cover()?;
        Some(PlannedPreparation {
            turn: turn.accepted.id,
            branch: branch.clone(),
            model: turn.team.lead.model.clone(),
            range: self.range_digest(head, cover, &foreseen.masks)?,
            settings: settings_digest(turn),
            plan: foreseen.plan,
            masks: foreseen.masks,
        })
    }

    /// The messages after the turn's input, which are not counted yet, and an input like it.
    fn growth(&self, turn: &Turn, view: &View<'_>, head: MessageId) -> Option<ExpectedGrowth> {
        let limits = turn.team.lead.limits;
        let input = view.len();
        let input = self.tree.range(head, input..=input).into_iter().next()?;
        let tip = self.tree.get(head)?.ordinal();
        let later = match view.len() < tip {
            true => self.tree.range(head, view.len().next()..=tip),
            false => Vec::new(),
        };
        let budget = Budget::new(limits, Ppm(0), Tokens::ZERO);
        let known = input.count(&budget).unwrap_or_default();
        let mut growth = ExpectedGrowth {
            messages: 1,
            results: 0,
            tokens: known.tokens + limits.per_message,
        };
        for node in later {
            let bytes = node.message.countable_text().len() as u64;
            let tokens = Count::approximate(bytes).tokens;
            growth.messages += 1;
            growth.results += u32::from(node.role() == Role::Tool);
            growth.tokens += tokens + limits.per_message;
        }
        Some(growth)
    }

    /// Digest of everything in a range of the branch on which its summary depends: messages,
    /// replaced summaries, pins, masks (`masks` are counted as made) and cuts.
    fn range_digest(&self, head: MessageId, cover: &Cover, masks: &[MaskTarget]) -> Option<Digest> {
        let view = self.view(head, false)?;
        let mut h = Hasher::new("unisono/prepared-range", 1);
        h.digest(&self.tree.path_digest(head, cover.cutoff)?);
        for spans in [&cover.spans, &cover.fresh] {
            h.u64(spans.len() as u64);
            for Span { first, last } in spans {
                h.u64(first.0.into()).u64(last.0.into());
            }
        }
        let before = |of: &&Arc<Checkpoint>| of.first() <= cover.cutoff;
        for active in view.active().iter().filter(before) {
            h.bytes(&active.id.as_u128().to_be_bytes());
        }
        for pinned in view.pinned().filter(|at| *at <= cover.cutoff) {
            h.str("pinned").u64(pinned.0.into());
        }
        for Span { first, last } in &cover.fresh {
            for (ordinal, form) in self.forms(head, (*first, *last), masks) {
                h.str("form")
                    .u64(ordinal.0.into())
                    .str(&format!("{form:?}"));
            }
        }
        Some(h.finish())
    }

    /// The masks and cuts of a range of the branch, by position.
    fn forms(
        &self,
        head: MessageId,
        (first, last): (Ordinal, Ordinal),
        masks: &[MaskTarget],
    ) -> Vec<(Ordinal, Form)> {
        let on_branch = |made: &&Alteration| {
            let node = self.tree.node_at(head, made.ordinal);
            node.is_some_and(|node| node.message.id == made.message)
        };
        let made = self.alterations.range(first, last).filter(on_branch);
        let mut forms: Vec<_> = made.map(|made| (made.ordinal, made.form)).collect();
        let range = Span::new(first, last);
        for mask in masks.iter().filter(|mask| range.contains(mask.ordinal)) {
            if !forms.iter().any(|(ordinal, _)| *ordinal == mask.ordinal) {
                forms.push((mask.ordinal, masked(mask)));
            }
        }
        forms.sort_by_key(|(ordinal, _)| *ordinal);
        forms
    }

    /// The reason why a turn cannot use the prepared summary of its branch.
    pub(crate) fn drop_reason(&self, of: &Preparation, turn: &Turn) -> Option<DropReason> {
        if has_hooks(turn) || of.planned.settings != settings_digest(turn) {
            return Some(DropReason::Settings);
        }
        let head = self.tree.head(&turn.accepted.branch);
        let range = head
            .zip(of.cover())
            .and_then(|(head, cover)| self.range_digest(head, cover, &of.planned.masks));
        (range != Some(of.planned.range)).then_some(DropReason::Range)
    }

    /// The step of a turn that commits the prepared summary of its branch instead of carrying out
    /// `plan`. None if the context would not reach its target.
    pub(crate) fn with_prepared(
        &self,
        of: &Preparation,
        written: &WrittenSummary,
        turn: &Turn,
        plan: &Plan,
    ) -> Option<Plan> {
        let policy = &turn.accepted.policy;
        let head = self.tree.head(&turn.accepted.branch)?;
        let view = self.view(head, true)?;
        let made = new_summary(of, written, Timestamp::default());
        let step = &of.planned.plan.step;
        let checkpoint = Checkpoint::from_step(step, &view, Kind::Auto, policy.preset, made)?;
        let mut checkpoints = (*self.checkpoints).clone();
        checkpoints.add(Arc::new(checkpoint));
        let (tree, altered, pinned) = (&self.tree, &self.alterations, &self.pinned);
        let after = View::new(tree, &checkpoints, altered, pinned, head, true)?;
        let budgets = self.required_budgets(turn, &view)?;
        for budget in budgets.iter() {
            let (before, after) = (view.effective(budget)?, after.effective(budget)?);
            let target = policy.target_amount(budget);
            let fits = after.tokens <= target && after.at_most <= budget.usable;
            if !fits || !compaction::shrinks(before, after) {
                return None;
            }
        }
        let (before, after) = (
            view.effective(&plan.budget)?,
            after.effective(&plan.budget)?,
        );
        let block = written.counts.get(plan.budget.encoding)?.tokens + plan.budget.per_message;
        let mut step = step.clone();
        if let Step::Summarise { cover, .. } = &mut step {
            cover.original = before.tokens.minus(after.tokens) + block;
        }
        Some(Plan {
            step,
            tightened: of.planned.plan.tightened,
            ..plan.clone()
        })
    }

    /// The written summary that the step in progress of a turn commits.
    pub(crate) fn prepared_step(
        &self,
        turn: TurnId,
    ) -> Option<(&Preparation, &Arc<WrittenSummary>)> {
        let turn = self.turns.get(&turn)?;
        let Phase::Compacting(plan) = &turn.phase else {
            return None;
        };
        let of = self.preparations.get(&turn.accepted.branch)?;
        let PreparationStatus::Ready(written) = &of.status else {
            return None;
        };
        let answers = matches!(turn.accepted.work, Work::Answer { .. });
        let spans = |cover: Option<&Cover>| cover.map(|cover| cover.spans.clone());
        let is_same = spans(plan.step.cover()) == spans(of.cover());
        (answers && is_same && turn.hooks_due.is_empty()).then_some((of, written))
    }

    /// The job of the compactor that writes a summary ahead.
    pub fn preparation_job(&self, turn: TurnId) -> Option<CompactionJob> {
        let planned = &self.preparation_in_progress(turn)?.planned;
        let head = self.tree.head(&planned.branch)?;
        let find = |cover: &Cover| {
            let replaced = cover.supersedes.iter();
            replaced
                .filter_map(|id| self.checkpoints.get(*id))
                .collect()
        };
        let material = self.material(head, &planned.plan.step, find);
        let shown = material.messages.iter().chain(&material.recent);
        let altered = shown.filter_map(|said| self.alterations.get(said.ordinal, said.id));
        let masks = planned.masks.iter().map(|mask| Alteration {
            message: mask.message,
            ordinal: mask.ordinal,
            form: masked(mask),
            counts: Counts::default(),
        });
        let kept = self.kept(&material.prior);
        Some(CompactionJob {
            session: self.id?,
            turn,
            step: AHEAD,
            failures: 0,
            plan: planned.plan.clone(),
            kind: Kind::Auto,
            model: planned.model.clone(),
            alterations: altered.cloned().chain(masks).collect(),
            quoted: self.quoted(head, &planned.plan, &material.prior, &kept),
            kept,
            prior: material.prior,
            messages: material.messages,
            recent: material.recent,
            ahead: Vec::new(),
            encodings: Encoding::ALL.to_vec(),
            writing: Default::default(),
            settings: self.settings.clone(),
            bounded: self.is_bounded(ids::summaries(turn)),
        })
    }
}

pub(crate) fn new_summary(of: &Preparation, written: &WrittenSummary, at: Timestamp) -> NewSummary {
    let WrittenSummary {
        body,
        key_facts,
        counts,
        writer,
        model,
        cost_micros,
        duration_ms,
        degraded,
        coverage,
    } = written.clone();
    NewSummary {
        id: ids::prepared(of.planned.turn),
        writer,
        model,
        body,
        key_facts,
        counts,
        cost_micros,
        duration_ms,
        degraded,
        at,
        coverage,
    }
}

/// The maximum tokens of a prepared summary.
pub(crate) fn cap(of: &Preparation) -> Tokens {
    match &of.planned.plan.step {
        Step::Summarise { cap, cover, .. } => (*cap).min(cover.original.minus(Tokens(1))),
        _ => Tokens::ZERO,
    }
}

fn masked(mask: &MaskTarget) -> Form {
    Form::Masked {
        tokens: mask.tokens,
    }
}

/// Whether hooks are asked before compactions: their instructions are not known ahead.
fn has_hooks(turn: &Turn) -> bool {
    let mut hooks = turn.rules.hooks_for(HookEvent::BeforeCompaction);
    hooks.next().is_some()
}

/// Digest of the settings of a turn's compaction and its summarisers.
fn settings_digest(turn: &Turn) -> Digest {
    let mut h = Hasher::new("unisono/prepared-settings", 1);
    h.str(&format!("{:?}", turn.accepted.policy));
    h.str(&turn.team.lead.model);
    for (key, value) in turn.settings.iter() {
        h.str(key).str(value);
    }
    if let Some(summarisers) = &turn.accepted.prepare {
        h.digest(summarisers);
    }
    h.finish()
}
