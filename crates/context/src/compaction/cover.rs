//! Steps that make a checkpoint: they summarise or drop the messages before the kept part.

use std::sync::Arc;

use crate::checkpoint::{Body, Checkpoint, Kind, Span, Tier, Writer};
use crate::policy::Method;
use crate::tokens::{Ppm, Tokens};

use super::situation::{NOTE, Situation, replaced};
use super::unit::Unit;
use super::{Cover, Mode, Plan, Step, keep, summary_cap};

/// Below this size no summary is requested.
pub(super) const SMALLEST_SUMMARY: Tokens = Tokens(32);
/// A requested summary has at most this part of the new messages' tokens: a person gives up the
/// messages for more than a few tokens. The tokens of the summaries that it replaces are added, so that
/// requests in a row do not shorten it more and more.
const WORTHWHILE: Ppm = Ppm::percent(90);

/// The limit that a step must reach.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The target of the compaction, and the usable tokens.
    Target,
    /// Only the usable tokens.
    Usable,
}

/// Summarises or drops the messages before the kept part. If the preset's kept part leaves no room
/// for a summary, it is halved until one unit is left; then the summary's cap is halved twice. If
/// the target cannot be reached at all, as little as possible is kept.
pub(super) fn cover(s: &Situation<'_>) -> Option<Plan> {
    let starts = starts(s);
    let last = *starts.last()?;
    let asked = keep::first_asked_for(s).unwrap_or(starts[0]);
    let fresh = |start: usize, reach| {
        let plan = before(s, start, reach, start > asked)?;
        let fresh = plan.step.cover().is_some_and(|c| !c.fresh.is_empty());
        fresh.then_some(plan)
    };
    // A lone summary is redone, smaller, only if no verbatim message can leave.
    let redone = || before(s, last, Reach::Target, true).filter(|_| s.may_keep_less());
    (starts.iter().find_map(|start| fresh(*start, Reach::Target)))
        .or_else(redone)
        .or_else(|| fresh(last, Reach::Usable))
        .or_else(|| until_it_fits(s, last))
}

/// The starts to try: the preset's own, then later ones, each once.
fn starts(s: &Situation<'_>) -> Vec<usize> {
    let halvings = if s.may_keep_less() { u64::BITS } else { 0 };
    let mut starts: Vec<usize> = Vec::new();
    for start in (0..=halvings).map_while(|halvings| keep::start(s, halvings)) {
        if starts.last().is_none_or(|last| start > *last) {
            starts.push(start);
        }
        if start == s.latest_start {
            break;
        }
    }
    starts
}

/// Above the usable tokens, even messages leave that the preset always keeps.
fn until_it_fits(s: &Situation<'_>, from: usize) -> Option<Plan> {
    if !s.over_usable() {
        return None;
    }
    let mut start = from;
    loop {
        if let Some(plan) = before(s, start, Reach::Usable, true) {
            return Some(plan);
        }
        if start >= s.latest_start {
            return None;
        }
        start += (s.latest_start - start).div_ceil(2);
    }
}

/// The step that covers everything before `start`, if it shrinks the context and reaches its limit.
fn before(s: &Situation<'_>, start: usize, reach: Reach, tightened: bool) -> Option<Plan> {
    let Method::Summarise { .. } = s.policy.method else {
        let room = block_limit(s, start, reach, true);
        return (room >= NOTE).then(|| drop_range(s, start, tightened))?;
    };
    let room = block_limit(s, start, reach, false);
    let largest = summary_cap(s.policy);
    if room < SMALLEST_SUMMARY.min(largest) {
        return None;
    }
    let cover = coverage(s, start, false)?;
    let smallest = smallest_summary(largest, s.target);
    let shrinking = match s.mode {
        Mode::Manual { .. } => {
            let earlier = match &cover.fresh[..] {
                [] => Tokens::ZERO,
                _ => s.blocks(&cover.supersedes),
            };
            let new = cover.original.minus(earlier);
            (earlier + WORTHWHILE.share_of(new)).minus(s.budget.per_message)
        }
        _ => cover.original.minus(s.budget.per_message + Tokens(1)),
    };
    let cap = largest.min(room).min(shrinking);
    (room >= smallest.min(shrinking) && cap >= SMALLEST_SUMMARY.min(largest)).then(|| {
        let writer = writer(s);
        let step = Step::Summarise {
            cover,
            tier: Tier::Conversation,
            cap,
            writer,
        };
        s.plan(step, tightened)
    })
}

