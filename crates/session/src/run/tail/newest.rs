//! The room for the results of the newest reply, whose model has not seen them: they are the only
//! results that are never masked, so they are cut before they are recorded.

use unisono_context::Tokens;

use super::{Headroom, NOTE, Weight, active_weights, minimum_tokens};

/// The text in place of a result that gets no room at all; `again` is the tool that gives it if it is
/// called alone.
pub fn left_out_note(again: Option<&str>) -> String {
    match again {
        Some(tool) => format!("[left out: no room; call {tool} alone]"),
        None => "[left out: no room]".to_owned(),
    }
}

/// The maximum number of tokens of such a note.
const LEFT_OUT_TOKENS: Tokens = Tokens(20);

/// The minimum share of a result that is cut: its note, and some words.
const LEAST_SHARE: Tokens = Tokens(64);

/// The tokens for the results of the newest reply, so that the model can be called again after it:
/// old results are masked, and older rounds summarised, if they may be.
pub fn results_room(weights: &[Weight], room: Headroom) -> Tokens {
    let replies = active_weights(weights).filter_map(|weight| match weight {
        Weight::Reply(tokens) => Some(*tokens),
        _ => None,
    });
    let (rounds, newest) = replies.fold((0, Tokens::ZERO), |(n, _), tokens| (n + 1, tokens));
    let older = minimum_tokens(weights, room.note).minus(newest);
    let older = match room.summary_cap() {
        Some(cap) if rounds > 1 => older.min(cap),
        _ => older,
    };
    room.tokens.minus(older + newest)
}

/// The limit of results that do not fit this room: what the next reply needs stays free, but at most
/// half.
pub fn results_limit(results_room: Tokens, room: Headroom) -> Tokens {
    let half = Tokens(results_room.0 / 2);
    results_room.minus(room.next_reply()).max(half)
}

/// Whether this number of results of the newest reply can be brought into the room at all.
pub(in crate::run) fn takes_results(weights: &[Weight], count: usize, room: Headroom) -> bool {
    let around = room.note.minus(NOTE);
    left_out_tokens(count, around) <= results_room(weights, room)
}

/// Which results of this size get no room: if the limit is too small for a share of each, the first
/// ones get a share.
pub fn without_share(costs: &[Tokens], limit: Tokens, around: Tokens) -> Vec<bool> {
    let least = LEAST_SHARE + around;
    let is_large = |cost: &Tokens| *cost > least;
    let small: Tokens = costs.iter().copied().filter(|cost| !is_large(cost)).sum();
    let large = costs.iter().filter(|cost| is_large(cost)).count() as u64;
    let none = LEFT_OUT_TOKENS + around;
    let free = limit.minus(small);
    let mut shared = match least.times(large) <= free {
        true => large,
        false => free.minus(none.times(large)).0 / least.minus(none).0.max(1),
    };
    let each = costs.iter().map(|cost| {
        if !is_large(cost) || shared > 0 {
            shared = shared.saturating_sub(u64::from(is_large(cost)));
            return false;
        }
        true
    });
    each.collect()
}

/// The tokens of this number of results without room.
pub fn left_out_tokens(count: usize, around: Tokens) -> Tokens {
    (LEFT_OUT_TOKENS + around).times(count as u64)
}

#[cfg(test)]
mod tests;
