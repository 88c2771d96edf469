//! All inputs of a planning decision, computed once.

use crate::budget::Budget;
use crate::checkpoint::{Body, Checkpoint, Kind};
use crate::ids::{CheckpointId, Ordinal, Timestamp};
use crate::message::Role;
use crate::policy::{Keep, Policy};
use crate::tokens::{Count, Tokens};
use crate::view::{self, Item, View};

use super::unit::{self, Unit, position};
use super::{Error, Mode, Plan, Step};

/// Tokens of the note that replaces a dropped range.
pub(super) const NOTE: Tokens = Tokens(32);

pub(super) struct Situation<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) budget: Budget,
    pub(super) effective: Count,
    pub(super) policy: &'a Policy,
    /// Settled for the window.
    pub(super) keep: Keep,
    /// From the policy, or from the person who compacts.
    pub(super) asked: Keep,
    pub(super) target: Tokens,
    pub(super) mode: Mode,
    pub(super) now: Timestamp,
    pub(super) items: Vec<Item<'a>>,
    pub(super) units: Vec<Unit>,
    /// The last index at which a kept part may start: the newest unit stays, and so does an
    /// unanswered call of the open turn with everything after it.
    pub(super) latest_start: usize,
    /// From here on everything is verbatim: an unanswered call of the open turn.
    open_from: Option<Ordinal>,
    /// For each start of the kept part, the tokens of the kept part and of older pinned units.
    staying: Vec<Count>,
}

/// The messages that a requested compaction keeps: the newest input and the exchange before it.
const REQUESTED_KEEPS: u32 = 3;

impl<'a> Situation<'a> {
    pub(super) fn new(
        view: &'a View<'a>,
        budget: Budget,
        effective: Count,
        policy: &'a Policy,
        mode: Mode,
        now: Timestamp,
    ) -> Self {
        let items = view.items();
        let units = unit::units(view, &items, &budget);
        let asked = match mode {
            Mode::Manual { keep } => keep.unwrap_or(Keep::Tokens {
                amount: Tokens::ZERO,
                align: 0,
            }),
            Mode::Requested => Keep::Messages(REQUESTED_KEEPS),
            Mode::Check | Mode::Rest | Mode::Continue | Mode::Part(_) => policy.keep,
        };
        let target = policy.target_amount(&budget);
        let open_from = open_from(view, &items);
        let newest = units.len().saturating_sub(1);
        let open_unit = open_from.and_then(|call| position(&units, call));
        Situation {
            latest_start: open_unit.map_or(newest, |at| at.min(newest)),
            staying: staying(&units),
            target,
            view,
            budget,
            effective,
            policy,
            keep: asked.scaled(budget.window, target),
            asked,
            mode,
            now,
            items,
            units,
            open_from,
        }
    }

    /// The first unit of the open turn with an unanswered call, or the end. A summary ends before
    /// it.
    pub(super) fn open_start(&self) -> usize {
        let open = self.open_from.and_then(|call| position(&self.units, call));
        open.unwrap_or(self.units.len())
    }

    pub(super) fn over_usable(&self) -> bool {
        self.effective.at_most > self.budget.usable
    }

    /// Whether fewer messages may be kept than the preset or a person requests: to reach the
    /// target, but against a person's request only in order to fit.
    pub(super) fn may_keep_less(&self) -> bool {
        let manual = self.mode.kind() == Kind::Manual;
        self.over_usable() || (!manual && self.effective.tokens > self.target)
    }

    /// Tokens of the note for a dropped range, the dialect's overhead included.
    pub(super) fn note(&self) -> Tokens {
        NOTE + self.budget.per_message
    }

    /// Tokens of a context block, the dialect's overhead included.
    pub(super) fn block(&self, checkpoint: &Checkpoint) -> Count {
        view::block(checkpoint, &self.budget).unwrap_or_default()
    }

    /// Tokens of these context blocks.
    pub(super) fn blocks(&self, ids: &[CheckpointId]) -> Tokens {
        let active = self.view.active().iter();
        let these = active.filter(|checkpoint| ids.contains(&checkpoint.id));
        these.map(|checkpoint| self.block(checkpoint).tokens).sum()
    }

    /// Tokens that stay if the kept part starts at `start`: the kept part, older pinned units, and
    /// the blocks that are not replaced. A summary replaces summaries, a note replaces everything:
    /// a dropped range is not part of a summary.
    pub(super) fn staying(&self, start: usize, notes_too: bool) -> Count {
        let kept = self
            .view
            .active()
            .iter()
            .filter(|c| !replaced(c, notes_too));
        let blocks: Count = kept.map(|c| self.block(c)).sum();
        self.staying.get(start).copied().unwrap_or_default() + blocks
    }

    /// Whether a message must be neither masked nor cut.
    pub(super) fn is_protected(&self, ordinal: Ordinal) -> bool {
        Some(ordinal) == self.view.pending()
            || self.view.is_pinned(ordinal)
            || self.open_from.is_some_and(|open| ordinal >= open)
    }

    /// The tokens that no step can remove, at their upper bound.
    pub(super) fn unavoidable(&self) -> Tokens {
        let fixed = self.items.iter().filter(|i| self.is_protected(i.ordinal()));
        fixed
            .map(|item| item.count(&self.budget).at_most + self.budget.per_message)
            .sum()
    }

    pub(super) fn overflow(&self, needed: Tokens) -> Error {
        Error::Overflow {
            needed,
            usable: self.budget.usable,
            window: self.budget.window,
        }
    }

    pub(super) fn plan(&self, step: Step, tightened: bool) -> Plan {
        Plan {
            step,
            budget: self.budget,
            before: self.effective.tokens,
            target: self.target,
            tightened,
        }
    }
}

/// Whether a new summary, or a new note, replaces a block.
pub(super) fn replaced(checkpoint: &Checkpoint, notes_too: bool) -> bool {
    notes_too || matches!(checkpoint.body, Body::Summary(_))
}

/// The start of the first unit that has an unanswered call of the open turn: a call after the
/// newest user message. If an input is pending, all turns before it are closed.
fn open_from(view: &View<'_>, items: &[Item<'_>]) -> Option<Ordinal> {
    let last_user = items.iter().rfind(|item| item.role() == Role::User);
    let last_covered = view.active().iter().map(|c| c.cutoff.next()).max();
    let turn = last_user.map(Item::ordinal).max(last_covered);
    let from = turn.unwrap_or(Ordinal::FIRST);
    view.tree().first_open_call(view.head(), from)
}

fn staying(units: &[Unit]) -> Vec<Count> {
    let all: Count = units.iter().map(|unit| unit.count).sum();
    let mut free_before = Count::default();
    let mut staying = Vec::with_capacity(units.len() + 1);
    staying.push(all);
    for unit in units {
        if !unit.pinned {
            free_before += unit.count;
        }
        staying.push(all.minus(free_before));
    }
    staying
}
