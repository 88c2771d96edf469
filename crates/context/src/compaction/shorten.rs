//! Steps that shorten single messages: they mask old tool results and cut large messages.

use std::cmp::Reverse;

use crate::alteration::{Form, cuttable_chars};
use crate::message::{Message, Part};
use crate::tokens::Tokens;
use crate::view::Item;

use super::situation::Situation;
use super::{MaskTarget, Plan, Step};

/// A generous estimate of the tokens of the reference that replaces a masked tool result: masking a
/// smaller result would not shrink anything.
const REFERENCE: Tokens = Tokens(32);
/// A cut leaves at least this many Unicode scalars of a text.
const SMALLEST_CUT: u64 = 64;
/// The number of cuts, each a step of the compaction, that are better than one note for everything.
const FEW_CUTS: usize = 16;

/// Masks every old, large tool result that is still complete.
pub(super) fn mask(s: &Situation<'_>) -> Option<Plan> {
    let masking = s.policy.masking?;
    let results = s.items.iter().filter(|i| i.node.is_tool_result());
    let old = results.rev().skip(masking.keep_newest as usize);
    let mut targets: Vec<MaskTarget> = old
        .filter(|item| item.alteration.is_none() && !s.is_protected(item.ordinal()))
        .map(|item| (item, item.count(&s.budget).tokens))
        .filter(|(_, tokens)| *tokens > masking.over)
        .filter(|(item, tokens)| shrinks_when_masked(&item.node.message, *tokens))
        .map(|(item, tokens)| MaskTarget {
            message: item.node.message.id,
            ordinal: item.ordinal(),
            tokens,
        })
        .collect();
    targets.reverse();
    (!targets.is_empty()).then(|| s.plan(Step::Mask(targets), false))
}

/// Whether the results in a message have more tokens than their references would have.
pub(super) fn shrinks_when_masked(message: &Message, tokens: Tokens) -> bool {
    let (mut references, mut results, mut all) = (0, 0_u64, 0_u64);
    for part in &message.parts {
        let bytes = part.countable_text().len() as u64;
        all += bytes;
        if matches!(part, Part::ToolResult { .. }) {
            references += 1;
            results += bytes;
        }
    }
    let share = u128::from(tokens.0) * u128::from(results) / u128::from(all.max(1));
    share > u128::from(REFERENCE.times(references).0)
}

/// The least tokens that masking this message frees.
pub(super) fn freed(target: &MaskTarget) -> Tokens {
    target.tokens.minus(REFERENCE)
}

/// Cuts the largest message that can be cut, as far as the target requires. Only above the usable
/// tokens.
pub(super) fn cut(s: &Situation<'_>) -> Option<Plan> {
    if !s.over_usable() {
        return None;
    }
    let (item, target_chars) = cuttable(s)
        .into_iter()
        .find_map(|item| cut_length(s, item).map(|length| (item, length)))?;
    let step = Step::Cut {
        message: item.node.message.id,
        ordinal: item.ordinal(),
        target_chars,
    };
    Some(s.plan(step, true))
}

/// Whether cuts of a few large messages can make the context fit.
pub(super) fn few_cuts_suffice(s: &Situation<'_>) -> bool {
    if !s.over_usable() {
        return false;
    }
    let excess = s.effective.at_most.minus(s.budget.usable);
    let largest = cuttable(s).into_iter().take(FEW_CUTS);
    let saved: Tokens = largest.map(|item| saved_by_shortest_cut(s, item)).sum();
    saved >= excess
}

/// The messages that may be cut, largest first.
fn cuttable<'s, 'a>(s: &'s Situation<'a>) -> Vec<&'s Item<'a>> {
    let masked = |item: &Item<'_>| matches!(item.form(), Some(Form::Masked { .. }));
    let free = s
        .items
        .iter()
        .filter(|item| !s.is_protected(item.ordinal()) && !masked(item));
    let mut by_size: Vec<&Item<'_>> = free.collect();
    by_size.sort_by_key(|item| Reverse(item.count(&s.budget).at_most));
    by_size
}

/// The tokens that the shortest cut of a message saves, in proportion to its characters.
fn saved_by_shortest_cut(s: &Situation<'_>, item: &Item<'_>) -> Tokens {
    let texts = cuttable_chars(&item.node.message, item.form());
    let all = texts.iter().sum::<u64>() + uncuttable_chars(&item.node.message);
    let lost: u64 = texts
        .iter()
        .map(|chars| chars.saturating_sub(SMALLEST_CUT))
        .sum();
    let tokens = u128::from(item.count(&s.budget).at_most.0);
    let saved = tokens * u128::from(lost) / u128::from(all.max(1));
    Tokens(u64::try_from(saved).unwrap_or(u64::MAX))
}

/// The length to which the texts of a message are cut, in proportion to the tokens it must lose;
/// none if that does not shorten it. A message that was cut before is cut at least to half, so that
/// texts of uneven density terminate soon.
fn cut_length(s: &Situation<'_>, item: &Item<'_>) -> Option<u32> {
    let now = item.count(&s.budget).at_most;
    let excess = s.effective.at_most.minus(s.target).0;
    let texts = cuttable_chars(&item.node.message, item.form());
    let longest = texts.iter().copied().max()?;
    let fixed = uncuttable_chars(&item.node.message);
    let text: u64 = texts.iter().sum();
    let per_excess = u128::from(excess) * u128::from(text + fixed);
    let lost = per_excess.div_ceil(u128::from(now.0.max(1)));
    let allowed = text.saturating_sub(u64::try_from(lost).unwrap_or(u64::MAX));
    let length = match item.form() {
        Some(_) => level(texts, allowed).min(longest / 2),
        None => level(texts, allowed),
    };
    let length = length.max(SMALLEST_CUT);
    let cuts = length < longest && surely_shrinks(item, now, length);
    cuts.then(|| u32::try_from(length).unwrap_or(u32::MAX))
}

/// Whether a message whose texts are cut to that length surely has fewer tokens: it loses at least
/// the characters of one token. With only a few characters less it may have the same number.
pub(super) fn surely_shrinks(item: &Item<'_>, tokens: Tokens, length: u64) -> bool {
    let texts = cuttable_chars(&item.node.message, item.form());
    let fixed = uncuttable_chars(&item.node.message);
    let before = texts.iter().sum::<u64>() + fixed;
    let after = texts.iter().map(|chars| *chars.min(&length)).sum::<u64>() + fixed;
    let tokens = u128::from(tokens.0);
    tokens * u128::from(before - after) >= u128::from(before)
}

/// Unicode scalars of the parts that no cut shortens.
pub(super) fn uncuttable_chars(message: &Message) -> u64 {
    let is_text = |part: &&Part| matches!(part, Part::Text(_) | Part::ToolResult { .. });
    let fixed = message.parts.iter().filter(|part| !is_text(part));
    let chars = fixed.map(|part| part.countable_text().chars().count() as u64);
    chars.sum()
}

/// The greatest level at which lengths cut to it sum to at most `allowed`.
pub(super) fn level(mut lengths: Vec<u64>, allowed: u64) -> u64 {
    lengths.sort_unstable();
    let mut left = allowed;
    let mut remaining = lengths.len() as u64;
    for length in lengths {
        if length > left / remaining {
            return left / remaining;
        }
        left -= length;
        remaining -= 1;
    }
    u64::MAX
}
