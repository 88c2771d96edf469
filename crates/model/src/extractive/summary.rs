//! Summaries: read, weigh, choose, lay out, and fit to the cap by exact counts.

use std::borrow::Cow;

use unisono_context::{Ordinal, Tokens};

use super::pool::Pool;
use super::render::{self, Coverage};
use super::select::{Preference, choose};
use super::{Style, SummaryDraft, SummaryInput, facts, prior, score};
use crate::redact::redact;

const PREFERENCE: Preference = Preference {
    decay: 0.4,
    sibling: 1.08,
    line: 5.0,
    power: 1.0,
};

/// Units are chosen for somewhat more than the cap, since their tokens are estimates.
const MARGIN: f32 = 1.5;
/// How many of the units that were chosen last are tried one by one in what room is left.
const FILLERS: usize = 12;
/// How many units are tried when the cap may be too small for any.
const LAST_TRIES: usize = 200;

/// See [`super::summarise`].
pub(super) fn summarise(input: &SummaryInput<'_>) -> SummaryDraft {
    let texts: Vec<Cow<'_, str>> = input.passages.iter().map(|p| redact(&p.text)).collect();
    let earlier = input.prior.map(redact);
    let mut pool = Pool::new();
    let covered = earlier
        .as_deref()
        .and_then(|summary| prior::add(&mut pool, summary));
    for (passage, text) in input.passages.iter().zip(&texts) {
        pool.add_passage(passage, text);
    }
    let wanted = input
        .instructions
        .map(|text| pool.known(text))
        .unwrap_or_default();
    let worth = score::weigh(&pool, &wanted);
    let chosen = choose(&pool, &worth, PREFERENCE, input.cap.0 as f32 * MARGIN);
    let ordinals = || input.passages.iter().map(|passage| passage.ordinal);
    let oldest = pool.units.iter().filter_map(|unit| unit.ordinal);
    let coverage = Coverage {
        first: covered.or_else(|| oldest.chain(ordinals()).min()),
        last: ordinals().max(),
    };
    let (units, text, tokens) = fit(&pool, &chosen, coverage, input);
    let key_facts = facts::extract(&mut pool, &worth, input.prior_facts, input.count);
    SummaryDraft {
        text,
        tokens: Tokens(tokens),
        key_facts,
        quoted: quoted(&pool, &units),
    }
}

/// The ordinals of units, each once, in order.
pub(super) fn quoted(pool: &Pool<'_>, units: &[usize]) -> Vec<Ordinal> {
    let mut quoted: Vec<Ordinal> = units
        .iter()
        .filter_map(|&u| pool.units[u].ordinal)
        .collect();
    quoted.sort_unstable();
    quoted.dedup();
    quoted
}

/// The longest beginning of the choice whose layout fits the cap, topped up.
fn fit(
    pool: &Pool<'_>,
    chosen: &[usize],
    coverage: Coverage,
    input: &SummaryInput<'_>,
) -> (Vec<usize>, String, u64) {
    let lay_out = |units: &[usize]| match input.style {
        Style::Rolling => render::rolling(pool, units, coverage),
        Style::Paragraph => render::paragraph(pool, units, coverage),
    };
    let fits = |units: &[usize]| {
        let text = lay_out(units);
        let tokens = (input.count)(&text);
        (tokens <= input.cap.0).then_some((text, tokens))
    };
    let (mut low, mut high) = (0, chosen.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(&chosen[..middle]).is_some() {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let mut units = chosen[..low].to_vec();
    let mut best = fits(&units).filter(|_| low > 0);
    for &unit in chosen[low..].iter().skip(1).take(FILLERS) {
        units.push(unit);
        match fits(&units) {
            Some(better) => best = Some(better),
            None => drop(units.pop()),
        }
    }
    match best {
        Some((text, tokens)) => (units, text, tokens),
        None => single(pool, input).unwrap_or_default(),
    }
}

/// One quote without any layout: better than nothing under a tiny cap.
fn single(pool: &Pool<'_>, input: &SummaryInput<'_>) -> Option<(Vec<usize>, String, u64)> {
    let mut shortest: Vec<usize> = (0..pool.units.len()).collect();
    shortest.sort_by(|&a, &b| {
        pool.units[a]
            .tokens
            .total_cmp(&pool.units[b].tokens)
            .then(a.cmp(&b))
    });
    shortest.into_iter().take(LAST_TRIES).find_map(|unit| {
        let mut text = String::new();
        if let Some(ordinal) = pool.units[unit].ordinal {
            text = format!("{ordinal} ");
        }
        render::quote(pool, &[unit], &mut text);
        let tokens = (input.count)(&text);
        (tokens <= input.cap.0).then(|| (vec![unit], text, tokens))
    })
}
