//! Which step comes next: mask, then summarise or drop, then cut.

use crate::alteration::{Form, longest_chars};
use crate::budget::Budget;
use crate::checkpoint::{Span, Writer};
use crate::ids::Timestamp;
use crate::policy::{Keep, Method, Policy, Preset};
use crate::tokens::{Count, Tokens};
use crate::view::{Item, View};

use super::unit::{self, Unit, position};
use super::{Cover, Error, MaskTarget, Mode, Plan, Step, keep, summary_cap};

/// Tokens taken for the note that stands for a dropped range.
const NOTE: Tokens = Tokens(32);
/// No summary is asked for below this.
const SMALLEST_SUMMARY: Tokens = Tokens(32);
/// A cut leaves at least this many Unicode scalars of a message.
const SMALLEST_CUT: u64 = 64;

/// All that a decision depends on.
pub(super) struct Situation<'a> {
    pub view: &'a View<'a>,
    pub budget: Budget,
    pub effective: Count,
    pub policy: &'a Policy,
    pub keep: Keep,
    pub target: Tokens,
    pub note: Tokens,
    pub units: Vec<Unit>,
    items: Vec<Item<'a>>,
    mode: Mode,
    now: Timestamp,
}

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
        let keep = match mode {
            Mode::Manual { keep } => keep.unwrap_or(Keep::Tokens {
                amount: Tokens::ZERO,
                align: 0,
            }),
            Mode::Check | Mode::Continue => policy.keep,
        };
        Situation {
            units: unit::units(view, &items, &budget),
            view,
            budget,
            effective,
            policy,
            keep,
            target: policy.target_amount(&budget),
            note: NOTE + budget.per_message,
            items,
            mode,
            now,
        }
    }

    pub(super) fn over_usable(&self) -> bool {
        self.effective.at_most > self.budget.usable
    }

    /// The last index a kept part may start at: the newest unit stays, and so does an
    /// unanswered call of the open turn with all after it.
    pub(super) fn latest_start(&self) -> usize {
        let newest = self.units.len().saturating_sub(1);
        let turn = self.units.iter().rposition(|unit| unit.user);
        let from = turn.map_or(self.view.len(), |at| self.units[at].span.first);
        let open = self.view.tree().first_open_call(self.view.head(), from);
        open.and_then(|call| position(&self.units, call))
            .map_or(newest, |at| at.min(newest))
    }

    /// Tokens that stay when the kept part starts at `start`: it, and older pinned units.
    fn staying(&self, start: usize) -> Tokens {
        let pinned = self.units[..start].iter().filter(|unit| unit.pinned);
        pinned
            .chain(&self.units[start..])
            .map(|unit| unit.tokens)
            .sum()
    }

    fn plan(&self, step: Step, tightened: bool) -> Plan {
        Plan {
            step,
            budget: self.budget,
            before: self.effective.tokens,
            target: self.target,
            tightened,
        }
    }

    fn overflow(&self) -> Error {
        Error::Overflow {
            needed: self.staying(self.latest_start()),
            usable: self.budget.usable,
            window: self.budget.window,
        }
    }
}

/// The next step of a compaction that is due.
pub(super) fn next(s: &Situation<'_>) -> Result<Option<Plan>, Error> {
    let off = s.policy.preset == Preset::Off && !matches!(s.mode, Mode::Manual { .. });
    let step = if off {
        None
    } else {
        mask(s)
            .or_else(|| cover(s))
            .or_else(|| cut(s))
            .or_else(|| drop_rest(s))
    };
    match step {
        None if s.over_usable() => Err(s.overflow()),
        step => Ok(step),
    }
}

/// Masks every old, large tool result that is not masked yet.
fn mask(s: &Situation<'_>) -> Option<Plan> {
    let masking = s.policy.masking?;
    let results = s
        .items
        .iter()
        .filter(|item| item.node.message.is_tool_result());
    let old = results.rev().skip(masking.keep_newest as usize);
    let mut targets: Vec<MaskTarget> = old
        .filter(|item| item.alteration.is_none() && !s.view.is_pinned(item.ordinal()))
        .map(|item| MaskTarget {
            message: item.node.message.id,
            ordinal: item.ordinal(),
            tokens: item.count(s.budget.encoding).tokens,
        })
        .filter(|target| target.tokens > masking.over)
        .collect();
    targets.reverse();
    (!targets.is_empty()).then(|| s.plan(Step::Mask(targets), false))
}

/// Summarises or drops what is older than the kept part. Where the preset's kept part leaves no
/// room for a summary it is halved until one unit is left; then the summary's cap is halved
/// twice; then only a note stays.
fn cover(s: &Situation<'_>) -> Option<Plan> {
    let mut last = None;
    for halvings in 0..=64 {
        let start = keep::start(s, halvings)?;
        if last == Some(start) && start != s.latest_start() {
            continue;
        }
        last = Some(start);
        if let Some(plan) = cover_before(s, start, s.target, halvings > 0) {
            return Some(plan);
        }
        if start == s.latest_start() {
            break;
        }
    }
    let plan = cover_before(s, last?, s.budget.usable, true)?;
    (s.over_usable() || takes_fresh(&plan)).then_some(plan)
}