/// Below this room no summary is requested, given its maximum size.
pub(super) fn smallest_summary(largest: Tokens, target: Tokens) -> Tokens {
    Tokens(largest.0 / 4)
        .min(Tokens(target.0 / 8))
        .max(SMALLEST_SUMMARY)
        .min(largest)
}

/// The step that leaves only a note for everything before `start`, if that shrinks the context. A
/// lone note stays.
pub(super) fn drop_range(s: &Situation<'_>, start: usize, tightened: bool) -> Option<Plan> {
    let cover = coverage(s, start, true)?;
    let is_note = |c: &Arc<Checkpoint>| c.body == Body::Tombstone;
    let lone_note = cover.fresh.is_empty()
        && cover.supersedes.len() == 1
        && s.view.active().iter().all(is_note);
    // Content that is dropped in order to fit counts at its upper bound, like the usable tokens.
    let worth = if s.over_usable() {
        s.effective.at_most.minus(s.staying(start, true).at_most)
    } else {
        cover.original
    };
    (!lone_note && worth > s.note()).then(|| s.plan(Step::Drop { cover }, tightened))
}

/// Tokens for a block that covers everything before `start`. An estimated count is used as it is
/// for the target, and at its upper bound for the usable tokens.
fn block_limit(s: &Situation<'_>, start: usize, reach: Reach, notes_too: bool) -> Tokens {
    let staying = s.staying(start, notes_too);
    let usable = s.budget.usable.minus(staying.at_most);
    let room = match reach {
        Reach::Target => usable.min(s.target.minus(staying.tokens)),
        Reach::Usable => usable,
    };
    room.minus(s.budget.per_message)
}

/// Models write until the quota is used up; a person's own request is not counted.
pub(super) fn writer(s: &Situation<'_>) -> Writer {
    let quota_reached = s.policy.quota.is_some_and(|quota| {
        let since = s.now.plus_ms(-quota.per_ms);
        s.view.checkpoints().model_made_between(since, s.now) >= quota.checkpoints
    });
    if quota_reached && s.mode.kind() == Kind::Auto {
        Writer::Deterministic
    } else {
        Writer::Model
    }
}

/// Everything before the unit at `start` except pinned units: the coverage of replaced blocks, and
/// verbatim messages. None if that is empty.
fn coverage(s: &Situation<'_>, start: usize, notes_too: bool) -> Option<Cover> {
    let old: Vec<&Checkpoint> = s
        .view
        .active()
        .iter()
        .map(|c| &**c)
        .filter(|c| replaced(c, notes_too))
        .collect();
    let leaving: Vec<&Unit> = s.units[..start]
        .iter()
        .filter(|unit| !unit.pinned)
        .collect();
    covering(s, &leaving, &old)
}

/// The cover of units that leave and of blocks that it replaces. None if that is empty.
pub(super) fn covering(s: &Situation<'_>, leaving: &[&Unit], old: &[&Checkpoint]) -> Option<Cover> {
    let fresh = Span::merged(leaving.iter().map(|unit| unit.span).collect());
    let fresh = common(&fresh, s.view.uncovered());
    let covered = old.iter().flat_map(|c| c.covers.iter().copied());
    let spans = Span::merged(covered.chain(fresh.iter().copied()).collect());
    let blocks: Tokens = old.iter().map(|c| s.block(c).tokens).sum();
    let messages: Tokens = leaving.iter().map(|unit| unit.count.tokens).sum();
    Some(Cover {
        cutoff: spans.last()?.last,
        spans,
        fresh,
        supersedes: old.iter().map(|c| c.id).collect(),
        original: messages + blocks,
    })
}

/// The intersection; each list is ascending and disjoint. A unit may extend over a covered range if
/// a result arrived late.
pub(super) fn common(spans: &[Span], others: &[Span]) -> Vec<Span> {
    let mut out = Vec::new();
    for span in spans {
        let from = others.partition_point(|other| other.last < span.first);
        let touching = others[from..]
            .iter()
            .take_while(|other| other.first <= span.last);
        out.extend(
            touching.map(|other| Span::new(other.first.max(span.first), other.last.min(span.last))),
        );
    }
    out
}
