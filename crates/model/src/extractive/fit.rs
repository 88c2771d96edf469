//! Fitting a choice to a cap: as many units as their layout has room for.
//!
//! Layouts of nearly the same units share nearly all their lines, so lines are counted once and
//! summed; only the text that is kept is counted as a whole.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::CountTokens;
use super::corrections::CorrectedChoice;
use super::pool::Pool;
use super::terms::Folded;

/// The number of units after the first one that does not fit which are tried in the remaining room.
const FILLERS: usize = 12;
/// Estimated tokens around a quote.
const LINE: f32 = 5.0;

/// The number of interpolations; after them it bisects.
const GUESSES: usize = 6;

/// A layout that fits.
#[derive(Clone, Debug, Default)]
pub(super) struct Fitted {
    pub(super) units: Vec<usize>,
    pub(super) text: String,
    pub(super) tokens: u64,
}

/// The longest beginning of `chosen` whose layout has at most `cap` tokens, filled up with later
/// units, none of them without its correction. `None` if no unit fits.
pub(super) fn fit(
    pool: &Pool<'_>,
    chosen: &CorrectedChoice,
    cap: u64,
    count: CountTokens<'_>,
    lay_out: &dyn Fn(&[usize]) -> String,
) -> Option<Fitted> {
    let mut lines = Lines::new(count);
    let mut room = cap;
    // The sum of the lines differs from the count of the whole by a few tokens.
    loop {
        let units = beginning(pool, &chosen.units, room, &mut lines, lay_out);
        let units = fill(pool, chosen, units, room, &mut lines, lay_out);
        if units.is_empty() {
            return None;
        }
        let text = lay_out(&units);
        let tokens = count(&text);
        if tokens <= cap {
            return Some(Fitted {
                units,
                text,
                tokens,
            });
        }
        room = room.checked_sub(tokens - cap)?;
    }
}

/// Searches the longest fitting beginning by interpolation of estimates.
fn beginning(
    pool: &Pool<'_>,
    chosen: &[usize],
    room: u64,
    lines: &mut Lines<'_>,
    lay_out: &dyn Fn(&[usize]) -> String,
) -> Vec<usize> {
    let mut estimates = vec![0.0_f32];
    for &unit in chosen {
        let last = estimates[estimates.len() - 1];
        estimates.push(last + pool.units[unit].tokens + LINE);
    }
    // The largest number of units known to fit, and the smallest known not to.
    let (mut low, mut high) = (0, chosen.len() + 1);
    let (mut at, mut scale) = (0_usize, 0_u64);
    let mut guesses = 0..GUESSES;
    while low + 1 < high {
        let ahead = room as f32 - scale as f32;
        let guess = match guesses.next() {
            Some(_) => estimates
                .partition_point(|&e| e - estimates[at] <= ahead)
                .saturating_sub(1),
            None => low.midpoint(high),
        };
        at = guess.clamp(low + 1, high - 1);
        scale = lines.sum(&lay_out(&chosen[..at]));
        if scale <= room {
            low = at;
        } else {
            high = at;
        }
    }
    chosen[..low].to_vec()
}

fn fill(
    pool: &Pool<'_>,
    chosen: &CorrectedChoice,
    mut units: Vec<usize>,
    room: u64,
    lines: &mut Lines<'_>,
    lay_out: &dyn Fn(&[usize]) -> String,
) -> Vec<usize> {
    let later = chosen.units.get(units.len() + 1..).unwrap_or_default();
    let mut used = lines.sum(&lay_out(&units));
    for &unit in later.iter().take(FILLERS) {
        let is_too_long = used as f32 + pool.units[unit].tokens > room as f32;
        if is_too_long || chosen.lacks_correction(unit, &units) {
            continue;
        }
        units.push(unit);
        match lines.sum(&lay_out(&units)) {
            more if more <= room => used = more,
            _ => drop(units.pop()),
        }
    }
    units
}

/// Counts texts by their lines, each distinct line once.
struct Lines<'a> {
    count: CountTokens<'a>,
    known: HashMap<Box<str>, u64, BuildHasherDefault<Folded>>,
}

impl<'a> Lines<'a> {
    fn new(count: CountTokens<'a>) -> Lines<'a> {
        Lines {
            count,
            known: HashMap::default(),
        }
    }

    fn sum(&mut self, text: &str) -> u64 {
        let mut sum = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let end = line_end(rest);
            let (line, after) = rest.split_at(end);
            rest = after;
            sum += match self.known.get(line) {
                Some(&tokens) => tokens,
                None => {
                    let tokens = (self.count)(line);
                    self.known.insert(line.into(), tokens);
                    tokens
                }
            };
        }
        sum
    }
}

/// The end of a line with the empty lines after it: encodings join them.
fn line_end(text: &str) -> usize {
    let Some(end) = text.find('\n') else {
        return text.len();
    };
    let empty = text[end..].bytes().take_while(|&b| b == b'\n').count();
    end + empty
}
