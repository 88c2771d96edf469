//! Making the current topic smaller: cut its large messages, then summarise the messages between
//! its first and its last one.

use std::cmp::Reverse;

use crate::alteration::{Form, cuttable_chars};
use crate::checkpoint::{Checkpoint, Tier};
use crate::compaction::cover::covering;
use crate::compaction::shorten::{level, surely_shrinks, uncuttable_chars};
use crate::compaction::unit::Unit;
use crate::compaction::{Plan, Step};
use crate::ids::Ordinal;
use crate::policy::Large;
use crate::tokens::{Ppm, Tokens};
use crate::view::Item;

use super::Tiered;

/// Above this number of oversized messages, most of them are summarised before others are cut: each
/// cut is a step.
const MANY_CUTS: usize = 16;
/// The part of the length for a text that was cut before and still has too many tokens: texts of
/// uneven density take few cuts.
const CUT_AGAIN: Ppm = Ppm::percent(90);

/// Cuts the oversized messages of the current topic, the largest first, then summarises its middle; in
/// the other order if many messages are oversized.
pub(super) fn shrink(t: &Tiered<'_, '_>) -> Option<Plan> {
    match t.tiers.large {
        Large::OfTopic(part) => {
            let limit = part.share_of(t.limits[0]);
            let oversized = oversized(t, t.topic, limit);
            let are_many = oversized.len() > MANY_CUTS;
            let cut = || cut_largest(t, oversized, limit);
            if are_many {
                attention(t).or_else(cut)
            } else {
                cut().or_else(|| attention(t))
            }
        }
        Large::Chars(limit) => cut_tails(t, free(t, t.topic), limit).or_else(|| attention(t)),
    }
}

/// Cuts the largest oversized message of the context, or the tails of all: above `over` tokens
/// instead of the limit of the tiers. The cut is slightly shorter, so that the removed text is
/// longer than the note about it.
pub(super) fn cut_anywhere(t: &Tiered<'_, '_>, over: Option<Tokens>) -> Option<Plan> {
    let limit = match (over, t.tiers.large) {
        (Some(limit), _) => limit,
        (None, Large::OfTopic(part)) => part.share_of(t.limits[0]),
        (None, Large::Chars(limit)) => return cut_tails(t, free(t, Ordinal::FIRST), limit),
    };
    let length = t.s.policy.target.share_of(limit);
    cut_largest(t, oversized(t, Ordinal::FIRST, limit), length)
}

/// The messages from `first` on that may be cut and have more than so many tokens. Only units with more
/// are looked into.
fn oversized<'t, 'a>(t: &'t Tiered<'_, 'a>, first: Ordinal, limit: Tokens) -> Vec<&'t Item<'a>> {
    let is_large = |unit: &&Unit| limit > Tokens::ZERO && unit.count.tokens > limit;
    let large = t.s.units.iter().filter(is_large).flat_map(|unit| {
        let items = &t.s.items;
        let from = items.partition_point(|item| item.ordinal() < unit.span.first);
        let of_unit = move |item: &&Item<'_>| item.ordinal() <= unit.span.last;
        items[from..].iter().take_while(of_unit)
    });
    let is_over = |item: &&Item<'_>| {
        item.ordinal() >= first && is_free(t, item) && item.count(&t.s.budget).tokens > limit
    };
    large.filter(is_over).collect()
}

/// The messages from `first` on that may be cut.
fn free<'t, 'a>(t: &'t Tiered<'_, 'a>, first: Ordinal) -> impl Iterator<Item = &'t Item<'a>> {
    let own = t.s.items.iter().filter(move |item| item.ordinal() >= first);
    own.filter(|item| is_free(t, item))
}

fn is_free(t: &Tiered<'_, '_>, item: &Item<'_>) -> bool {
    !t.s.is_protected(item.ordinal()) && !matches!(item.form(), Some(Form::Masked { .. }))
}

/// Cuts the largest message that can be cut to about so many tokens.
fn cut_largest(
    t: &Tiered<'_, '_>,
    mut items: Vec<&Item<'_>>,
    length_tokens: Tokens,
) -> Option<Plan> {
    let tokens = |item: &Item<'_>| item.count(&t.s.budget).tokens;
    items.sort_by_key(|item| Reverse(tokens(item)));
    let cut = items.into_iter().find_map(|item| {
        let length_tokens = match item.form() {
            Some(Form::Cut { .. }) => CUT_AGAIN.share_of(length_tokens),
            _ => length_tokens,
        };
        let target_chars = length(item, tokens(item), length_tokens)?;
        Some(Step::Cut {
            message: item.node.message.id,
            ordinal: item.ordinal(),
            target_chars,
        })
    });
    Some(t.s.plan(cut?, false))
}

/// The length of a message's texts at which its Unicode scalars correspond to its tokens:
/// floor(scalars × limit / tokens). None if that cuts nothing.
fn length(item: &Item<'_>, tokens: Tokens, limit: Tokens) -> Option<u32> {
    let message = &item.node.message;
    let texts = cuttable_chars(message, item.form());
    let longest = texts.iter().copied().max()?;
    let fixed = uncuttable_chars(message);
    let all = u128::from(texts.iter().sum::<u64>() + fixed);
    let target = all * u128::from(limit.0) / u128::from(tokens.0.max(1));
    let allowed = u64::try_from(target).ok()?.saturating_sub(fixed);
    let length = level(texts, allowed).max(1);
    let cuts = length < longest && surely_shrinks(item, tokens, length);
    cuts.then(|| u32::try_from(length).unwrap_or(u32::MAX))
}

fn cut_tails<'i, 'a: 'i>(
    t: &Tiered<'_, '_>,
    items: impl Iterator<Item = &'i Item<'a>>,
    limit: u32,
) -> Option<Plan> {
    let over = |item: &&Item<'_>| {
        let mut texts = cuttable_chars(&item.node.message, item.form()).into_iter();
        let tokens = item.count(&t.s.budget).tokens;
        texts.any(|chars| chars > u64::from(limit))
            && surely_shrinks(item, tokens, u64::from(limit))
    };
    let large = items.filter(over);
    let messages: Vec<_> = large
        .map(|item| (item.node.message.id, item.ordinal()))
        .collect();
    let step = Step::Truncate {
        messages,
        target_chars: limit,
    };
    (!step.forms().is_empty()).then(|| t.s.plan(step, false))
}

/// One summary of the greater part of the messages between the first and the last one, from the
/// second on; an earlier summary in it counts as one message. Whole units leave, and only if fewer
/// messages remain.
pub(super) fn attention(t: &Tiered<'_, '_>) -> Option<Plan> {
    let part = t.tiers.attention?;
    let units = t.s.units.get(t.first..)?;
    let is_own = |c: &Checkpoint| c.tier == Tier::Topic && c.first() >= t.topic;
    let before = t.summaries(is_own);
    let said: u64 = units.iter().map(|unit| u64::from(unit.span.len())).sum();
    let between = (said + before.len() as u64).saturating_sub(2);
    let most = (u128::from(between) * u128::from(part.0)).div_ceil(1_000_000);
    let last = t.s.latest_start.saturating_sub(t.first).min(units.len());
    let mut covered = before.len() as u128;
    let mut leaving = Vec::new();
    for unit in units.get(1..last)?.iter().filter(|unit| !unit.pinned) {
        if covered >= most {
            break;
        }
        covered += u128::from(unit.span.len());
        leaving.push(unit);
    }
    if leaving.is_empty() || covered < 2 {
        return None;
    }
    let cover = covering(t.s, &leaving, &before)?;
    t.summary(cover, Tier::Topic, t.tiers.topic_cap)
}