/// Whether a step covers messages that were verbatim: redoing a summary is not worth it unless
/// the context would not fit otherwise.
fn takes_fresh(plan: &Plan) -> bool {
    match &plan.step {
        Step::Summarise { cover, .. } | Step::Drop { cover } => !cover.fresh.is_empty(),
        Step::Mask(_) | Step::Cut { .. } => true,
    }
}

/// The step that covers all before `start`, if it can end at or below `limit` and shrinks.
fn cover_before(s: &Situation<'_>, start: usize, limit: Tokens, tightened: bool) -> Option<Plan> {
    let cover = coverage(s, start)?;
    let room = limit.minus(s.staying(start)).minus(s.budget.per_message);
    if matches!(s.policy.method, Method::Drop) {
        return (room >= NOTE && cover.original > s.note)
            .then(|| s.plan(Step::Drop { cover }, tightened));
    }
    let largest = summary_cap(s.policy);
    let quarter = Tokens(largest.0 / 4)
        .min(Tokens(s.target.0 / 8))
        .max(SMALLEST_SUMMARY);
    let cap = largest.min(room).min(cover.original.minus(Tokens(1)));
    let shrinks_by_itself = !cover.fresh.is_empty() || cap < superseded_tokens(s);
    (cap >= quarter.min(largest) && shrinks_by_itself).then(|| {
        s.plan(
            Step::Summarise {
                cover,
                cap,
                writer: writer(s),
            },
            tightened,
        )
    })
}

/// Models write until the quota is used up; a person's own request is not counted.
fn writer(s: &Situation<'_>) -> Writer {
    let used_up = s.policy.quota.is_some_and(|quota| {
        let since = s.now.plus_ms(-quota.per_ms);
        s.view.checkpoints().model_made_since(since) >= quota.checkpoints
    });
    if used_up && !matches!(s.mode, Mode::Manual { .. }) {
        Writer::Deterministic
    } else {
        Writer::Model
    }
}

fn superseded_tokens(s: &Situation<'_>) -> Tokens {
    let counts = s
        .view
        .active()
        .iter()
        .filter_map(|c| c.counts.get(s.budget.encoding));
    counts.map(|count| count.tokens).sum()
}

/// All before the unit at `start` except pinned units: what active checkpoints stand for, and
/// what is verbatim now. None when that is nothing.
fn coverage(s: &Situation<'_>, start: usize) -> Option<Cover> {
    let leaving: Vec<&Unit> = s.units[..start]
        .iter()
        .filter(|unit| !unit.pinned)
        .collect();
    let fresh = merged(leaving.iter().map(|unit| unit.span).collect());
    let active = s.view.active();
    let covered = active.iter().flat_map(|c| c.covers.iter().copied());
    let spans = merged(covered.chain(fresh.iter().copied()).collect());
    let cutoff = spans.last()?.last;
    Some(Cover {
        spans,
        fresh,
        cutoff,
        supersedes: active.iter().map(|c| c.id).collect(),
        original: leaving.iter().map(|unit| unit.tokens).sum::<Tokens>() + superseded_tokens(s),
    })
}

/// Sorted, with neighbours joined.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut out: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match out.last_mut() {
            Some(last) if span.first <= last.last.next() => last.last = last.last.max(span.last),
            _ => out.push(span),
        }
    }
    out
}

/// Cuts the largest message that may be cut, as far as it takes to reach the target.
fn cut(s: &Situation<'_>) -> Option<Plan> {
    if !s.over_usable() {
        return None;
    }
    let tokens = |item: &Item<'_>| item.count(s.budget.encoding).at_most;
    let may_be_cut = |item: &&Item<'_>| {
        let cut_before = matches!(item.alteration.map(|a| a.form), Some(Form::Cut { .. }));
        let free = Some(item.ordinal()) != s.view.pending() && !s.view.is_pinned(item.ordinal());
        free && !cut_before && tokens(item) > Tokens::ZERO
    };
    let largest = s
        .items
        .iter()
        .filter(may_be_cut)
        .max_by_key(|item| tokens(item))?;
    let (now, chars) = (tokens(largest), longest_chars(&largest.node.message) as u64);
    let limit = now.minus(s.effective.at_most.minus(s.target));
    let target_chars = (chars * limit.0 / now.0.max(1)).max(SMALLEST_CUT);
    (target_chars < chars).then(|| {
        let step = Step::Cut {
            message: largest.node.message.id,
            ordinal: largest.ordinal(),
            target_chars: target_chars as u32,
        };
        s.plan(step, true)
    })
}

/// The last resort before an overflow: only a note stays of all that may leave.
fn drop_rest(s: &Situation<'_>) -> Option<Plan> {
    if !s.over_usable() {
        return None;
    }
    let cover = coverage(s, s.latest_start())?;
    let worth_it = cover.original > s.note;
    worth_it.then(|| s.plan(Step::Drop { cover }, true))
}

/// What the note of a dropped range costs is bounded by [`NOTE`]; asserted by a test.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Body, block_text};
    use crate::ids::Ordinal;

    #[test]
    fn the_note_of_the_longest_range_is_within_its_allowance() {
        let all = [Span::new(Ordinal(1), Ordinal(u32::MAX))];
        let text = block_text(&all, &Body::Tombstone, &[]);
        assert!(text.chars().count() as u64 <= 4 * NOTE.0, "{text}");
    }
}
